// SPDX-License-Identifier: MIT
// The kernels that a model needs in addition to those of every build.
#ifndef EQUI_MODEL_KERNELS_H
#define EQUI_MODEL_KERNELS_H

#include "src/generator/kernel_schedule.h"
#include "src/model/model.h"

#include <set>
#include <string>

namespace equi {

// Keys of the kernels that the model needs beyond those of the build.
std::set<std::string> missing_kernels(const Model &model);

// The text of a library with the kernel of the model that has this key. Throws std::invalid_argument if there is none.
std::string kernel_library_of(const std::string &key, const Model &model, const KernelTarget &target);

// Prints a table of the model's kernels.
void print_schedule(const Model &model, const KernelTarget &target);

// Prints a line for each layer: the operations (operation_count.h) of an atom, forward and forward with backward, and
// the same of an edge, with quintic tables. The last line is for all layers together when linear maps are folded.
void print_operations(const Model &model);

}    // namespace equi

#endif
