// SPDX-License-Identifier: MIT
// Writes the convolution kernels of a path group as straight-line C++: the products of a PathGroupSchedule, one
// statement each, with the couplings as constants. The text includes only kokkos/kernel_interface/host_simd.h. It is
// generic in the type, the number of channels and the instruction set (EQUI_ISA, EQUI_SIMD_BYTES).
#ifndef EQUI_KERNEL_GENERATOR_H
#define EQUI_KERNEL_GENERATOR_H

#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_schedule.h"

#include <string>
#include <vector>

namespace equi {

// Keys of path groups of uvu paths, of uvw paths and of contractions. For devices, the path groups of one launch of a
// kernel, with weights of tables and of edges; a path group may be in several launches.
struct KernelNames {
  std::vector<std::string> path_groups, uvw, contractions;
  std::vector<std::vector<std::string>> device_launches, device_edge_launches;
};

// A file with the kernels of one path group in their own namespace, with its PathGroupKernel<float> and
// PathGroupKernel<double>.
std::string generate_path_group(const PathGroupSchedule &path_group, const KernelTarget &target);
// The same for a symmetric contraction, with its ContractionKernels.
std::string generate_contraction(const ContractionSchedule &contraction, const KernelTarget &target);

// KERNEL_LIBRARY, the kernels of other files by key.
std::string generate_kernel_list(const KernelNames &names, const KernelTarget &target);

// Such a file with the exported object that identifies a library of its kernels.
std::string as_library(const std::string &file, const KernelNames &names, const KernelTarget &target);
// The kernels of a path group as a library.
std::string generate_path_group_library(const PathGroupShape &shape, const KernelTarget &target);

}    // namespace equi

#endif
