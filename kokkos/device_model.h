// The evaluation of a model on Kokkos's default execution space, a GPU where Kokkos has one.
#ifndef EQUI_DEVICE_MODEL_H
#define EQUI_DEVICE_MODEL_H

#include "evaluator.h"

#include <memory>

namespace equi {

// Model already restricted to the elements of the run. Starts Kokkos if the host program has not.
std::unique_ptr<Evaluator> make_device_evaluator(const Model &model, const EvaluatorOptions &options);

}    // namespace equi

#endif
