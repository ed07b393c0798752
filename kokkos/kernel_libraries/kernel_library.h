// SPDX-License-Identifier: MIT
// Finds generated kernels: those of the build, or else those of a library that the user made with `equi compile`
// (kernel_cache.h).
#ifndef EQUI_KERNEL_LIBRARY_H
#define EQUI_KERNEL_LIBRARY_H

#include "kokkos/host_kernels/host_kernels.h"
#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_schedule.h"

#include <string>

namespace equi {

// The kernel of a path group for an instruction set that this CPU has; null if none exists. Valid until the process
// ends.
template <class T>
const PathGroupKernel<T> *find_path_group_kernel(InstructionSet set, const PathGroupShape &shape);
// The same for a uvw path.
template <class T>
const UvwKernel<T> *find_uvw_kernel(InstructionSet set, const PathGroupShape &shape);
// The same for a symmetric contraction.
template <class T>
const ContractionKernel<T> *find_contraction_kernel(InstructionSet set, const ContractionSchedule &schedule);

// The reason, in one line, why the user's library for this key is not used. It is empty if the library is used, if
// none exists, or if none of the functions above has looked for it.
std::string kernel_library_fault(InstructionSet set, const std::string &key);

// The user's library for a path group or a contraction (What: PathGroupShape or ContractionSchedule), as it is
// stored now.
struct KernelLibraryFound {
  const KernelLibrary *library = nullptr;    // null: none exists, or it must not be used
  std::string fault;                         // why it must not be used
};
template <class What>
KernelLibraryFound find_kernel_library(InstructionSet set, const What &what);

}    // namespace equi

#endif
