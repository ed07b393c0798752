// SPDX-License-Identifier: MIT
// Checks that the kernels of a library compute what the generic ones do: a compiler may have an error, and a library
// may have been made from a different source than its name says.
#ifndef EQUI_KERNEL_CHECK_H
#define EQUI_KERNEL_CHECK_H

#include "kokkos/host_kernels/host_kernels.h"
#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_schedule.h"

#include <string>

namespace equi {

// Calls every function of the library on random numbers. The library must hold the kernels of this path group
// (contraction) and no others. Returns empty if all results are those of the generic kernels of the instruction set,
// which the CPU must have; else a description of the error. This needs about a millisecond for path groups of common
// models.
std::string fault_of_kernels(const KernelLibrary &library, const PathGroupShape &shape, InstructionSet set);
std::string fault_of_kernels(const KernelLibrary &library, const ContractionSchedule &schedule, InstructionSet set);

}    // namespace equi

#endif
