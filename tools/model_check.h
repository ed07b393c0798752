// SPDX-License-Identifier: MIT
// Checks of a model on this machine, without a user's system and without stored values.
#ifndef EQUI_MODEL_CHECK_H
#define EQUI_MODEL_CHECK_H

#include "src/model/model.h"

#include <string>

namespace equi {

// Prints one line for each check, with tabs between: instruction set, precision ("-" for kernels, "exact" for double
// with exact radial functions), what was checked, measured number, largest number allowed, unit ("-": relative), "ok"
// or "FAILED", and a remark. For each instruction set that the CPU can run: all kernels that the model takes
// (check_kernels), then for each precision the laws of check_laws on a crystal and on a cluster of the model's
// elements.
void print_model_check(const Model &model);

// Reads a file as the pair style does, with each kind of forces that it offers, and evaluates a small structure of at
// most three of its elements in float64, and those that are stored in it. A file for all systems is read for its first
// task, and for neutral systems of those elements. Throws, with the name of the file, what the pair style would refuse,
// and where numbers are not finite or differ from stored ones.
void try_model_file(const std::string &path);

}    // namespace equi

#endif
