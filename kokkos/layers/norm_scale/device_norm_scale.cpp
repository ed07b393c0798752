// SPDX-License-Identifier: MIT
#include "kokkos/layers/norm_scale/device_norm_scale.h"

#include "kokkos/layers/norm_scale/norm_scale_rows.h"

namespace equi {

template <class T>
DeviceNormScale<T>::DeviceNormScale(const NormScale &layer, const FeatureLayout &layout)
    : layout_(layout), offset_(layer.offset), factor_(layer.factor) {
  check_norm_blocks(layout);
}

template <class T>
void DeviceNormScale<T>::forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y,
                                 int direction) const {
  const NormScaleRows<T, const T, T> rows(layout_, offset_, factor_, x, y, direction);
  const int channels = padded(layout_.block(0).mul);
  Kokkos::parallel_for(
      "equi:norm_scale", DeviceRange(exec, 0, static_cast<int64_t>(count) * channels),
      KOKKOS_LAMBDA(int64_t k) { rows.template forward<1>(k / channels, static_cast<int>(k % channels)); });
}

template <class T>
void DeviceNormScale<T>::backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj,
                                  int direction) const {
  const NormScaleRows<T, T, const T> rows(layout_, offset_, factor_, x, y_adj, direction);
  const int channels = padded(layout_.block(0).mul);
  Kokkos::parallel_for(
      "equi:norm_scale_adjoint", DeviceRange(exec, 0, static_cast<int64_t>(count) * channels),
      KOKKOS_LAMBDA(int64_t k) { rows.template backward<1>(k / channels, static_cast<int>(k % channels)); });
}

template class DeviceNormScale<float>;
template class DeviceNormScale<double>;
template class DeviceNormScale<Dual<float>>;
template class DeviceNormScale<Dual<double>>;

}    // namespace equi
