// SPDX-License-Identifier: MIT
// Whether a plugin fits the LAMMPS that loads it. Classes of LAMMPS are laid out in other ways in other versions and
// with integers of other sizes, and a handle of one MPI means nothing to another one: a plugin that was compiled for
// another LAMMPS would read and write memory that is not what it takes it for.
#ifndef EQUI_LAMMPS_COMPATIBILITY_H
#define EQUI_LAMMPS_COMPATIBILITY_H

namespace equi {

// lmp: the LAMMPS, as the functions of its C library take it, of which nothing else is read. If it differs from the one
// whose headers this was compiled with, rank 0 says on standard error in what.
bool is_compatible(void *lmp);

}    // namespace equi

#endif
