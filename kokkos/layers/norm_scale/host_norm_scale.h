// SPDX-License-Identifier: MIT
// The scale by norms on the host.
#ifndef EQUI_HOST_NORM_SCALE_H
#define EQUI_HOST_NORM_SCALE_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/norm_scale/norm_scale_rows.h"
#include "src/layers/norm_scale.h"

namespace equi {

template <class T>
class HostNormScale {
  using R = Real<T>;

 public:
  HostNormScale(const NormScale &layer, const FeatureLayout &layout)
      : layout_(layout), offset_(layer.offset), factor_(layer.factor) {
    check_norm_blocks(layout);
  }
  void forward(const HostKernels<T> &, int64_t count, FeatureRows<const R> x, FeatureRows<R> y, int direction) const {
    const NormScaleRows<T, const T, T> rows(layout_, offset_, factor_, x, y, direction);
    for_channels(count, [&](int64_t row, int u) { rows.template forward<CHANNEL_PAD>(row, u); });
  }
  // x is replaced by its adjoint.
  void backward(const HostKernels<T> &, int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj,
                int direction) const {
    const NormScaleRows<T, T, const T> rows(layout_, offset_, factor_, x, y_adj, direction);
    for_channels(count, [&](int64_t row, int u) { rows.template backward<CHANNEL_PAD>(row, u); });
  }
  std::size_t bytes() const { return 0; }

 private:
  // f(row, first channel) for blocks of channels.
  template <class F>
  void for_channels(int64_t count, const F &f) const {
    for (int64_t row = 0; row < count; row++)
      for (int u = 0; u < padded(layout_.block(0).mul); u += CHANNEL_PAD) f(row, u);
  }

  FeatureLayout layout_;
  double offset_, factor_;
};

}    // namespace equi

#endif
