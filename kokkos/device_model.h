// SPDX-License-Identifier: MIT
// The evaluation of a model on Kokkos's default execution space, a GPU where Kokkos has one.
#ifndef EQUI_DEVICE_MODEL_H
#define EQUI_DEVICE_MODEL_H

#include "evaluator.h"

#include <memory>

namespace equi {

// Receivers that a GPU computes at a time. It needs some thousand atoms to be busy; what a chunk needs beyond the
// features is about 1 kB per edge and the outputs of a convolution. Steps of no more atoms can be recorded
// (device_recorder.h).
constexpr int DEVICE_CHUNK = 4096;

// Model already restricted to the elements of the run. Starts Kokkos if the host program has not.
std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options);

}    // namespace equi

#endif
