// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// A plugin for tests: the command `rank_fault all|one KIND RANK ...` lets the given ranks throw an exception of a kind
// within lammps_faults.h.

#include "src/lammps/faults/lammps_faults.h"
#include "src/lammps/plugin/lammps_plugin_api.h"

#include "comm.h"
#include "command.h"
#include "error.h"
#include "lammps.h"
#include "utils.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

using namespace LAMMPS_NS;

namespace {

class RankFault : public Command {
 public:
  explicit RankFault(LAMMPS *lmp) : Command(lmp) {}

  void command(int narg, char **arg) override {
    const std::string who = arg[0], kind = arg[1], me = std::to_string(comm->me);
    const bool is_mine = std::any_of(arg + 2, arg + narg, [&](const char *rank) { return me == rank; });
    const auto work = [&] {
      if (is_mine) fail(kind);
    };
    if (who == "all")
      equi::collective_try(error, world, "Fault", work);
    else
      equi::local_try(error, world, "Fault", work);
    MPI_Barrier(world);
    if (comm->me == 0) utils::logmesg(lmp, "All ranks go on\n");
  }

 private:
  struct Stranger {};

  void fail(const std::string &kind) {
    if (kind == "text") throw std::runtime_error("text of rank " + std::to_string(comm->me));
    if (kind == "empty") throw std::runtime_error("");
    if (kind == "long") throw std::runtime_error("long" + std::string(100000, 'x'));
    if (kind == "memory") throw std::bad_alloc();
    if (kind == "number") throw 42;
    if (kind == "stranger") throw Stranger();
    if (kind == "lammps") error->one(FLERR, "LAMMPS's own words");
  }
};

}    // namespace

extern "C" __attribute__((visibility("default"))) void lammpsplugin_init(void *lmp, void *handle,
                                                                         void *register_function) {
  lammpsplugin_t plugin{};
  plugin.version = EQUI_LAMMPS_VERSION;
  plugin.style = "command";
  plugin.name = "rank_fault";
  plugin.info = "faults of ranks for tests";
  plugin.author = "the equi developers";
  plugin.handle = handle;
  plugin.creator.v1 = [](void *l) -> void * { return static_cast<Command *>(new RankFault(static_cast<LAMMPS *>(l))); };
  reinterpret_cast<lammpsplugin_register>(register_function)(&plugin, lmp);
}
