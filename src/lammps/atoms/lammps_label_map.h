// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The labels of atom types. The name of their search changed in a version between 22Jul2025 and 4Jul2026. It is
// declared here under both names, and the LAMMPS that loads the plugin has one of them. This works because the class is
// reached only through a pointer, and its search is not virtual. The headers of LAMMPS are not used, because not every
// LAMMPS installs label_map.h. A plugin that needed the name of one version could not even be loaded by another, and so
// could not report what is wrong.
#ifndef EQUI_LAMMPS_LABEL_MAP_H
#define EQUI_LAMMPS_LABEL_MAP_H

#include <cstdint>
#include <cstring>
#include <string>

namespace LAMMPS_NS {

class LabelMap {
 public:
  __attribute__((weak)) int find(const std::string &label, int mode) const;         // until 22Jul2025
  __attribute__((weak)) int find_type(const std::string &label, int mode) const;    // 4Jul2026
};

}    // namespace LAMMPS_NS

namespace equi {

// The number of the type that has this label, -1 if none has it; mode: Atom::ATOM for types of atoms.
inline int type_of_label(const LAMMPS_NS::LabelMap &map, const std::string &label, int mode) {
  // A compiler assumes that a pointer to a member is never null; but the function here is weak and may be missing.
  const auto search = &LAMMPS_NS::LabelMap::find_type;
  std::uintptr_t function;
  std::memcpy(&function, &search, sizeof function);
  return function == 0 ? map.find(label, mode) : map.find_type(label, mode);
}

}    // namespace equi

#endif
