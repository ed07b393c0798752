// SPDX-License-Identifier: MIT
// Loads the library of the LibTorch reference, which is stored next to the plugin, on request.
#ifndef EQUI_REFERENCE_LIBRARY_H
#define EQUI_REFERENCE_LIBRARY_H

#include "src/evaluation/evaluator.h"

namespace equi {

// Returns a TorchModel. Throws std::runtime_error with the loader's reason if libequi_torch.so or LibTorch cannot be
// loaded.
std::unique_ptr<Evaluator> make_reference_evaluator(const Model &model, const EvaluatorOptions &options);

}    // namespace equi

#endif
