// SPDX-License-Identifier: MIT
#include "kokkos/layers/layer_norm/device_layer_norm.h"

#include "src/numbers/number_types.h"

namespace equi {

namespace {

// One team of lanes per row. X, Y: Pointer<T> or Pointer<const T> to the first row.
template <bool BACKWARD, class T, class X, class Y>
struct LayerNormKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES;
  LayerNormRow<T, LANES> row;
  X x;
  Y y;
  int64_t width;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t at = team.league_rank() * width;
    if constexpr (BACKWARD)
      row.backward(x + at, y + at, team.team_rank(), SumOfLanes<LANES>());
    else
      row.forward(x + at, y + at, team.team_rank(), SumOfLanes<LANES>());
  }
};

}    // namespace

template <class T>
DeviceLayerNorm<T>::DeviceLayerNorm(const DeviceExec &exec, const LayerNorm &layer, const FeatureLayout &layout)
    : group_(layout.group(0)), num_channels_(static_cast<int>(layer.weight.size())), epsilon_(layer.epsilon) {
  assign(exec, constants_, layer_norm_constants(layer, layout));
}

template <class T>
LayerNormRow<T, DeviceTraits<>::LANES> DeviceLayerNorm<T>::row() const {
  return LayerNormRow<T, DeviceTraits<>::LANES>::from(constants_.data(), group_.channels, num_channels_, epsilon_);
}

template <class T>
void DeviceLayerNorm<T>::forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y,
                                 int direction) const {
  if (count == 0) return;
  const LayerNormKernel<false, T, Pointer<const T>, Pointer<T>> kernel{
      row(), make_pointer<const T>(x.group(group_), group_.tangents(direction)),
      make_pointer<T>(y.group(group_), group_.tangents(direction)), group_.width()};
  Kokkos::parallel_for("equi:layer_norm", DeviceTeams<>(exec, count, DeviceTraits<>::LANES, 1), kernel);
}

template <class T>
void DeviceLayerNorm<T>::backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj,
                                  int direction) const {
  if (count == 0) return;
  const LayerNormKernel<true, T, Pointer<T>, Pointer<const T>> kernel{
      row(), make_pointer<T>(x.group(group_), group_.tangents(direction)),
      make_pointer<const T>(y_adj.group(group_), group_.tangents(direction)), group_.width()};
  Kokkos::parallel_for("equi:layer_norm_adjoint", DeviceTeams<>(exec, count, DeviceTraits<>::LANES, 1), kernel);
}

EQUI_INSTANTIATE_NUMBERS(DeviceLayerNorm)

}    // namespace equi
