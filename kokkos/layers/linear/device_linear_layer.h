// SPDX-License-Identifier: MIT
// The linear layer on a device.
#ifndef EQUI_DEVICE_LINEAR_LAYER_H
#define EQUI_DEVICE_LINEAR_LAYER_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"
#include "kokkos/layers/linear/device_linear.h"

namespace equi {

template <class T, class G>
class DeviceLinearLayer : public LayerOp<DeviceBatch<T, G>> {
  using R = Real<T>;
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceLinearLayer(const DeviceContext &context, const Linear &layer)
      : input_(layer.input),
        output_(layer.output),
        accumulates_(layer.accumulate),
        op_(context.exec,
            LinearOp<R>(layer, context.layout(input_), context.layout(output_), context.model.num_species()),
            context.model.num_species()) {}

  // Of an input that depends on the species alone: a row per species, which forward copies or adds.
  void prepare(Batch &species) override {
    const int64_t size = static_cast<int64_t>(species.count) * species.layout(output_).row_size();
    R *rows = of_species_.reserve(size);
    device_zero(species.step.exec, rows, size);
    op_.forward(species.step.exec, species.count, species.rows(input_), {rows, species.count, 0}, species.order,
                scratch(species), species.step.planes);
  }
  void forward(Batch &batch) override {
    if (!of_species_.data())
      op_.forward(batch.step.exec, batch.count, batch.rows(input_), batch.rows(output_), batch.order, scratch(batch),
                  batch.step.planes);
    else if (!batch.step.tangents_alone())
      copy_species_rows<R>(batch.step.exec, batch.count, batch.layout(output_),
                           {of_species_.data(), batch.step.num_species, 0}, batch.species, batch.rows(output_),
                           accumulates_);
    else if (!accumulates_)
      zero_planes(batch.step.exec, batch.count, batch.layout(output_), batch.step.planes, batch.rows(output_));
  }
  void backward(Batch &batch) override {
    op_.backward(batch.step.exec, batch.count, batch.rows(output_, true), batch.rows(input_, true), batch.adds(input_),
                 batch.order, scratch(batch), batch.step.planes);
  }
  int64_t scratch_size(int64_t count) const override { return op_.scratch_size(count); }
  std::size_t bytes() const override { return op_.bytes() + of_species_.bytes(); }

 private:
  R *scratch(Batch &batch) const { return batch.step.layer_scratch.reserve(op_.scratch_size(batch.count)); }

  int input_, output_;
  bool accumulates_;
  DeviceLinear<R> op_;
  DeviceBuffer<R> of_species_;
};

}    // namespace equi

#endif
