// SPDX-License-Identifier: MIT
// The density normalization as a layer on a device.
#ifndef EQUI_DEVICE_DENSITY_LAYER_H
#define EQUI_DEVICE_DENSITY_LAYER_H

#include "kokkos/layers/density/device_density.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

#include <string>

namespace equi {

template <class T, class G>
class DeviceDensityLayer : public LayerOp<DeviceBatch<T, G>> {
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceDensityLayer(const DeviceContext &context, const DensityNormalization &layer)
      : input_(layer.input),
        output_(layer.output),
        op_(context.exec, DensityOp<T>(layer, context.layout(input_), context.model.num_species(), context.options)) {}
  void forward(Batch &batch) override {
    const auto &edges = batch.step.edges;
    op_.template forward<G>(batch.step.exec, batch.edges(), edges.distance(), edges.pair(), batch.rows(input_),
                            batch.rows(output_), norm_.data() + batch.first);
  }
  void backward(Batch &batch) override {
    auto &edges = batch.step.edges;
    batch.replace_by_adjoint(input_, [&](FeatureRows<Real<T>> x, int) {
      op_.template backward<G>(batch.step.exec, batch.edges(), edges.distance(), edges.pair(), x,
                               batch.rows(output_, true), norm_.data() + batch.first, edges.adjoint(), edges.num_y());
    });
  }
  void for_arrays(const ArrayVisitor &f) override { f(norm_, 1); }
  std::size_t bytes() const override { return op_.bytes(); }
  std::string describe() const override { return "density normalization: " + op_.host().radial_set().describe(); }

 private:
  int input_, output_;
  DeviceDensity<T> op_;
  DeviceBuffer<DoubleOf<T>> norm_;    // [receivers]
};

}    // namespace equi

#endif
