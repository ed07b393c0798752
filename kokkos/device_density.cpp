#include "device_density.h"

#include <utility>

namespace equi {

namespace {

// dot[a] (+)= x . g over the numbers of one group; one team of lanes per atom.
template <class Exec, class T>
struct RowProducts {
  using Member = typename Kokkos::TeamPolicy<Exec>::member_type;
  int width;
  const T *x, *g;
  bool add;
  double *dot;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    constexpr int LANES = DeviceTraits<Exec>::LANES;
    const int64_t a = team.league_rank();
    double sum[1] = {0};
    for (int c = team.team_rank(); c < width; c += LANES)
      sum[0] += static_cast<double>(x[a * width + c] * g[a * width + c]);
    store_lane_sums<LANES>(sum, team.team_rank(), dot + a, add);
  }
};

}    // namespace

template <class Exec, class T>
DeviceDensity<Exec, T>::DeviceDensity(const Exec &exec, DensityOp<T> op)
    : op_(std::move(op)), radial_set_(exec, op_.radial_set()) {
  if (op_.radial_set().exact()) return;
  std::vector<double> powers;
  for (int k = 0; k < op_.radial_set().num_functions(); k++)
    powers.insert(powers.end(), op_.powers(k).begin(), op_.powers(k).end());
  assign(exec, powers_, powers);
}

template <class Exec, class T>
template <class G>
void DeviceDensity<Exec, T>::evaluate(const Exec &exec, const DeviceEdgeChunk &chunk, const G *distance,
                                      const int *pair) {
  const int64_t n = chunk.count, first = chunk.first;
  double *value = value_.reserve(n), *derivative = derivative_.reserve(n);
  if (!op_.radial_set().exact()) {
    const typename DeviceRadialSet<Exec>::Finder find = radial_set_.finder();
    const double *powers = powers_.data();
    const int num_coefficients = op_.radial_set().num_coefficients();
    Kokkos::parallel_for(
        "equi:density", DeviceRange<Exec>(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          const auto place = find.place(static_cast<double>(distance[first + c]), pair[first + c]);
          const double *row = powers + static_cast<int64_t>(place.bin) * num_coefficients;
          double v = row[num_coefficients - 1], d = 0;
          for (int k = num_coefficients - 2; k >= 0; k--) {
            d = d * place.fraction + v;
            v = v * place.fraction + row[k];
          }
          value[c] = v;
          derivative[c] = d / place.spacing;
        });
  } else if (n > 0) {
    radial_set_.fetch(exec, chunk, distance, pair, edges_);
    host_value_.resize(n);
    host_derivative_.resize(n);
    for (int64_t c = 0; c < n; c++)
      op_.evaluate(edges_.function[c], edges_.distance[c], &host_value_[c], &host_derivative_[c]);
    copy_to_device(exec, value, host_value_.data(), n);
    copy_to_device(exec, derivative, host_derivative_.data(), n);
  }
}

template <class Exec, class T>
template <class G>
void DeviceDensity<Exec, T>::forward(const Exec &exec, const DeviceEdgeChunk &chunk, const G *distance, const int *pair,
                                     FeatureRows<const T> x, FeatureRows<T> y, double *norm) {
  evaluate(exec, chunk, distance, pair);
  const double *value = value_.data();
  const double offset = op_.offset(), factor = op_.factor();
  const int64_t *begin = chunk.begin;
  const int64_t first = chunk.first;
  Kokkos::parallel_for(
      "equi:density_norm", DeviceRange<Exec>(exec, 0, chunk.num_atoms), KOKKOS_LAMBDA(int64_t a) {
        double sum = 0;
        for (int64_t e = begin[a] - first; e < begin[a + 1] - first; e++) sum += value[e];
        norm[a] = offset + factor * sum;
      });
  for (int g = 0; g < op_.layout().num_groups(); g++) {
    const FeatureGroup &group = op_.layout().group(g);
    const int width = group.width();
    const T *from = x.group(group);
    T *to = y.group(group);
    Kokkos::parallel_for(
        "equi:normalize", DeviceRange<Exec>(exec, 0, static_cast<int64_t>(chunk.num_atoms) * width),
        KOKKOS_LAMBDA(int64_t k) { to[k] = static_cast<T>(1.0 / norm[k / width]) * from[k]; });
  }
}

template <class Exec, class T>
template <class G>
void DeviceDensity<Exec, T>::backward(const Exec &exec, const DeviceEdgeChunk &chunk, const G *distance,
                                      const int *pair, FeatureRows<T> x, FeatureRows<const T> y_adj, const double *norm,
                                      G *distance_adj, int stride) {
  evaluate(exec, chunk, distance, pair);
  double *dot = dot_.reserve(chunk.num_atoms);
  if (op_.layout().num_groups() == 0) device_zero(exec, dot, chunk.num_atoms);
  for (int g = 0; g < op_.layout().num_groups(); g++) {
    const FeatureGroup &group = op_.layout().group(g);
    const int width = group.width();
    T *to = x.group(group);
    const T *from = y_adj.group(group);
    Kokkos::parallel_for("equi:row_products",
                         Kokkos::TeamPolicy<Exec>(exec, chunk.num_atoms, DeviceTraits<Exec>::LANES, 1),
                         RowProducts<Exec, T>{width, to, from, g > 0, dot});
    Kokkos::parallel_for(
        "equi:normalize_adjoint", DeviceRange<Exec>(exec, 0, static_cast<int64_t>(chunk.num_atoms) * width),
        KOKKOS_LAMBDA(int64_t k) { to[k] = static_cast<T>(1.0 / norm[k / width]) * from[k]; });
  }
  const double *derivative = derivative_.data();
  const double factor = op_.factor();
  const int64_t *begin = chunk.begin;
  const int64_t first = chunk.first;
  Kokkos::parallel_for(
      "equi:density_adjoint", DeviceRange<Exec>(exec, 0, chunk.num_atoms), KOKKOS_LAMBDA(int64_t a) {
        const double adjoint = -factor * dot[a] / (norm[a] * norm[a]);    // dE/dnorm times factor
        for (int64_t e = begin[a]; e < begin[a + 1]; e++)
          distance_adj[e * stride] += static_cast<G>(adjoint * derivative[e - first]);
      });
}

template <class Exec, class T>
std::size_t DeviceDensity<Exec, T>::bytes() const {
  return radial_set_.bytes() + powers_.bytes() + value_.bytes() + derivative_.bytes() + dot_.bytes() + edges_.bytes();
}

using DeviceExec = Kokkos::DefaultExecutionSpace;
#define EQUI_INSTANTIATE(T, G)                                                                                         \
  template void DeviceDensity<DeviceExec, T>::forward<G>(const DeviceExec &, const DeviceEdgeChunk &, const G *,       \
                                                         const int *, FeatureRows<const T>, FeatureRows<T>, double *); \
  template void DeviceDensity<DeviceExec, T>::backward<G>(const DeviceExec &, const DeviceEdgeChunk &, const G *,      \
                                                          const int *, FeatureRows<T>, FeatureRows<const T>,           \
                                                          const double *, G *, int);

template class DeviceDensity<DeviceExec, float>;
template class DeviceDensity<DeviceExec, double>;
EQUI_INSTANTIATE(float, float)
EQUI_INSTANTIATE(float, double)
EQUI_INSTANTIATE(double, double)
#undef EQUI_INSTANTIATE

}    // namespace equi
