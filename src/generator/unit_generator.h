// SPDX-License-Identifier: MIT
// Writes the kernels of a unit of uvu paths for hosts, a part of what kernel_generator.h offers.
#ifndef EQUI_UNIT_GENERATOR_H
#define EQUI_UNIT_GENERATOR_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

namespace equi {

// The functions forward, backward and gather; NUM_FORMS, NUM_D and ROW are those of the unit.
void generate_unit_functions(GeneratedText &text, const UnitSchedule &u);
// rigid_forward and rigid_backward: the tangents of the first two where no edge moves.
void generate_rigid_functions(GeneratedText &text, const UnitSchedule &u);

}    // namespace equi

#endif
