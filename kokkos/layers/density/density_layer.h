// SPDX-License-Identifier: MIT
// The density normalization of a model divides rows by a function of the sum of a density over distances.
#ifndef EQUI_DENSITY_LAYER_H
#define EQUI_DENSITY_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layers/density/device_density.h"
#include "kokkos/layers/density/host_density.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace equi {

template <class Backend>
class DensityLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  DensityLayer(const typename Backend::Context &context, const DensityNormalization &layer)
      : input_(layer.input),
        output_(layer.output),
        directions_(context.plan.max_directions()),
        density_(context.target(),
                 DensityConstants(layer, context.layout(input_), context.model.num_species(), context.options)) {}

  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      density_.forward(batch, batch.rows(input_), batch.rows(output_), norm(batch, d), d);
  }
  void backward(Batch &batch) override {
    batch.replace_by_adjoint(input_, [&](FeatureRows<R> x, int d) {
      density_.backward(batch, x, batch.rows(output_, true), norm(batch, d), d);
    });
  }
  void for_arrays(const ArrayVisitor &f) override { f(norm_, directions_); }
  void for_batch_arrays(int64_t num_atoms, int64_t num_edges, const ArrayVisitor &f) override {
    density_.for_batch_arrays(num_atoms, num_edges, f);
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, density_); }
  std::string describe() const override {
    return "density normalization: " + density_.constants().radial_set.describe();
  }

 private:
  DoubleOf<T> *norm(const Batch &batch, int direction) const {
    return norm_.data() + static_cast<int64_t>(direction) * batch.evaluation.num_receivers + batch.first;
  }

  int input_, output_;
  int directions_;    // number of directions in an evaluation
  typename Backend::template Choose<HostDensity<T>, DeviceDensity<T>> density_;
  typename Backend::template Array<DoubleOf<T>> norm_;    // [directions][receivers]
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const DensityNormalization &layer) {
  return std::make_unique<DensityLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
