// SPDX-License-Identifier: MIT
// Checks of a model on this machine, without a user's system and without stored values.
#ifndef EQUI_MODEL_CHECK_H
#define EQUI_MODEL_CHECK_H

#include "src/model/model.h"

#include <string>

namespace equi {

// Prints one line for each check, separated by tabs. Its columns are instruction set, precision, what was checked,
// measured number, largest allowed number, unit ("-": relative), "ok" or "FAILED", and a remark. The precision is "-"
// for kernels and "exact" for double with exact radial functions. It runs the checks for each instruction set that the
// CPU supports. These are all kernels that the model uses (check_kernels), then for each precision the laws of
// check_laws. The laws are checked on a crystal and on a cluster of the model's elements.
void print_model_check(const Model &model);

// Reads a file as the pair style does, with each kind of forces that it offers. Evaluates in float64 a small structure
// of at most three of its elements, and the structures stored in it. A file for all systems is read for its first task,
// and for neutral systems of those elements. Throws, with the name of the file, if the pair style would refuse it, or
// if numbers are not finite or differ from stored ones.
void try_model_file(const std::string &path);

}    // namespace equi

#endif
