// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Reads the keywords of a command.

#ifndef EQUI_COMMAND_OPTIONS_H
#define EQUI_COMMAND_OPTIONS_H

#include "error.h"
#include "lammps.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// The known keywords and what reads the value of each, in the order of the error that lists them.
using CommandOptions = std::vector<std::pair<std::string, std::function<void(const std::string &value)>>>;

// Reads pairs of keyword and value; an error begins with the name of the command.
inline void read_options(LAMMPS_NS::LAMMPS *lmp, const char *command, int narg, char **arg,
                         const CommandOptions &known) {
  for (int k = 0; k < narg; k += 2) {
    const std::string keyword = arg[k];
    if (k + 1 == narg) lmp->error->all(FLERR, "{}: keyword {} needs a value", command, keyword);
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto &o) { return o.first == keyword; });
    if (found == known.end()) {
      std::string names;
      for (const auto &option : known) names += (names.empty() ? "" : ", ") + option.first;
      lmp->error->all(FLERR, "{}: unknown keyword {}; known are {}", command, keyword, names);
    }
    found->second(arg[k + 1]);
  }
}

}    // namespace equi

#endif
