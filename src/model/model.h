// SPDX-License-Identifier: MIT
// A model is a potential as an ordered list of layers: it states what to compute, independent of how and where. The
// reader (model_file.h) fills it in float64, with all normalization constants folded in. doc/model_file.rst states the
// meaning of every layer.
#ifndef EQUI_MODEL_H
#define EQUI_MODEL_H

#include "src/algebra/irreps.h"
#include "src/geometry/nearest_neighbors.h"
#include "src/model/layer_list.h"
#include "src/model/mixture.h"
#include "src/numbers/matrix.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace equi {

// The first layer of a type, or null.
template <class L>
const L *find_layer(const std::vector<Layer> &layers) {
  for (const Layer &layer : layers)
    if (const L *found = std::get_if<L>(&layer)) return found;
  return nullptr;
}

// Whether a trait is true for any of the layers.
bool any_layer(const std::vector<Layer> &layers, bool LayerTraits::*trait);
// The largest cutoff of edges other than those of the model, Angstrom; 0: there are none.
double far_cutoff(const std::vector<Layer> &layers);

// Whether the energy is that of clusters, in which each pair of atoms is nearer than far_cutoff.
inline bool needs_all_pairs(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::needs_all_pairs);
}
// Whether a rotation of all atoms leaves the energy unchanged, except for rounding.
inline bool is_invariant(const std::vector<Layer> &layers) {
  return !any_layer(layers, &LayerTraits::depends_on_orientation);
}
// Whether the energy of an open system depends on how it is turned, because charges stand for dipoles.
bool depends_on_axes(const std::vector<Layer> &layers, OpenSum sum);
// Whether the energy of an atom depends on atoms at any distance.
inline bool sums_over_atoms(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::sums_over_atoms);
}
// Whether there are sums over the wave vectors of a periodic cell.
inline bool sums_over_waves(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::sums_over_waves);
}
// Whether a field acts on the charges of the model.
inline bool has_field_of_charges(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::needs_field_of_all);
}
// Whether the energy is that of a cell that is periodic in three directions.
inline bool needs_periodic_cell(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::needs_periodic_cell);
}
// Whether forces come from features and are therefore not derivatives of the energy.
inline bool has_direct_forces(const std::vector<Layer> &layers) {
  return any_layer(layers, &LayerTraits::gives_forces);
}

// A structure with the framework's own results in float64 (eV, Angstrom; stress as ASE: xx,yy,zz,yz,xz,xy in eV/A^3).
struct ReferenceStructure {
  std::string name;
  std::vector<std::string> symbols;
  bool periodic[3] = {false, false, false};
  double cell[3][3] = {};    // rows are the lattice vectors; unused without periodicity
  std::vector<std::array<double, 3>> positions;
  double energy = 0.0;
  std::vector<std::array<double, 3>> forces;
  bool has_stress = false;
  double stress[6] = {};
};

struct Model {
  // Texts from the file are printable (printable.h).
  std::string file;    // path of the file, for messages
  std::string framework, framework_version, architecture;
  std::vector<std::string> elements;    // index = species
  double cutoff = 0.0;                  // Angstrom, for all layers without a far_cutoff
  Matrix pair_cutoff;                   // empty, or [receiver species, sender species], at most cutoff
  int lmax_edge = 0;
  bool has_mirror_symmetry = true;    // false: the energies of a structure and of its mirror image may differ
  int max_neighbors = 0;    // largest number of an atom's neighbors within the cutoff, more are refused; 0: any number
  NearestNeighbors nearest;            // which of an atom's neighbors within the cutoff it uses
  std::vector<int64_t> composition;    // empty, or by species the atoms of the only formula that the model is valid for
  std::optional<Mixture> mixture;      // set for a file for all systems: the system this model has been made for
  std::vector<std::string> feature_names;
  std::vector<Irreps> features;
  std::vector<Layer> layers;
  bool offers_direct_forces = false;    // whether the file has them; they need other layers, too
  std::map<std::string, std::string> provenance;
  std::vector<ReferenceStructure> self_check;
  std::vector<std::string> notes;    // notes of the reader, for the user: lines without indentation

  int num_species() const { return static_cast<int>(elements.size()); }
  int species(const std::string &symbol) const;    // -1 if the model does not know the element
  int num_convolutions() const;
  // The energy of an atom of a species is scale times the sum of its readouts plus shift (eV), per species.
  struct EnergyScale {
    std::vector<double> scale, shift;
  };
  EnergyScale energy_scale() const;
  // The largest of all cutoffs: atoms within this distance must know each other. Angstrom
  double reach() const {
    const double far = far_cutoff(layers);
    return far > cutoff ? far : cutoff;
  }
  // The same model for a subset of its elements, in the order of `symbols`; weights of other species are dropped.
  Model restricted_to(const std::vector<std::string> &symbols) const;
  // The same model with the derivatives of the energy as forces: without direct forces and the layers that lead only to
  // them. Features keep their numbers.
  Model without_direct_forces() const;
  // For each layer, whether that model has it.
  std::vector<bool> layers_of_energy() const;

  // The quantities that its layers `observable` compute, in the order of their numbers.
  std::vector<std::string> observables() const;
  std::string unit_of(const std::string &observable) const;
  int num_observable_numbers() const;                            // of an atom
  int observable_offset(const std::string &observable) const;    // of its first number; -1: the model has none
  // The same model without these layers and those that lead only to them.
  Model without_observables() const;
  // The same model with the potentials of charges in a field (V/Angstrom), if they are known there.
  Model with_charges_in_field(const std::array<double, 3> &field) const;
  // The layers that lead to these quantities (of all, if the name is empty): a model whose energy is zero.
  Model for_observables(const std::string &observable = "") const;
  // The layers that lead to charges and dipoles: a model whose energy is the sum of these numbers, times
  // EvaluationRequest::observable_weights. Throws std::invalid_argument if the model has neither.
  Model for_observable_derivatives() const;
  // The same model in a field (V/Angstrom), and without observables other than a dipole that has energy there; without
  // a field that is not zero, without_observables(). Throws std::invalid_argument if the model has no dipole that the
  // field could act on, or one of charges that feel no potentials.
  Model with_field(const std::array<double, 3> &field) const;
};

}    // namespace equi

#endif
