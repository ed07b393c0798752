// SPDX-License-Identifier: MIT
// Quantities of atoms that a model computes besides its energy: charges, dipoles, polarizabilities, spins.
#ifndef EQUI_OBSERVABLE_H
#define EQUI_OBSERVABLE_H

#include "src/layers/layer.h"

#include <array>
#include <string>
#include <vector>

namespace equi {

// Adds blocks of a feature to a named quantity of the atoms. Each block has one channel. Several layers may have the
// same name and unit; their sum is the quantity.
//   charge          one 0e block, e
//   dipole          one block of l = 1, in the order x, y, z; e Angstrom
//   polarizability  a 0e block and a 2e block, in the unit of the file
//   spin            one 0e block: electrons of spin up minus those of spin down
// A layer changes the energy in two cases. If the pair style has a field, it adds -field . dipole to the energy of an
// atom, which no scale_shift multiplies. In a model for derivatives of observables it adds them, times the weights of
// the request.
struct Observable {
  static constexpr const char *TYPE = "observable";
  static constexpr double DEBYE = 0.20819433270935597;    // e Angstrom

  int input;
  std::vector<int> blocks;
  std::string name, unit;
  double scale = 1.0;               // factor from the unit of the file to e, e Angstrom; 1 for a polarizability
  std::array<double, 3> field{};    // V/Angstrom, for a dipole
  bool is_weighted = false;         // whether weights of the request make it a part of the energy

  static const FieldSpecs &fields();
  static Observable read(const JsonField &layer, LayerReader &reader);
  // Numbers of an atom: those of the blocks one after another.
  static int width(const std::string &name) {
    return name == "charge" || name == "spin" ? 1 : name == "dipole" ? 3 : 6;
  }
  bool has_field() const { return field != std::array<double, 3>{}; }
  bool has_energy() const { return is_weighted || has_field(); }

  Ports ports() const { return {input, -1}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.is_observable = t.needs_geometric_input = true;
    t.is_readout = has_energy();
    t.has_no_adjoint = !has_energy();
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

// xx, yy, zz, xy, xz, yz of the polarizability with the numbers a (0e) and t (2e, in the order of irreps.h). The
// tensors of the six numbers are orthonormal.
std::array<double, 6> polarizability_tensor(const double numbers[6]);

}    // namespace equi

#endif
