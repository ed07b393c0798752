// SPDX-License-Identifier: MIT
// The density normalization on a device: its kernels and their launches.
#include "kokkos/layers/density/device_density.h"

#include "kokkos/layers/device_rows.h"
#include "src/numbers/number_types.h"

#include <utility>

namespace equi {

namespace {

// The numbers of one group of a feature, row by row.
template <class T>
struct GroupNumbers {
  int channels, per_row, planes;    // per_row: numbers of type T

  explicit GroupNumbers(const FeatureGroup &group)
      : channels(group.channels), per_row(group.irrep.dim() * group.channels), planes(group.planes) {}
  // Position of number c of row a.
  KOKKOS_FORCEINLINE_FUNCTION int64_t position(int64_t a, int c) const {
    return planes * (a * per_row + c / channels * channels) + c % channels;
  }
};

// dot[a] (+)= x . g over the numbers of one group; one team of lanes per atom.
template <class T>
struct RowProducts {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  using D = DoubleOf<T>;
  GroupNumbers<T> numbers;
  Pointer<const T> x, g;
  bool add;
  D *dot;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    constexpr int LANES = DeviceTraits<>::LANES;
    const int64_t a = team.league_rank();
    D sum[1] = {0};
    for (int c = team.team_rank(); c < numbers.per_row; c += LANES)
      sum[0] += static_cast<D>(x[numbers.position(a, c)] * g[numbers.position(a, c)]);
    store_lane_sums<LANES>(sum, team.team_rank(), dot + a, add);
  }
};

// to = from / norm
template <class T>
void normalize(const DeviceExec &exec, int num_atoms, const FeatureGroup &group, Pointer<const T> from,
               const DoubleOf<T> *norm, Pointer<T> to, const char *label) {
  const GroupNumbers<T> numbers(group);
  Kokkos::parallel_for(
      label, DeviceRange(exec, 0, static_cast<int64_t>(num_atoms) * numbers.per_row), KOKKOS_LAMBDA(int64_t k) {
        const int64_t a = k / numbers.per_row, at = numbers.position(a, static_cast<int>(k % numbers.per_row));
        put(to, at, static_cast<T>(DoubleOf<T>(1.0) / norm[a]) * from[at]);
      });
}

}    // namespace

template <class T>
DeviceDensity<T>::DeviceDensity(const DeviceExec &exec, HostDensity<T> density)
    : density_(std::move(density)), radial_set_(exec, density_.radial_set()) {
  if (density_.radial_set().exact()) return;
  std::vector<double> powers;
  for (int k = 0; k < density_.radial_set().num_functions(); k++)
    powers.insert(powers.end(), density_.powers(k).begin(), density_.powers(k).end());
  assign(exec, powers_, powers);
}

template <class T>
template <class G>
void DeviceDensity<T>::evaluate(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance,
                                const int *pair) {
  const int64_t n = batch.count, first = batch.first;
  D *value = value_.reserve(n), *derivative = derivative_.reserve(n);
  if (!density_.radial_set().exact()) {
    const typename DeviceRadialSet::Finder find = radial_set_.finder();
    const double *powers = powers_.data();
    const int num_coefficients = density_.radial_set().num_coefficients();
    Kokkos::parallel_for(
        "equi:density", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          if (!batch.contains(first + c)) return;
          const D r = static_cast<D>(distance[first + c]);
          const auto found = find.bin_of(value_of(r), pair[first + c]);
          const double *row = powers + static_cast<int64_t>(found.bin) * num_coefficients;
          const D fraction = make_number<D>(found.fraction, tangent_of(r) * found.bins_per_length);
          D v = row[num_coefficients - 1], d = 0;
          for (int k = num_coefficients - 2; k >= 0; k--) {
            d = d * fraction + v;
            v = v * fraction + row[k];
          }
          value[c] = v;
          derivative[c] = d * found.bins_per_length;
        });
  } else if (n > 0) {
    radial_set_.fetch(exec, batch, distance, pair, edges_);
    host_value_.resize(n);
    host_derivative_.resize(n);
    for (int64_t c = 0; c < n; c++)
      density_.evaluate(edges_.function[c], edges_.distance[c], &host_value_[c], &host_derivative_[c]);
    copy_to_device(exec, value, host_value_.data(), n);
    copy_to_device(exec, derivative, host_derivative_.data(), n);
  }
}

