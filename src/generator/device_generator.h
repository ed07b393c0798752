// SPDX-License-Identifier: MIT
// Writes the device kernels of path groups as straight-line code like that of kernel_generator.h. Each is a struct with
// functions for one atom and one channel of a lane, which Kokkos can call on any of its devices. Duals need twice the
// registers, so there is a second struct for them if its runs of paths are shorter. The text includes only
// kokkos/device_kernels/device_path_group_impl.h. It is generic in the type, the rows per bin and the number of
// channels.
#ifndef EQUI_DEVICE_GENERATOR_H
#define EQUI_DEVICE_GENERATOR_H

#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_generator.h"
#include "src/generator/kernel_schedule.h"

#include <string>
#include <vector>

namespace equi {

// The contents of a kernel: the path groups of one launch. Duals need twice the registers, so they have their own
// kernels and runs of paths.
struct DeviceLaunch {
  std::vector<PathGroupShape> path_groups;
  bool of_duals = false;
};
// A source with kernels and their DevicePathGroupKernels. of_edges: for weights of edges, their DeviceEdgeKernels.
std::string generate_device_path_groups(const std::vector<DeviceLaunch> &launches, const KernelTarget &target,
                                        bool of_edges = false);

// A source with the kernels of some symmetric contractions and their DeviceContractionKernels.
std::string generate_device_contractions(const std::vector<ContractionSchedule> &contractions,
                                         const KernelTarget &target);

// device_kernels() and find_device_contraction() for the kernels of other sources.
std::string generate_device_list(const KernelNames &names, const KernelTarget &target);
// device_edge_kernels()
std::string generate_device_edge_list(const KernelNames &names, const KernelTarget &target);

}    // namespace equi

#endif
