// SPDX-License-Identifier: MIT
// The library of the LibTorch reference, which lies beside the plugin and is loaded only on request.
#ifndef EQUI_REFERENCE_LIBRARY_H
#define EQUI_REFERENCE_LIBRARY_H

#include "src/evaluation/evaluator.h"

namespace equi {

// A TorchModel. Throws std::runtime_error if libequi_torch.so or LibTorch cannot be loaded, with the loader's reason.
std::unique_ptr<Evaluator> make_reference_evaluator(const Model &model, const EvaluatorOptions &options);

}    // namespace equi

#endif
