// SPDX-License-Identifier: MIT
// Writes the kernels of a uvw path; kernel_generator.h uses it.
#ifndef EQUI_UVW_GENERATOR_H
#define EQUI_UVW_GENERATOR_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

namespace equi {

// The functions forward, backward and gather; NUM_COUPLED and ROW are those of the path group.
void generate_uvw_functions(GeneratedText &text, const PathGroupSchedule &u);

}    // namespace equi

#endif
