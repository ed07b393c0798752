// SPDX-License-Identifier: MIT
// Finds the translations of a crystal that map its atoms onto themselves.
#ifndef EQUI_LATTICE_TRANSLATIONS_H
#define EQUI_LATTICE_TRANSLATIONS_H

#include <array>
#include <vector>

namespace equi {

class Translations {
 public:
  // For num_atoms atoms; only the translation that leaves each atom in its place.
  explicit Translations(int num_atoms);

  int count() const { return static_cast<int>(image_.size()); }
  // Smallest atom that a translation maps onto this one: atoms of an orbit share it.
  int orbit(int atom) const { return orbit_[atom]; }
  // For each atom, the atom that the translation from `from` to `to` (in one orbit) maps onto it.
  std::vector<int> preimages(int from, int to) const;

 private:
  friend Translations find_translations(const std::vector<std::array<double, 3>> &, const std::vector<int> &,
                                        const double (&)[3][3], const bool (&)[3], double);
  std::vector<std::vector<int>> image_;    // [atoms] per translation
  std::vector<int> orbit_;
};

// fractional: places in units of the rows of `cell`. kind: atoms of different kinds are not mapped onto each other.
// Places may differ by `tolerance` in units of the cell's rows.
Translations find_translations(const std::vector<std::array<double, 3>> &fractional, const std::vector<int> &kind,
                               const double (&cell)[3][3], const bool (&periodic)[3], double tolerance);

}    // namespace equi

#endif
