// SPDX-License-Identifier: MIT
// Checks whether a plugin fits the LAMMPS that loads it. The memory layout of LAMMPS's classes depends on its version
// and on the sizes of its integers. A handle of one MPI means nothing to another. So a plugin compiled for another
// LAMMPS would read and write the wrong memory.
#ifndef EQUI_LAMMPS_COMPATIBILITY_H
#define EQUI_LAMMPS_COMPATIBILITY_H

namespace equi {

// lmp: the LAMMPS, in the form that the functions of its C library expect; nothing else of it is read. If it differs
// from the LAMMPS whose headers this was compiled with, rank 0 prints the difference on standard error.
bool is_compatible(void *lmp);

}    // namespace equi

#endif
