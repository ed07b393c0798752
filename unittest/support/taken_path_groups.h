// SPDX-License-Identifier: MIT
// The path groups that the kernels of a list process, if one kernel processes several.
#ifndef EQUI_TEST_TAKEN_PATH_GROUPS_H
#define EQUI_TEST_TAKEN_PATH_GROUPS_H

#include "kokkos/kernel_interface/device_path_group.h"
#include "src/generator/kernel_schedule.h"

#include <vector>

namespace equi {
namespace testing {

// Whether one of these kernels processes a path group. Kernel: DevicePathGroupKernel or DeviceEdgeKernel.
template <class Kernel>
bool is_taken(const std::vector<const Kernel *> &kernels, const PathGroupShape &path_group) {
  for (const Kernel *kernel : kernels)
    for (int k = 0; k < kernel->num_path_groups; k++)
      if (kernel->path_groups[k].key == path_group.key()) return true;
  return false;
}

}    // namespace testing
}    // namespace equi

#endif
