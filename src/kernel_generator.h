// Writes the convolution kernels of a unit as straight-line C++: what a UnitSchedule lists, one statement per product,
// with the couplings as constants. The text includes kokkos/host_simd.h and nothing else, and is generic in the type,
// the number of channels and the instruction set (EQUI_ISA, EQUI_SIMD_BYTES).
#ifndef EQUI_KERNEL_GENERATOR_H
#define EQUI_KERNEL_GENERATOR_H

#include "kernel_schedule.h"

#include <string>
#include <vector>

namespace equi {

// The tensor products whose kernels every build has: the units of common models.
std::vector<UnitShape> common_units();

// Kernels of one unit in a namespace of their own, with its UnitKernel<float> and UnitKernel<double>.
std::string generate_unit(const UnitSchedule &unit, const KernelTarget &target);

// The arrays FLOAT_UNITS and DOUBLE_UNITS over units that other files define.
std::string generate_unit_list(const std::vector<UnitShape> &units, const KernelTarget &target);

// One file for all units, with the exported function by which a library of kernels is found.
std::string generate_unit_library(const std::vector<UnitShape> &units, const KernelTarget &target);

}    // namespace equi

#endif
