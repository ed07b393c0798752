// SPDX-License-Identifier: MIT
// The density normalization as a layer on the host.
#ifndef EQUI_HOST_DENSITY_LAYER_H
#define EQUI_HOST_DENSITY_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/density/host_density.h"
#include "kokkos/layers/host_batch.h"

#include <string>

namespace equi {

template <class T, class G>
class HostDensityLayer : public BatchLayer<HostBatch<T, G>> {
 public:
  HostDensityLayer(const HostContext &context, const DensityNormalization &layer)
      : input_(layer.input),
        output_(layer.output),
        directions_(context.plan.max_directions()),
        density_(layer, context.layout(input_), context.model.num_species(), context.options) {}

  void forward(HostBatch<T, G> &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      density_.forward(batch.count, batch.rows(input_), batch.rows(output_), edges(batch, d), norm(batch, d), d);
  }
  void backward(HostBatch<T, G> &batch) override {
    const int num_y = batch.evaluation.edges.num_y();
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x, int d) {
      const DensityEdges<G> density_edges = edges(batch, d);
      density_.backward(batch.count, x, batch.rows(output_, true), density_edges, norm(batch, d),
                        batch.evaluation.edges.adjoint(d) + density_edges.edge_begin[0] * num_y, num_y, d);
    });
  }
  void for_arrays(const ArrayVisitor &f) override { f(norm_, directions_); }
  std::string describe() const override { return "density normalization: " + density_.radial_set().describe(); }

 private:
  DensityEdges<G> edges(HostBatch<T, G> &batch, int direction) const {
    const int64_t *begin = batch.evaluation.edges.begin() + batch.first;
    return {begin, batch.evaluation.edges.distance(direction) + begin[0], batch.functions(density_.radial_set())};
  }
  DoubleOf<T> *norm(const HostBatch<T, G> &batch, int direction) const {
    return norm_.data() + static_cast<int64_t>(direction) * batch.evaluation.num_receivers + batch.first;
  }

  int input_, output_;
  int directions_;    // number of directions in an evaluation
  HostDensity<T> density_;
  Buffer<DoubleOf<T>> norm_;    // [directions][receivers]
};

}    // namespace equi

#endif
