// SPDX-License-Identifier: MIT
// The density normalization on the host.
#include "kokkos/layers/density/host_density.h"

#include "src/numbers/number_types.h"

namespace equi {

template <class T>
HostDensity<T>::HostDensity(const DensityNormalization &layer, const FeatureLayout &layout, int num_species,
                            const EvaluatorOptions &options)
    : layout_(layout), offset_(layer.offset), factor_(layer.factor), set_(layer.density, num_species, options) {
  if (set_.exact()) return;
  powers_.resize(set_.num_functions());
  for (int k = 0; k < set_.num_functions(); k++)
    set_.for_polynomials(k, [&](int, int, const double *powers) {
      powers_[k].insert(powers_[k].end(), powers, powers + set_.num_coefficients());
    });
  set_.drop_rows();
}

template <class T>
void HostDensity<T>::evaluate(int function, D r, D *value, D *derivative) const {
  double d[3] = {};
  if (set_.exact()) {
    set_.function(function).derivatives(value_of(r), PLANES<D>, -1, d);
  } else {
    const RadialTable::BinPosition found = set_.table(function).bin_of(value_of(r));
    const int n = set_.num_coefficients();
    const double *row = powers_[function].data() + static_cast<int64_t>(found.bin) * n;
    for (int k = n - 1; k >= 0; k--) {
      if (IS_DUAL<T>) d[2] = d[2] * found.fraction + d[1];
      d[1] = d[1] * found.fraction + d[0];
      d[0] = d[0] * found.fraction + row[k];
    }
    d[1] *= found.bins_per_length;
    d[2] *= 2.0 * found.bins_per_length * found.bins_per_length;
  }
  *value = make_number<D>(d[0], d[1] * tangent_of(r));
  *derivative = make_number<D>(d[1], d[2] * tangent_of(r));
}

namespace {

// Calls f(number of channels, those of x, those of y) for each component of row a.
template <class T, class F>
void for_components(const FeatureLayout &layout, int64_t a, FeatureRows<Real<T>> x, FeatureRows<Real<T>> y,
                    int direction, const F &f) {
  for (const FeatureGroup &group : layout.groups()) {
    for (int m = 0; m < group.irrep.dim(); m++) {
      const int64_t first = a * group.width() + m * group.stride();
      const int distance = (1 + direction) * group.channels;
      f(group.channels, make_pointer<T>(x.group(group) + first, distance),
        make_pointer<T>(y.group(group) + first, distance));
    }
  }
}

}    // namespace

template <class T>
template <class G>
void HostDensity<T>::forward(int64_t count, FeatureRows<const R> x, FeatureRows<R> y, const DensityEdges<G> &edges,
                             D *norm, int direction) const {
  const FeatureRows<R> from{const_cast<R *>(x.data), x.rows, x.first};    // only read
  for (int64_t a = 0; a < count; a++) {
    D sum = 0.0, value, derivative;
    for (int64_t e = edges.edge_begin[a] - edges.edge_begin[0]; e < edges.edge_begin[a + 1] - edges.edge_begin[0];
         e++) {
      evaluate(edges.function ? edges.function[e] : 0, D(edges.distance[e]), &value, &derivative);
      sum += value;
    }
    norm[a] = offset_ + factor_ * sum;
    const T scale = static_cast<T>(D(1.0) / norm[a]);
    for_components<T>(layout_, a, from, y, direction, [&](int channels, Pointer<T> xm, Pointer<T> ym) {
      for (int u = 0; u < channels; u++) put(ym, u, scale * xm[u]);
    });
  }
}

template <class T>
template <class G>
void HostDensity<T>::backward(int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj, const DensityEdges<G> &edges,
                              const D *norm, G *distance_adj, int stride, int direction) const {
  const FeatureRows<R> from{const_cast<R *>(y_adj.data), y_adj.rows, y_adj.first};    // only read
  for (int64_t a = 0; a < count; a++) {
    const T scale = static_cast<T>(D(1.0) / norm[a]);
    D dot = 0.0;
    for_components<T>(layout_, a, x, from, direction, [&](int channels, Pointer<T> xm, Pointer<T> ym) {
      T sum = T(0);
      for (int u = 0; u < channels; u++) {
        sum += xm[u] * ym[u];
        put(xm, u, scale * ym[u]);
      }
      dot += D(sum);
    });
    // dE/dnorm times factor
    const D adjoint = -factor_ * dot / (norm[a] * norm[a]);
    for (int64_t e = edges.edge_begin[a] - edges.edge_begin[0]; e < edges.edge_begin[a + 1] - edges.edge_begin[0];
         e++) {
      D value, derivative;
      evaluate(edges.function ? edges.function[e] : 0, D(edges.distance[e]), &value, &derivative);
      distance_adj[e * stride] += static_cast<G>(adjoint * derivative);
    }
  }
}

#define EQUI_INSTANTIATE(T, G)                                                                         \
  template void HostDensity<T>::forward<G>(int64_t, FeatureRows<const Real<T>>, FeatureRows<Real<T>>,  \
                                           const DensityEdges<G> &, DoubleOf<T> *, int) const;         \
  template void HostDensity<T>::backward<G>(int64_t, FeatureRows<Real<T>>, FeatureRows<const Real<T>>, \
                                            const DensityEdges<G> &, const DoubleOf<T> *, G *, int, int) const;

EQUI_INSTANTIATE_NUMBERS(HostDensity)
EQUI_FOR_PRECISIONS(EQUI_INSTANTIATE)
#undef EQUI_INSTANTIATE

}    // namespace equi
