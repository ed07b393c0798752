// SPDX-License-Identifier: MIT
// The kernels that every build has (common_kernels.def).
#ifndef EQUI_COMMON_KERNELS_H
#define EQUI_COMMON_KERNELS_H

#include "src/generator/kernel_generator.h"

#include <string>
#include <vector>

namespace equi {

std::vector<PathGroupShape> common_path_groups();
std::vector<PathGroupShape> common_uvw_paths();
// The names, as contraction_of() expects them.
std::vector<std::string> common_contractions();
// The keys of all these kernels.
KernelNames common_kernels();

}    // namespace equi

#endif
