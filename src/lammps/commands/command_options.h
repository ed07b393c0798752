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
#include <vector>

namespace equi {

// A known keyword, and what reads its value; for a keyword with several values this is called for each, in their order.
struct CommandOption {
  std::string keyword;
  std::function<void(const std::string &value)> read;
  int num_values = 1;
  const char *values = "a value";    // for the error that some are missing
};
// In the order of the error that lists them.
using CommandOptions = std::vector<CommandOption>;

// Reads keywords and their values; an error begins with the name of the command.
inline void read_options(LAMMPS_NS::LAMMPS *lmp, const char *command, int narg, char **arg,
                         const CommandOptions &known) {
  for (int k = 0; k < narg;) {
    const std::string keyword = arg[k++];
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto &o) { return o.keyword == keyword; });
    const CommandOption option = found == known.end() ? CommandOption{keyword, {}} : *found;
    if (k + option.num_values > narg)
      lmp->error->all(FLERR, "{}: keyword {} needs {}", command, keyword, option.values);
    if (found == known.end()) {
      std::string names;
      for (const auto &one : known) names += (names.empty() ? "" : ", ") + one.keyword;
      lmp->error->all(FLERR, "{}: unknown keyword {}; known are {}", command, keyword, names);
    }
    for (int n = 0; n < option.num_values; n++) option.read(arg[k++]);
  }
}

}    // namespace equi

#endif
