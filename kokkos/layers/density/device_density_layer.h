// SPDX-License-Identifier: MIT
// The density normalization as a layer on a device.
#ifndef EQUI_DEVICE_DENSITY_LAYER_H
#define EQUI_DEVICE_DENSITY_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/density/device_density.h"
#include "kokkos/layers/device_batch.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceDensityLayer : public BatchLayer<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceDensityLayer(const DeviceContext &context, const DensityNormalization &layer)
      : input_(layer.input),
        output_(layer.output),
        directions_(context.plan.max_directions()),
        density_(context.exec,
                 HostDensity<T>(layer, context.layout(input_), context.model.num_species(), context.options)) {}
  void forward(Batch &batch) override {
    const auto &edges = batch.evaluation.edges;
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      density_.template forward<G>(batch.evaluation.exec, batch.edges(), edges.distance(d), edges.pair(),
                                   batch.rows(input_), batch.rows(output_), norm(batch, d), d);
  }
  void backward(Batch &batch) override {
    auto &edges = batch.evaluation.edges;
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x, int d) {
      density_.template backward<G>(batch.evaluation.exec, batch.edges(), edges.distance(d), edges.pair(), x,
                                    batch.rows(output_, true), norm(batch, d), edges.adjoint(d), edges.num_y(), d);
    });
  }
  void for_arrays(const ArrayVisitor &f) override { f(norm_, directions_); }
  std::size_t bytes() const override { return density_.bytes(); }
  std::size_t additional_bytes(int64_t num_atoms, int64_t num_edges) const override {
    return density_.additional_bytes(num_atoms, num_edges);
  }
  std::string describe() const override { return "density normalization: " + density_.host().radial_set().describe(); }

 private:
  DoubleOf<T> *norm(const Batch &batch, int direction) const {
    return norm_.data() + static_cast<int64_t>(direction) * batch.evaluation.num_receivers + batch.first;
  }

  int input_, output_;
  int directions_;    // number of directions in an evaluation
  DeviceDensity<T> density_;
  DeviceBuffer<DoubleOf<T>> norm_;    // [directions][receivers]
};

}    // namespace equi

#endif
