// SPDX-License-Identifier: MIT
// The reference evaluation: the layers of doc/model_file.rst by ATen operators, forces by autograd.
//
// Its purpose is to be an independent answer, so it shares with the kernels only the Model and the coupling tensors. It
// has its own harmonics, radial functions (always through their network, never a table), products and derivatives, in
// the feature order of irreps.h. Clarity comes before speed. No Torch type appears here: users of this header need no
// Torch header.
#ifndef EQUI_TORCH_MODEL_H
#define EQUI_TORCH_MODEL_H

#include "src/evaluation/evaluator.h"

#include <memory>
#include <string>

namespace equi {

// Precision double_: everything in float64. mixed: features, weights and the network in float32; positions,
// harmonics, radial basis, energies, forces and sums in float64. Runs on the CPU with Torch's own number of threads.
class TorchModel : public Evaluator {
 public:
  // Copies the data that it needs from the model. Throws std::invalid_argument if layers do not fit together. Sums over
  // edges and contractions work on chunks of edges or atoms whose intermediates use about chunk_bytes.
  TorchModel(const Model &model, const EvaluatorOptions &options, double chunk_bytes = 256e6);
  ~TorchModel() override;
  std::string describe() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  std::size_t exchange_bytes_per_row() const override;
  std::size_t memory_bytes() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}    // namespace equi

// The only symbol that a host needs from libequi_torch; it is looked up with dlsym. Returns a TorchModel, which the
// caller must delete, or null with a message of at most length - 1 characters in `error`.
extern "C" equi::Evaluator *equi_make_torch_evaluator(const equi::Model *model, const equi::EvaluatorOptions *options,
                                                      char *error, int length);

#endif
