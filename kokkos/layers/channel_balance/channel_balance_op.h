// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance in host memory.
#ifndef EQUI_CHANNEL_BALANCE_OP_H
#define EQUI_CHANNEL_BALANCE_OP_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/channel_balance/channel_balance_layer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace equi {

template <class T>
class ChannelBalanceOp {
  using R = Real<T>;

 public:
  ChannelBalanceOp(const ChannelBalance &layer, const FeatureLayout &layout) : channels_(layer, layout) {}

  // In the order of rows, so that sums do not depend on the number of threads.
  void sum(const HostKernels<T> &, int count, FeatureRows<const R> rows, double *sums) const {
    std::fill_n(sums, PLANES<T> * channels_.count, 0.0);
    for_numbers(count, rows, [&](R number, int k) { sums[k] += number; });
  }
  void add(const HostKernels<T> &, int count, FeatureRows<R> rows, const double *numbers) const {
    for_numbers(count, rows, [&](R &number, int k) { number = static_cast<R>(number + numbers[k]); });
  }
  std::size_t bytes() const { return 0; }

 private:
  // f(number of a row, its position among the sums)
  template <class Rows, class F>
  void for_numbers(int count, const Rows &rows, const F &f) const {
    for (int64_t row = 0; row < count; row++)
      for (int plane = 0; plane < PLANES<T>; plane++) {
        auto *numbers = rows.group(channels_.group) + row * channels_.group.width() + plane * channels_.group.channels;
        for (int c = 0; c < channels_.count; c++) f(numbers[channels_.first + c], plane * channels_.count + c);
      }
  }

  BalancedChannels channels_;
};

}    // namespace equi

#endif
