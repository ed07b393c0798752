// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "src/lammps/lammps_faults.h"

#include "error.h"
#include "exceptions.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <thread>

using namespace LAMMPS_NS;

namespace equi {

namespace {

// Room for the elements of any model and for a path, on the stack: there may be no other memory.
constexpr int MAX_TEXT = 4096;

// What is known of the exception that is being handled.
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

std::string fault_of_ranks(MPI_Comm world, Work work) {
  char text[MAX_TEXT];
  int me, num_ranks;
  MPI_Comm_rank(world, &me);
  MPI_Comm_size(world, &num_ranks);
  int mine[2] = {num_ranks, 0}, all[2];    // the rank of a fault; minus the number of a rank without one
  try {
    work();
    mine[1] = -1;
  } catch (...) {
    mine[0] = me;
    describe_exception(text);
  }
  MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, world);
  const int lowest = all[0];
  if (lowest == num_ranks) return "";
  MPI_Bcast(text, MAX_TEXT, MPI_CHAR, lowest, world);
  std::string fault = text;
  if (all[1] < 0) fault += " (rank " + std::to_string(lowest) + " of " + std::to_string(num_ranks) + ")";
  return fault;
}

void all_ranks_or_none(Error *error, MPI_Comm world, const std::string &subject, Work work) {
  const std::string fault = fault_of_ranks(world, work);
  if (!fault.empty()) error->all(FLERR, "{}: {}", subject, fault);
}

void this_rank_or_none(Error *error, MPI_Comm world, const std::string &subject, Work work) {
  char text[MAX_TEXT];
  try {
    work();
    return;
  } catch (const LAMMPSException &) {
    throw;
  } catch (...) {
    describe_exception(text);
  }
  end_all_ranks(error, world, subject + ": " + text);
}

void end_all_ranks(Error *error, MPI_Comm world, const std::string &text) {
  constexpr int TURN = 200, MOST = 2000, MOMENT = 50;    // milliseconds
  const auto wait = [](int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
  int me;
  MPI_Comm_rank(world, &me);
  wait(std::min(me, MOST / TURN) * TURN);
  try {
    error->one(FLERR, "{}", text);
  } catch (const LAMMPSException &) {
    wait(MOMENT);
    throw;
  }
}

}    // namespace equi
