// SPDX-License-Identifier: MIT
// The linear layer on a device.
#ifndef EQUI_DEVICE_LINEAR_LAYER_H
#define EQUI_DEVICE_LINEAR_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/linear/device_linear.h"

namespace equi {

template <class T, class G>
class DeviceLinearLayer : public BatchLayer<DeviceBatch<T, G>> {
  using R = Real<T>;
  using Batch = DeviceBatch<T, G>;

 public:
  DeviceLinearLayer(const DeviceContext &context, const Linear &layer)
      : input_(layer.input),
        output_(layer.output),
        accumulates_(layer.accumulate),
        linear_(context.exec,
                HostLinear<R>(layer, context.layout(input_), context.layout(output_), context.model.num_species()),
                context.model.num_species()) {}

  // Of an input that depends on the species alone: a row per species, which forward copies or adds.
  void prepare(Batch &species) override {
    const int64_t size = static_cast<int64_t>(species.count) * species.layout(output_).row_size();
    R *rows = of_species_.reserve(size);
    device_zero(species.evaluation.exec, rows, size);
    linear_.forward(species.evaluation.exec, species.count, species.rows(input_), {rows, species.count, 0},
                    species.order, scratch(species), species.evaluation.planes);
  }
  void forward(Batch &batch) override {
    if (!of_species_.data())
      linear_.forward(batch.evaluation.exec, batch.count, batch.rows(input_), batch.rows(output_), batch.order,
                      scratch(batch), batch.evaluation.planes);
    else if (!batch.evaluation.tangents_alone())
      copy_species_rows<R>(batch.evaluation.exec, batch.count, batch.layout(output_),
                           {of_species_.data(), batch.evaluation.num_species, 0}, batch.species, batch.rows(output_),
                           accumulates_);
    else if (!accumulates_)
      zero_planes(batch.evaluation.exec, batch.count, batch.layout(output_), batch.evaluation.planes,
                  batch.rows(output_));
  }
  void backward(Batch &batch) override {
    linear_.backward(batch.evaluation.exec, batch.count, batch.rows(output_, true), batch.rows(input_, true),
                     batch.adds(input_), batch.order, scratch(batch), batch.evaluation.planes);
  }
  int64_t scratch_size(int64_t count) const override { return linear_.scratch_size(count); }
  std::size_t bytes() const override { return linear_.bytes() + of_species_.bytes(); }

 private:
  R *scratch(Batch &batch) const { return batch.evaluation.layer_scratch.reserve(linear_.scratch_size(batch.count)); }

  int input_, output_;
  bool accumulates_;
  DeviceLinear<R> linear_;
  DeviceBuffer<R> of_species_;
};

}    // namespace equi

#endif
