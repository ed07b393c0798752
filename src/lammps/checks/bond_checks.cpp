// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Checks of the bonds that LAMMPS provides.
#include "src/lammps/checks/bond_checks.h"

#include "angle.h"
#include "atom.h"
#include "bond.h"
#include "comm.h"
#include "dihedral.h"
#include "error.h"
#include "force.h"
#include "improper.h"
#include "lammps.h"
#include "neighbor.h"
#include "utils.h"

#include <algorithm>
#include <stdexcept>

using namespace LAMMPS_NS;

namespace equi {

// How to handle bonds of a force field among atoms of the model.
static const std::string NO_BONDS =
    "take them away by delete_bonds GROUP multi remove special, or let them add no energy by bond_style zero "
    "(angle_style zero, ...)";

/* ----------------------------------------------------------------------
   LAMMPS leaves special neighbors out of its lists, or marks them, where they are to interact with less than full
   weight. The model knows no bonds: it needs all pairs of the atoms it is used for.
------------------------------------------------------------------------- */

void BondChecks::check_special_neighbors() const {
  // During a step a hybrid style replaces the weights of special_bonds by those of pair_modify.
  const double *weight = force->special_lj;
  if (atom->molecular == Atom::ATOMIC || std::all_of(weight + 1, weight + 4, [](double w) { return w == 1.0; })) return;
  const auto has_species = [this](int i) { return models_.has_atom(i); };
  const auto refuse = [&](const std::string &pair, const std::string &given) {
    throw std::runtime_error(
        pair + ", and the model needs all pairs of its atoms with the weight 1, not " + given +
        ": use special_bonds lj/coul 1 1 1, or under a hybrid style weights that are neither 0 nor 1 (for example "
        "special_bonds lj/coul 1e-20 1e-20 1e-20) and pair_modify pair equi special lj/coul 1 1 1. If a force field "
        "has made the bonds, " +
        NO_BONDS);
  };
  const std::string all = fmt::format("{:.6g} {:.6g} {:.6g}", weight[1], weight[2], weight[3]);
  for (int i = 0; i < atom->nlocal; i++) {
    if (!has_species(i)) continue;
    if (atom->molecular == Atom::TEMPLATE) {    // its bonds are not listed by atom
      if (atom->nbonds > 0 && atom->molindex[i] >= 0 && atom->molatom[i] >= 0)
        refuse(fmt::format("atom ID {} belongs to a molecule with bonds", atom->tag[i]), all);
      continue;
    }
    // Three kinds, one after another: 1-2, 1-3 and 1-4 neighbors.
    for (int k = 0, s = 0; k < 3; k++)
      for (; s < atom->nspecial[i][k]; s++) {
        const int j = atom->map(atom->special[i][s]);    // -1: outside all ghosts
        if (weight[k + 1] != 1.0 && j >= 0 && has_species(j))
          refuse(fmt::format("atoms with IDs {} and {} are 1-{} neighbors through bonds", atom->tag[i],
                             atom->special[i][s], k + 2),
                 all);
      }
  }
}

/* ----------------------------------------------------------------------
   The energy of the model holds bonds already. Those of a force field among the same atoms are added to it.
------------------------------------------------------------------------- */

void BondChecks::check_bonds(PairAtoms &atoms) const {
  std::string styles;
  // Adds bonds of one kind: list [count][num_atoms + 1] of atoms and type. `known` has all styles of LAMMPS, and
  // match() returns those in use.
  const auto add = [&](const char *kind, const char *style, const auto &known, const auto &match, int **list, int count,
                       int num_atoms) {
    if (!style) return;
    const auto is_zero = [](const std::string &name) { return utils::strmatch(name, "^zero"); };
    const auto is_hybrid_name = [](const std::string &name) { return utils::strmatch(name, "^hybrid"); };
    // Those of KOKKOS take no style zero, and match() does not look into them.
    const bool is_hybrid = is_hybrid_name(style) && !utils::strmatch(style, "/kk");
    if (is_zero(style)) return;
    std::vector<const int *> parts;    // for a hybrid style: the types that a style other than zero uses
    if (is_hybrid)
      for (const auto &entry : known)
        if (const auto *part = is_zero(entry.first) || is_hybrid_name(entry.first) ? nullptr : match(entry.first))
          parts.push_back(part->setflag);
    bool mine = false;
    for (int n = 0; n < count && !mine; n++) {
      const int *atoms = list[n], type = atoms[num_atoms];
      mine = std::all_of(atoms, atoms + num_atoms, [this](int i) { return models_.has_atom(i); }) &&
             (!is_hybrid || std::any_of(parts.begin(), parts.end(), [&](const int *set) { return set && set[type]; }));
    }
    if (any(mine)) styles += fmt::format("{}{}_style {}", styles.empty() ? "" : ", ", kind, style);
  };
  if (atom->molecular != Atom::ATOMIC && atoms.sync_host_bonds()) {
    add(
        "bond", force->bond ? force->bond_style : nullptr, *force->bond_map,
        [&](const std::string &name) { return force->bond_match(name); }, neighbor->bondlist, neighbor->nbondlist, 2);
    add(
        "angle", force->angle ? force->angle_style : nullptr, *force->angle_map,
        [&](const std::string &name) { return force->angle_match(name); }, neighbor->anglelist, neighbor->nanglelist,
        3);
    add(
        "dihedral", force->dihedral ? force->dihedral_style : nullptr, *force->dihedral_map,
        [&](const std::string &name) { return force->dihedral_match(name); }, neighbor->dihedrallist,
        neighbor->ndihedrallist, 4);
    add(
        "improper", force->improper ? force->improper_style : nullptr, *force->improper_map,
        [&](const std::string &name) { return force->improper_match(name); }, neighbor->improperlist,
        neighbor->nimproperlist, 4);
  }
  if (!styles.empty() && comm->me == 0)
    error->warning(
        FLERR,
        "Pair style equi: {} act between atoms of the model, whose energy holds their bonds already: both are "
        "added up. If this is not meant, {}",
        styles, NO_BONDS);
}

}    // namespace equi
