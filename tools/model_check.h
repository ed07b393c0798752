// SPDX-License-Identifier: MIT
// Checks of a model on this machine, without a user's system and without stored values.
#ifndef EQUI_MODEL_CHECK_H
#define EQUI_MODEL_CHECK_H

#include "src/model/model.h"

namespace equi {

// Prints one line for each check, with tabs between: instruction set, precision ("-" for kernels, "exact" for double
// with exact radial functions), what was checked, measured number, largest number allowed, unit ("-": relative), "ok"
// or "FAILED", and a remark. For each instruction set that the CPU can run: all kernels that the model takes
// (check_kernels), then for each precision the laws of check_laws on a crystal and on a cluster of the model's
// elements.
void print_model_check(const Model &model);

}    // namespace equi

#endif
