// SPDX-License-Identifier: MIT
// The density normalization on the host: sums over edges, and rows.
#include "kokkos/layers/density/host_density.h"

#include "src/numbers/number_types.h"

namespace equi {

namespace {

// Calls f(e, value of the density, its derivative) for each edge of row a of a batch.
template <class T, class F>
void for_densities(const HostBatch<T> &batch, const DensityConstants &constants, const int *function, int a,
                   int direction, const F &f) {
  using D = DoubleOf<T>;
  const int64_t *begin = batch.evaluation.edges.begin() + batch.first;
  const D *distance = batch.evaluation.edges.distance(direction);
  for (int64_t e = begin[a]; e < begin[a + 1]; e++) {
    D value, derivative;
    constants.evaluate(function ? function[e - begin[0]] : 0, distance[e], &value, &derivative);
    f(e, value, derivative);
  }
}

// Calls f(number of channels, those of x, those of y) for each component of row a.
template <class T, class F>
void for_components(const FeatureLayout &layout, int64_t a, FeatureRows<Real<T>> x, FeatureRows<Real<T>> y,
                    int direction, const F &f) {
  for (const FeatureGroup &group : layout.groups()) {
    for (int m = 0; m < group.irrep.dim(); m++) {
      const int64_t first = a * group.width() + m * group.stride();
      f(group.channels, channel_of<T>(x, group, 0, direction) + first, channel_of<T>(y, group, 0, direction) + first);
    }
  }
}

}    // namespace

template <class T>
void HostDensity<T>::forward(HostBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y, D *norm, int direction) const {
  const int *function = batch.functions(constants_.radial_set);
  for (int a = 0; a < batch.count; a++) {
    D sum = 0.0;
    for_densities(batch, constants_, function, a, direction, [&](int64_t, D value, D) { sum += value; });
    norm[a] = constants_.offset + constants_.factor * sum;
    const T scale = static_cast<T>(D(1.0) / norm[a]);
    for_components<T>(constants_.layout, a, x, y, direction, [&](int channels, Pointer<T> xm, Pointer<T> ym) {
      for (int u = 0; u < channels; u++) put(ym, u, scale * xm[u]);
    });
  }
}

template <class T>
void HostDensity<T>::backward(HostBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y_adj, const D *norm,
                              int direction) const {
  const int *function = batch.functions(constants_.radial_set);
  const int num_y = batch.evaluation.edges.num_y();
  D *distance_adj = batch.evaluation.edges.adjoint(direction);
  for (int a = 0; a < batch.count; a++) {
    const T scale = static_cast<T>(D(1.0) / norm[a]);
    D dot = 0.0;
    for_components<T>(constants_.layout, a, x, y_adj, direction, [&](int channels, Pointer<T> xm, Pointer<T> ym) {
      T sum = T(0);
      for (int u = 0; u < channels; u++) {
        sum += xm[u] * ym[u];
        put(xm, u, scale * ym[u]);
      }
      dot += D(sum);
    });
    // dE/dnorm times factor
    const D adjoint = -constants_.factor * dot / (norm[a] * norm[a]);
    for_densities(batch, constants_, function, a, direction,
                  [&](int64_t e, D, D derivative) { distance_adj[e * num_y] += adjoint * derivative; });
  }
}

EQUI_INSTANTIATE_NUMBERS(HostDensity)

}    // namespace equi
