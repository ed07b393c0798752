// SPDX-License-Identifier: MIT
// The density normalization of a model divides rows by a function of the sum of a density over distances.
#ifndef EQUI_HOST_DENSITY_H
#define EQUI_HOST_DENSITY_H

#include "kokkos/geometry/radial_set.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/runtime/buffer.h"
#include "src/model/model.h"

#include <vector>

namespace equi {

// Edges of the rows of a tile: row a has edges edge_begin[a] .. edge_begin[a+1] - 1; the arrays begin with edge
// edge_begin[0]. function: its function of the RadialSet for each edge, or null if there is only one.
template <class G>
struct DensityEdges {
  const int64_t *edge_begin;
  const G *distance;
  const int *function;
};

// T: float, double or a Dual of them; G: type of distances, dual if T is.
template <class T>
class HostDensity {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostDensity(const DensityNormalization &layer, const FeatureLayout &layout, int num_species,
              const EvaluatorOptions &options);

  const RadialSet &radial_set() const { return set_; }

  // y = x / norm, norm [count] = offset + factor * the sum of the density over the edges of a row. direction: for
  // duals, whose tangents are in plane 1 + direction.
  template <class G>
  void forward(int64_t count, FeatureRows<const R> x, FeatureRows<R> y, const DensityEdges<G> &edges, D *norm,
               int direction = 0) const;
  // Replaces x by its adjoint, and adds the derivative with respect to the distance of edge e to distance_adj[e *
  // stride].
  template <class G>
  void backward(int64_t count, FeatureRows<R> x, FeatureRows<const R> y_adj, const DensityEdges<G> &edges,
                const D *norm, G *distance_adj, int stride, int direction = 0) const;

  // Density at a distance and its derivative.
  void evaluate(int function, D r, D *value, D *derivative) const;

  // The constants that the layer on a device copies.
  const FeatureLayout &layout() const { return layout_; }
  double offset() const { return offset_; }
  double factor() const { return factor_; }
  const std::vector<double> &powers(int table) const { return powers_[table]; }

 private:
  FeatureLayout layout_;
  double offset_, factor_;
  RadialSet set_;
  std::vector<std::vector<double>> powers_;    // per table [bins][coefficients]
};

}    // namespace equi

#endif
