// SPDX-License-Identifier: MIT
// The parts of a device's text that device_generator.cpp combines: those shared by uvu and uvw paths, and those of uvw
// paths.
#ifndef EQUI_DEVICE_PATH_TEXT_H
#define EQUI_DEVICE_PATH_TEXT_H

#include "src/generator/generated_text.h"
#include "src/generator/kernel_schedule.h"

namespace equi {

// The entries of M that a path reads; coupled ones are in memory.
void load_coupled(GeneratedText &text, const PathSchedule &p);
// The address of the coupled entries at an edge, if there are any.
void locate_coupled(GeneratedText &text, const PathGroupSchedule &u);
// The components of the sender, for a lane's channels.
void load_sender(GeneratedText &text, int d1);
// The sums a0, a1, ... of numbers V as sum[num], with those of the groups of lanes that share the atom. A lane without
// a store ends here.
void add_up_shares(GeneratedText &text, int num);
// Adds sum[d1] to the adjoint of the atom's own row.
void store_x_adj(GeneratedText &text, int d1);

// The functions of a uvw path.
void generate_uvw_forward(GeneratedText &text, const PathGroupSchedule &u);
void generate_uvw_backward(GeneratedText &text, const PathGroupSchedule &u);
void generate_uvw_gather(GeneratedText &text, const PathGroupSchedule &u);

}    // namespace equi

#endif
