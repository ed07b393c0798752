#include "density_op.h"

namespace equi {

template <class T>
DensityOp<T>::DensityOp(const DensityNormalization &layer, const FeatureLayout &layout, int num_species,
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
void DensityOp<T>::evaluate(int function, double r, double *value, double *derivative) const {
  if (set_.exact()) {
    double d[2];
    set_.function(function).derivatives(r, 1, -1, d);
    *value = d[0];
    *derivative = d[1];
    return;
  }
  const RadialTable::Place place = set_.table(function).place(r);
  const int n = set_.num_coefficients();
  const double *row = powers_[function].data() + static_cast<int64_t>(place.bin) * n;
  double v = row[n - 1], d = 0.0;
  for (int k = n - 2; k >= 0; k--) {
    d = d * place.fraction + v;
    v = v * place.fraction + row[k];
  }
  *value = v;
  *derivative = d / place.spacing;
}

template <class T>
template <class G>
void DensityOp<T>::forward(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, const DensityEdges<G> &edges,
                           double *norm) const {
  for (int64_t a = 0; a < count; a++) {
    double sum = 0.0, value, derivative;
    for (int64_t e = edges.edge_begin[a] - edges.edge_begin[0]; e < edges.edge_begin[a + 1] - edges.edge_begin[0];
         e++) {
      evaluate(edges.function ? edges.function[e] : 0, edges.distance[e], &value, &derivative);
      sum += value;
    }
    norm[a] = offset_ + factor_ * sum;
  }
  for (int g = 0; g < layout_.num_groups(); g++) {
    const int width = layout_.group(g).width();
    const T *from = x.group(layout_.group(g));
    T *to = y.group(layout_.group(g));
    for (int64_t a = 0; a < count; a++) {
      const T scale = static_cast<T>(1.0 / norm[a]);
      for (int c = 0; c < width; c++) to[a * width + c] = scale * from[a * width + c];
    }
  }
}

template <class T>
template <class G>
void DensityOp<T>::backward(int64_t count, FeatureRows<T> x, FeatureRows<const T> y_adj, const DensityEdges<G> &edges,
                            const double *norm, G *distance_adj, int stride) const {
  for (int64_t a = 0; a < count; a++) {
    const T scale = static_cast<T>(1.0 / norm[a]);
    double dot = 0.0;
    for (int g = 0; g < layout_.num_groups(); g++) {
      const int width = layout_.group(g).width();
      T *to = x.group(layout_.group(g)) + a * width;
      const T *from = y_adj.group(layout_.group(g)) + a * width;
      T sum = 0;
      for (int c = 0; c < width; c++) {
        sum += to[c] * from[c];
        to[c] = scale * from[c];
      }
      dot += sum;
    }
    // dE/dnorm times factor
    const double adjoint = -factor_ * dot / (norm[a] * norm[a]);
    for (int64_t e = edges.edge_begin[a] - edges.edge_begin[0]; e < edges.edge_begin[a + 1] - edges.edge_begin[0];
         e++) {
      double value, derivative;
      evaluate(edges.function ? edges.function[e] : 0, edges.distance[e], &value, &derivative);
      distance_adj[e * stride] += static_cast<G>(adjoint * derivative);
    }
  }
}

#define EQUI_INSTANTIATE(T, G)                                                                                    \
  template void DensityOp<T>::forward<G>(int64_t, FeatureRows<const T>, FeatureRows<T>, const DensityEdges<G> &,  \
                                         double *) const;                                                         \
  template void DensityOp<T>::backward<G>(int64_t, FeatureRows<T>, FeatureRows<const T>, const DensityEdges<G> &, \
                                          const double *, G *, int) const;

template class DensityOp<float>;
template class DensityOp<double>;
EQUI_INSTANTIATE(float, float)
EQUI_INSTANTIATE(float, double)
EQUI_INSTANTIATE(double, double)
#undef EQUI_INSTANTIATE

}    // namespace equi
