// SPDX-License-Identifier: MIT
// The symmetric contraction and the node product on the host.
#ifndef EQUI_HOST_CONTRACTION_LAYER_H
#define EQUI_HOST_CONTRACTION_LAYER_H

#include "kokkos/host_kernels/kernel_library.h"
#include "kokkos/layers/contraction/contraction_op.h"
#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_op.h"

#include <string>
#include <utility>

namespace equi {

template <class T, class G>
class HostContractionLayer : public LayerOp<HostBatch<T, G>> {
 public:
  // name: of the layer, for the log.
  HostContractionLayer(const HostContext &context, const Ports &ports, const char *name,
                       const ContractionProduct &product)
      : inputs_(ports.inputs()),
        output_(ports.output),
        name_(name),
        op_(product, context.plan.inputs(ports), context.layout(output_), context.model.num_species()) {
    op_.select_kernel([&](const ContractionSchedule &s) { return find_contraction_kernel<T>(context.set, s); });
  }
  void forward(HostBatch<T, G> &batch) override {
    const InputRows<Real<T>> x = input_rows(batch, inputs_);
    for (int d = 0; d < batch.step.num_directions(); d++)
      op_.forward(batch.step.kernels, x, batch.rows(output_), order(batch), scratch(batch), d);
  }
  void backward(HostBatch<T, G> &batch) override {
    batch.replace_by_adjoints(inputs_, [&](const InputRows<Real<T>> &x, int direction) {
      op_.backward(batch.step.kernels, x, batch.rows(output_, true), order(batch), scratch(batch), direction);
    });
  }
  std::size_t bytes() const override { return op_.bytes(); }
  std::string describe() const override { return name_ + (": " + op_.describe()); }
  void report_kernels(KernelReport &report) const override {
    if (!IS_DUAL<T>) report.generic_contractions += op_.is_generic();    // of duals all are generic
    report.keys.push_back(op_.schedule().key());
  }

 private:
  SpeciesOrder order(HostBatch<T, G> &batch) const { return batch.species_order(op_.per_species()); }
  void *scratch(HostBatch<T, G> &batch) const {
    return batch.scratch.kernel.reserve(op_.scratch_bytes(batch.step.kernels));
  }

  InputFeatures inputs_;
  int output_;
  const char *name_;
  ContractionOp<T> op_;
};

}    // namespace equi

#endif
