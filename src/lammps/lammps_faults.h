// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Errors of single ranks. With MPI, ranks that wait for one that has left wait forever. So either all ranks of a world
// learn of an error and stop together, or the rank that has it ends them all.

#ifndef EQUI_LAMMPS_FAULTS_H
#define EQUI_LAMMPS_FAULTS_H

#include <mpi.h>

namespace LAMMPS_NS {
class Error;
}

namespace equi {

// A reference to a function object, which must outlive it. Unlike std::function it needs no memory, which may be
// missing.
class Work {
 public:
  template <class F>
  Work(const F &f) : f_(&f), call_([](const void *f) { (*static_cast<const F *>(f))(); }) {}
  void operator()() const { call_(f_); }

 private:
  const void *f_;
  void (*call_)(const void *);
};

// Nothing here takes memory of its own, which a rank with a fault may lack: texts are cut at some thousand characters.

// Does `work` on each rank of `world`. Where it throws anything, all ranks end by Error::all() with "SUBJECT: TEXT" of
// the lowest rank on which it did, and with that rank's number unless all failed. Collective, hence `work` must not
// communicate: a rank that leaves it early would let the others wait.
void collective_try(LAMMPS_NS::Error *error, MPI_Comm world, const char *subject, Work work);

// For work that communicates, or that other ranks know nothing of: what it throws, other than LAMMPS's own errors, ends
// all ranks of `world` with "SUBJECT: TEXT" (end_all_ranks).
void local_try(LAMMPS_NS::Error *error, MPI_Comm world, const char *subject, Work work);

// Error::one() with this text. Ranks that end each other at the same time may end without a message, so a rank first
// gives those below it a pause of two seconds at most to end all. And mpirun may drop what a rank has printed just
// before it ends all, so there is another pause between the two.
[[noreturn]] void end_all_ranks(LAMMPS_NS::Error *error, MPI_Comm world, const char *text);

}    // namespace equi

#endif
