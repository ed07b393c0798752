// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Reports errors of single ranks without allocating memory.
#include "src/lammps/faults/lammps_faults.h"

#include "error.h"
#include "exceptions.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// Space on the stack for the elements of any model and for a path: there may be no other memory.
constexpr int MAX_TEXT = 4096;

// Space for a subject in front of such a text.
constexpr int MAX_MESSAGE = MAX_TEXT + 512;

// LAMMPS expects the name of the source as a string, which is made while there is memory.
const std::string SOURCE = __FILE__;

// Describes the exception that is being handled.
void describe_exception(char (&text)[MAX_TEXT]) {
  const char *what = "";
  const auto copy = [&] { std::snprintf(text, MAX_TEXT, "%s", what); };
  try {
    throw;
  } catch (const std::bad_alloc &) {
    what = "there is not enough memory";
    copy();
  } catch (const std::exception &e) {
    what = e.what();
    copy();
  } catch (...) {
    copy();
  }
  if (text[0] == '\0') std::snprintf(text, MAX_TEXT, "an error without a description");
}

}    // namespace

void collective_try(Error *error, MPI_Comm world, const char *subject, Work work) {
  char text[MAX_TEXT], of_rank[64] = "";
  int me, num_ranks;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &num_ranks);
  int mine[2] = {num_ranks, 0}, all[2];    // the rank with a fault; minus the number of a rank without one
  try {
    work();
    mine[1] = -1;
  } catch (...) {
    mine[0] = me;
    describe_exception(text);
  }
  MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, world);
  const int lowest = all[0];
  if (lowest == num_ranks) return;
  MPI_Bcast(text, MAX_TEXT, MPI_CHAR, lowest, world);
  if (all[1] < 0) std::snprintf(of_rank, sizeof of_rank, " (rank %d of %d)", lowest, num_ranks);
  error->all(SOURCE, __LINE__, "{}: {}{}", subject, &text[0], &of_rank[0]);
}

void local_try(Error *error, MPI_Comm world, const char *subject, Work work) {
  char text[MAX_TEXT];
  try {
    work();
    return;
  } catch (const LAMMPSException &) {
    throw;
  } catch (...) {
    describe_exception(text);
  }
  char message[MAX_MESSAGE];
  std::snprintf(message, sizeof message, "%s: %s", subject, text);
  end_all_ranks(error, world, message);
}

void end_all_ranks(Error *error, MPI_Comm world, const char *text) {
  constexpr int TURN = 200, MOST = 2000, MOMENT = 50;    // milliseconds
  const auto wait = [](int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
  int me;
  MPI_Comm_rank(world, &me);
  wait(std::min(me, MOST / TURN) * TURN);
  try {
    error->one(SOURCE, __LINE__, "{}", text);
  } catch (const LAMMPSException &) {
    wait(MOMENT);
    throw;
  }
}

}    // namespace equi
