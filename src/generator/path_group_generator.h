// SPDX-License-Identifier: MIT
// Writes the kernels of a path group of uvu paths for hosts, a part of what kernel_generator.h offers.
#ifndef EQUI_PATH_GROUP_GENERATOR_H
#define EQUI_PATH_GROUP_GENERATOR_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

namespace equi {

// The functions forward, backward and gather; NUM_COUPLED, NUM_D and ROW are those of the path group.
void generate_path_group_functions(GeneratedText &text, const PathGroupSchedule &u);
// The functions for duals in several directions: moving_forward, and rigid_forward and rigid_backward, which compute
// the tangents of the first two for edges that do not move.
void generate_functions_of_directions(GeneratedText &text, const PathGroupSchedule &u);

}    // namespace equi

#endif
