// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Errors of single ranks. With MPI, ranks that wait for a rank that has left wait forever. So either all ranks of a
// world learn of an error and stop together, or the rank with the error ends them all.

#ifndef EQUI_LAMMPS_FAULTS_H
#define EQUI_LAMMPS_FAULTS_H

#include <mpi.h>

namespace LAMMPS_NS {
class Error;
}

namespace equi {

// A reference to a function object, which must outlive it. Unlike std::function it allocates no memory, which a rank
// with a fault may lack.
class Work {
 public:
  template <class F>
  Work(const F &f) : f_(&f), call_([](const void *f) { (*static_cast<const F *>(f))(); }) {}
  void operator()() const { call_(f_); }

 private:
  const void *f_;
  void (*call_)(const void *);
};

// Nothing here allocates memory, which a rank with a fault may lack: texts are cut at some thousand characters.

// Runs `work` on each rank of `world`. If it throws on any rank, all ranks end by Error::all() with "SUBJECT: TEXT" of
// the lowest such rank. The message has that rank's number unless all failed. Collective; `work` must not communicate,
// because a rank that leaves it early would let the others wait.
void collective_try(LAMMPS_NS::Error *error, MPI_Comm world, const char *subject, Work work);

// For work that communicates, or that other ranks do not know of. An exception, other than LAMMPS's own errors, ends
// all ranks of `world` with "SUBJECT: TEXT" (end_all_ranks).
void local_try(LAMMPS_NS::Error *error, MPI_Comm world, const char *subject, Work work);

// Calls Error::one() with this text. Ranks that end each other at the same time may end without a message. So a rank
// first pauses for at most two seconds, in which lower ranks can end all. mpirun may drop output that a rank prints
// just before it ends all, so there is another pause after the output.
[[noreturn]] void end_all_ranks(LAMMPS_NS::Error *error, MPI_Comm world, const char *text);

}    // namespace equi

#endif
