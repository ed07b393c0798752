// SPDX-License-Identifier: MIT
// Writes the convolution kernels of a unit as straight-line C++: what a UnitSchedule lists, one statement per product,
// with the couplings as constants. The text includes kokkos/kernel_interface/host_simd.h and nothing else, and is
// generic in the type, the number of channels and the instruction set (EQUI_ISA, EQUI_SIMD_BYTES).
#ifndef EQUI_KERNEL_GENERATOR_H
#define EQUI_KERNEL_GENERATOR_H

#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_schedule.h"

#include <string>
#include <vector>

namespace equi {

// Keys of units of uvu paths, of uvw paths and of contractions.
struct KernelNames {
  std::vector<std::string> units, uvw, contractions;
};

// A file with the kernels of one unit in a namespace of their own, with its UnitKernel<float> and UnitKernel<double>.
std::string generate_unit(const UnitSchedule &unit, const KernelTarget &target);
// The same for a symmetric contraction, with its ContractionKernels.
std::string generate_contraction(const ContractionSchedule &contraction, const KernelTarget &target);

// KERNEL_LIBRARY, the kernels of other files by key.
std::string generate_kernel_list(const KernelNames &names, const KernelTarget &target);

// Such a file with the exported object by which a library of its kernels is found.
std::string as_library(const std::string &file, const KernelNames &names, const KernelTarget &target);
// The kernels of a unit as a library.
std::string generate_unit_library(const UnitShape &shape, const KernelTarget &target);

}    // namespace equi

#endif
