// SPDX-License-Identifier: MIT
#include "kokkos/layers/spherical_norm/device_spherical_norm.h"

#include "src/numbers/number_types.h"

namespace equi {

namespace {

// One team of lanes per row.
template <bool BACKWARD, class T, class X, class Y>
struct SphericalNormKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES;
  SphericalNormRow<T, X, Y, LANES> rows;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    if constexpr (BACKWARD)
      rows.backward(team.league_rank(), team.team_rank(), SumOfLanes<LANES>());
    else
      rows.forward(team.league_rank(), team.team_rank(), SumOfLanes<LANES>());
  }
};

}    // namespace

template <class T>
DeviceSphericalNorm<T>::DeviceSphericalNorm(const DeviceExec &exec, const SphericalNorm &layer, const Irreps &irreps,
                                            const FeatureLayout &layout)
    : shape_(layer, irreps), layout_(layout) {
  assign(exec, constants_, shape_.constants(layer));
}

template <class T>
void DeviceSphericalNorm<T>::forward(const DeviceExec &exec, int count, FeatureRows<const R> x, FeatureRows<R> y,
                                     int direction) const {
  if (count == 0) return;
  const SphericalNormKernel<false, T, const T, T> kernel{{shape_, constants_.data(), layout_, x, y, direction}};
  Kokkos::parallel_for("equi:spherical_norm", DeviceTeams<>(exec, count, DeviceTraits<>::LANES, 1), kernel);
}

template <class T>
void DeviceSphericalNorm<T>::backward(const DeviceExec &exec, int count, FeatureRows<R> x, FeatureRows<const R> y_adj,
                                      int direction) const {
  if (count == 0) return;
  const SphericalNormKernel<true, T, T, const T> kernel{{shape_, constants_.data(), layout_, x, y_adj, direction}};
  Kokkos::parallel_for("equi:spherical_norm_adjoint", DeviceTeams<>(exec, count, DeviceTraits<>::LANES, 1), kernel);
}

EQUI_INSTANTIATE_NUMBERS(DeviceSphericalNorm)

}    // namespace equi