template <class T>
template <class G>
void DeviceDensity<T>::forward(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance,
                               const int *pair, FeatureRows<const R> x, FeatureRows<R> y, D *norm, int direction) {
  evaluate(exec, batch, distance, pair);
  const D *value = value_.data();
  const double offset = density_.offset(), factor = density_.factor();
  const int64_t *begin = batch.begin;
  const int64_t first = batch.first;
  Kokkos::parallel_for(
      "equi:density_norm", DeviceRange(exec, 0, batch.num_atoms), KOKKOS_LAMBDA(int64_t a) {
        D sum = 0;
        for (int64_t e = begin[a] - first; e < begin[a + 1] - first; e++) sum += value[e];
        norm[a] = offset + factor * sum;
      });
  for (const FeatureGroup &group : density_.layout().groups()) {
    normalize<T>(exec, batch.num_atoms, group, channel_of<const T>(x, group, 0, direction), norm,
                 channel_of<T>(y, group, 0, direction), "equi:normalize");
  }
}

template <class T>
template <class G>
void DeviceDensity<T>::backward(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance,
                                const int *pair, FeatureRows<R> x, FeatureRows<const R> y_adj, const D *norm,
                                G *distance_adj, int stride, int direction) {
  evaluate(exec, batch, distance, pair);
  D *dot = dot_.reserve(batch.num_atoms);
  if (density_.layout().num_groups() == 0) device_zero(exec, dot, batch.num_atoms);
  for (int g = 0; g < density_.layout().num_groups(); g++) {
    const FeatureGroup &group = density_.layout().group(g);
    const auto to = channel_of<T>(x, group, 0, direction);
    const auto from = channel_of<const T>(y_adj, group, 0, direction);
    Kokkos::parallel_for("equi:row_products", DeviceTeams<>(exec, batch.num_atoms, DeviceTraits<>::LANES, 1),
                         RowProducts<T>{GroupNumbers<T>(group), to, from, g > 0, dot});
    normalize<T>(exec, batch.num_atoms, group, from, norm, to, "equi:normalize_adjoint");
  }
  const D *derivative = derivative_.data();
  const double factor = density_.factor();
  const int64_t *begin = batch.begin;
  const int64_t first = batch.first;
  Kokkos::parallel_for(
      "equi:density_adjoint", DeviceRange(exec, 0, batch.num_atoms), KOKKOS_LAMBDA(int64_t a) {
        const D adjoint = -factor * dot[a] / (norm[a] * norm[a]);    // dE/dnorm times factor
        for (int64_t e = begin[a]; e < begin[a + 1]; e++)
          distance_adj[e * stride] += static_cast<G>(adjoint * derivative[e - first]);
      });
}

template <class T>
std::size_t DeviceDensity<T>::bytes() const {
  return radial_set_.bytes() + powers_.bytes() + value_.bytes() + derivative_.bytes() + dot_.bytes() + edges_.bytes();
}

#define EQUI_INSTANTIATE(T, G)                                                                                       \
  template void DeviceDensity<T>::forward<G>(const DeviceExec &, const DeviceBatchEdges &, const G *, const int *,   \
                                             FeatureRows<const Real<T>>, FeatureRows<Real<T>>, DoubleOf<T> *, int);  \
  template void DeviceDensity<T>::backward<G>(const DeviceExec &, const DeviceBatchEdges &, const G *, const int *,  \
                                              FeatureRows<Real<T>>, FeatureRows<const Real<T>>, const DoubleOf<T> *, \
                                              G *, int, int);

EQUI_INSTANTIATE_NUMBERS(DeviceDensity)
EQUI_FOR_PRECISIONS(EQUI_INSTANTIATE)
#undef EQUI_INSTANTIATE

}    // namespace equi
