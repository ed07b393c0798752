// SPDX-License-Identifier: MIT
// The symmetric contraction and the node product on the host.
#ifndef EQUI_HOST_CONTRACTION_LAYER_H
#define EQUI_HOST_CONTRACTION_LAYER_H

#include "kokkos/host_kernels/kernel_library.h"
#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/contraction/host_contraction.h"
#include "kokkos/layers/host_batch.h"

#include <string>
#include <utility>

namespace equi {

template <class T, class G>
class HostContractionLayer : public BatchLayer<HostBatch<T, G>> {
 public:
  // name: name of the layer, for the log.
  HostContractionLayer(const HostContext &context, const Ports &ports, const char *name,
                       const ContractionProduct &product)
      : inputs_(ports.inputs()),
        output_(ports.output),
        name_(name),
        contraction_(product, context.plan.inputs(ports), context.layout(output_), context.model.num_species()) {
    contraction_.select_kernel(
        [&](const ContractionSchedule &s) { return find_contraction_kernel<T>(context.set, s); });
  }
  void forward(HostBatch<T, G> &batch) override {
    const InputRows<Real<T>> x = input_rows(batch, inputs_);
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      contraction_.forward(batch.evaluation.kernels, x, batch.rows(output_), order(batch), scratch(batch), d);
  }
  void backward(HostBatch<T, G> &batch) override {
    batch.replace_by_adjoints(inputs_, [&](const InputRows<Real<T>> &x, int direction) {
      contraction_.backward(batch.evaluation.kernels, x, batch.rows(output_, true), order(batch), scratch(batch),
                            direction);
    });
  }
  std::size_t bytes() const override { return contraction_.bytes(); }
  std::string describe() const override { return name_ + (": " + contraction_.describe()); }
  void report_kernels(KernelReport &report) const override {
    // kernels for duals are all generic
    if (!IS_DUAL<T>) report.generic_contractions += contraction_.is_generic();
    report.keys.push_back(contraction_.schedule().key());
  }

 private:
  SpeciesOrder order(HostBatch<T, G> &batch) const { return batch.species_order(contraction_.per_species()); }
  void *scratch(HostBatch<T, G> &batch) const {
    return batch.scratch.kernel.reserve(contraction_.scratch_bytes(batch.evaluation.kernels));
  }

  InputFeatures inputs_;
  int output_;
  const char *name_;
  HostContraction<T> contraction_;
};

}    // namespace equi

#endif
