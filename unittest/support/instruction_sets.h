// SPDX-License-Identifier: MIT
// The instruction sets whose kernels a test can run.
#ifndef EQUI_TEST_INSTRUCTION_SETS_H
#define EQUI_TEST_INSTRUCTION_SETS_H

#include "kokkos/host_kernels/host_kernels.h"

#include <vector>

namespace equi {
namespace testing {

inline std::vector<InstructionSet> available_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : INSTRUCTION_SETS)
    if (instruction_set_available(set)) sets.push_back(set);
  return sets;
}

}    // namespace testing
}    // namespace equi

#endif
