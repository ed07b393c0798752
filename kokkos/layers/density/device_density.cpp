// SPDX-License-Identifier: MIT
// The density normalization on a device: its kernels and their launches.
#include "kokkos/layers/density/device_density.h"

#include "kokkos/layer_interface/device_rows.h"
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
DeviceDensity<T>::DeviceDensity(const DeviceExec &exec, DensityConstants constants)
    : constants_(std::move(constants)), radial_set_(exec, constants_.radial_set) {
  assign(exec, powers_, constants_.powers);
  constants_.powers.clear();
}

template <class T>
void DeviceDensity<T>::evaluate(const DeviceExec &exec, const DeviceBatchEdges &edges, const D *distance,
                                const int *pair) {
  const int64_t n = edges.count, first = edges.first;
  D *value = value_.reserve(n), *derivative = derivative_.reserve(n);
  if (!constants_.radial_set.exact()) {
    const typename DeviceRadialSet::Finder find = radial_set_.finder();
    const double *powers = powers_.data();
    const int num_coefficients = constants_.radial_set.num_coefficients();
    Kokkos::parallel_for(
        "equi:density", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          if (!edges.contains(first + c)) return;
          const D r = distance[first + c];
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
    radial_set_.fetch(exec, edges, distance, pair, edges_);
    host_value_.resize(n);
    host_derivative_.resize(n);
    for (int64_t c = 0; c < n; c++)
      constants_.evaluate(edges_.function[c], edges_.distance[c], &host_value_[c], &host_derivative_[c]);
    copy_to_device(exec, value, host_value_.data(), n);
    copy_to_device(exec, derivative, host_derivative_.data(), n);
  }
}

template <class T>
void DeviceDensity<T>::forward(DeviceBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y, D *norm, int direction) {
  const DeviceExec &exec = batch.evaluation.exec;
  const DeviceBatchEdges edges = batch.edges();
  evaluate(exec, edges, batch.evaluation.edges.distance(direction), batch.evaluation.edges.pair());
  const D *value = value_.data();
  const double offset = constants_.offset, factor = constants_.factor;
  const int64_t *begin = edges.begin;
  const int64_t first = edges.first;
  Kokkos::parallel_for(
      "equi:density_norm", DeviceRange(exec, 0, batch.count), KOKKOS_LAMBDA(int64_t a) {
        D sum = 0;
        for (int64_t e = begin[a] - first; e < begin[a + 1] - first; e++) sum += value[e];
        norm[a] = offset + factor * sum;
      });
  for (const FeatureGroup &group : constants_.layout.groups())
    normalize<T>(exec, batch.count, group, channel_of<const T>(x, group, 0, direction), norm,
                 channel_of<T>(y, group, 0, direction), "equi:normalize");
}

template <class T>
void DeviceDensity<T>::backward(DeviceBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y_adj, const D *norm,
                                int direction) {
  const DeviceExec &exec = batch.evaluation.exec;
  const DeviceBatchEdges edges = batch.edges();
  evaluate(exec, edges, batch.evaluation.edges.distance(direction), batch.evaluation.edges.pair());
  D *dot = dot_.reserve(batch.count);
  if (constants_.layout.num_groups() == 0) device_zero(exec, dot, batch.count);
  for (int g = 0; g < constants_.layout.num_groups(); g++) {
    const FeatureGroup &group = constants_.layout.group(g);
    const auto to = channel_of<T>(x, group, 0, direction);
    const auto from = channel_of<const T>(y_adj, group, 0, direction);
    Kokkos::parallel_for("equi:row_products", DeviceTeams<>(exec, batch.count, DeviceTraits<>::LANES, 1),
                         RowProducts<T>{GroupNumbers<T>(group), to, from, g > 0, dot});
    normalize<T>(exec, batch.count, group, from, norm, to, "equi:normalize_adjoint");
  }
  const D *derivative = derivative_.data();
  const double factor = constants_.factor;
  const int64_t *begin = edges.begin;
  const int64_t first = edges.first;
  D *distance_adj = batch.evaluation.edges.adjoint(direction);
  const int stride = batch.evaluation.edges.num_y();
  Kokkos::parallel_for(
      "equi:density_adjoint", DeviceRange(exec, 0, batch.count), KOKKOS_LAMBDA(int64_t a) {
        const D adjoint = -factor * dot[a] / (norm[a] * norm[a]);    // dE/dnorm times factor
        for (int64_t e = begin[a]; e < begin[a + 1]; e++) distance_adj[e * stride] += adjoint * derivative[e - first];
      });
}

EQUI_INSTANTIATE_NUMBERS(DeviceDensity)

}    // namespace equi
