// SPDX-License-Identifier: MIT
// What programs that use a model check before they evaluate it: that its file is found, and that it is valid for the
// elements, the task and the composition of the atoms.
#ifndef EQUI_MODEL_CHECKS_H
#define EQUI_MODEL_CHECKS_H

#include "src/model/model.h"

#include <cstdint>
#include <map>
#include <string>

namespace equi {

// The bytes of a file. The error lists the folders in which potentials are searched for: the present one and those of
// LAMMPS_POTENTIALS. Throws std::runtime_error.
std::string read_potential_bytes(const std::string &path);

// Throws std::runtime_error if the model does not know an element. place: follows the symbol in the error.
void check_element(const Model &model, const std::string &symbol, const std::string &place = "");

// Throws std::runtime_error if the model has several tasks and none is chosen.
void check_task(const Model &model, const AtomicSystem &system);

// What is wrong with the atoms, whose numbers are given by symbol, or empty if the model is valid for them.
std::string composition_fault(const Model &model, const std::map<std::string, int64_t> &atoms);

}    // namespace equi

#endif
