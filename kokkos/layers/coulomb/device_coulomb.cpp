// SPDX-License-Identifier: MIT
// The Coulomb energy of charges on a device: energies, derivatives and adjoints of charges.
#include "kokkos/layers/coulomb/device_coulomb.h"

#include "src/numbers/number_types.h"

#include <cstdint>

namespace equi {

template <class T>
DeviceCoulomb<T>::DeviceCoulomb(const DeviceExec &exec, const Coulomb &layer, const FeatureLayout &layout,
                                const std::vector<double> &scale)
    : function_(layer.function),
      channels_(coulomb_channels(layer, layout)),
      num_species_(static_cast<int>(scale.size())) {
  assign(exec, weights_, layer.weights);
  assign(exec, scale_, scale);
}

template <class T>
template <class G>
void DeviceCoulomb<T>::forward(const DeviceExec &exec, int first, int count, DeviceEdges<T, G> &edges,
                               FeatureRows<const R> x, D *energy) const {
  const int64_t *begin = edges.begin() + first;
  const int *sender_row = edges.receivers(0, 0, 0, false).other_row, *pair = edges.pair();
  const G *distance = edges.distance();
  G *distance_adj = edges.adjoint();
  const int stride = edges.num_y(), num_species = num_species_;
  const CoulombFunction function = function_;
  const double *scale = scale_.data(), *run_weights = weights_.data();
  // Products of charges are sums over blocks, and so are energies.
  for (const CoulombRun &run : channels_) {
    const auto q = make_pointer<const T>(x.group(run.group) + run.first, run.group.channels);
    const int64_t width = run.group.width();
    const int channels = run.channels;
    const double *weights = run_weights;
    run_weights += channels;
    Kokkos::parallel_for(
        "equi:coulomb", DeviceRange(exec, 0, count), KOKKOS_LAMBDA(int64_t a) {
          const Pointer<const T> own = q + (first + a) * width;
          D sum = 0;
          for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
            const Pointer<const T> other = q + sender_row[e] * width;
            D product = 0;
            for (int c = 0; c < channels; c++)
              product += weights[c] * (static_cast<D>(own[c]) * static_cast<D>(other[c]));
            const D r = static_cast<D>(distance[e]);
            const Jet k = function(value_of(r));
            const double along = tangent_of(r), half = 0.5 * scale[pair[e] / num_species];
            sum += half * (make_number<D>(k.d[0], k.d[1] * along) * product);
            distance_adj[e * stride] += static_cast<G>(half * (make_number<D>(k.d[1], k.d[2] * along) * product));
          }
          energy[a] += sum;
        });
  }
}

template <class T>
template <class G>
void DeviceCoulomb<T>::backward(const DeviceExec &exec, int first, int count, DeviceEdges<T, G> &edges,
                                FeatureRows<const R> x, FeatureRows<R> x_adj) const {
  const int64_t *begin = edges.begin() + first;
  const int *sender_row = edges.receivers(0, 0, 0, false).other_row, *pair = edges.pair();
  const G *distance = edges.distance();
  const int num_species = num_species_;
  const CoulombFunction function = function_;
  const double *scale = scale_.data(), *run_weights = weights_.data();
  for (const CoulombRun &run : channels_) {
    const auto q = make_pointer<const T>(x.group(run.group) + run.first, run.group.channels);
    const auto q_adj = make_pointer<T>(x_adj.group(run.group) + run.first, run.group.channels);
    const int64_t width = run.group.width();
    const int channels = run.channels;
    const double *weights = run_weights;
    run_weights += channels;
    Kokkos::parallel_for(
        "equi:coulomb_adjoint", DeviceRange(exec, 0, static_cast<int64_t>(count) * channels), KOKKOS_LAMBDA(int64_t n) {
          const int64_t a = n / channels;
          const int c = static_cast<int>(n % channels);
          D sum = 0;
          for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
            const D r = static_cast<D>(distance[e]);
            const Jet k = function(value_of(r));
            const double both = scale[pair[e] / num_species] + scale[pair[e] % num_species];
            sum += 0.5 * both * make_number<D>(k.d[0], k.d[1] * tangent_of(r)) *
                   static_cast<D>(q[sender_row[e] * width + c]);
          }
          const int64_t at = a * width + c;
          put(q_adj, at, q_adj[at] + static_cast<T>(weights[c] * sum));
        });
  }
}

#define EQUI_INSTANTIATE(T, G)                                                                \
  template void DeviceCoulomb<T>::forward(const DeviceExec &, int, int, DeviceEdges<T, G> &,  \
                                          FeatureRows<const Real<T>>, DoubleOf<T> *) const;   \
  template void DeviceCoulomb<T>::backward(const DeviceExec &, int, int, DeviceEdges<T, G> &, \
                                           FeatureRows<const Real<T>>, FeatureRows<Real<T>>) const;

EQUI_INSTANTIATE_NUMBERS(DeviceCoulomb)
EQUI_FOR_PRECISIONS(EQUI_INSTANTIATE)
#undef EQUI_INSTANTIATE

}    // namespace equi
