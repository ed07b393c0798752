// SPDX-License-Identifier: MIT
// Each layer of this room has, besides its numbers:
//   TYPE          the name of its type in a model file
//   fields()      the schema of its entry in the document (src/document/field_spec.h)
//   read()        reads an entry that has these fields, and checks what the schema does not state
//   ports()       the features that it reads and writes
//   traits()      its answers to what an evaluation asks of any layer
//   operations()  the floating-point operations of an atom and of an edge
//   restrict_to() drops what it holds for other species
// A layer that the kernels of contractions evaluate also has polynomials(), which returns its ContractionProduct.
// A new layer is a header and a source here and a line in the list of layers (src/model/layer_list.h).
//
// Words: a *trait* is an answer of a layer to a question that any layer can be asked. Code that treats all layers asks
// for traits, never for a type. The *list* names every type once; the variant Layer, the reader's table of types and
// the makers of each back end follow from it.
#ifndef EQUI_LAYER_H
#define EQUI_LAYER_H

#include "src/functions/radial_function.h"
#include "src/layers/operations.h"

#include <array>
#include <utility>
#include <vector>

namespace equi {

class JsonField;
class LayerReader;
struct FieldSpec;
using FieldSpecs = std::vector<FieldSpec>;

// The features that a layer reads; -1: none.
constexpr int MAX_INPUTS = 2;
using InputFeatures = std::array<int, MAX_INPUTS>;

// Features are numbered; Model::features holds their irreps.
struct Ports {
  int input = -1, output = -1;    // the features that the layer reads and writes, -1: none
  bool keeps_input = false;    // the backward pass needs the values of what is read, which it replaces by their adjoint
  int second_input = -1;       // another feature that is read
  bool keeps_output = false;    // the backward pass needs the output, and only this layer writes it

  InputFeatures inputs() const { return {input, second_input}; }
  template <class F>
  void for_inputs(const F &f) const {
    for (const int feature : inputs())
      if (feature >= 0) f(feature);
  }
};

// Answers of a layer to an evaluation. The defaults are the answers of most layers, which map rows of atoms to rows.
struct LayerTraits {
  // The data that it reads besides the rows of an atom.
  bool reads_senders = false;            // its input at the senders of edges, and sums over the edges of each receiver
  bool reads_receivers = false;          // also its input at the receivers of edges
  bool depends_on_edges = false;         // distances or directions of neighbors
  double far_cutoff = 0.0;               // Angstrom; 0: no edges beyond the cutoff of the model
  bool needs_all_pairs = false;          // each pair of atoms must be nearer than far_cutoff
  bool sums_over_atoms = false;          // sums of its input over the atoms of all ranks, before its stage begins
  bool sums_over_waves = false;          // sums over wave vectors in a periodic cell
  bool needs_periodic_cell = false;      // the cell must be periodic in three directions
  bool needs_field_of_all = false;       // EvaluationRequest::image_shifts, because it has a potential of a field
  bool needs_geometric_input = false;    // its input must depend on positions, not only on the species

  // Its contributions to energies and forces.
  bool is_readout = false;          // a function of an atom's own feature is added to the energy
  bool adds_pair_energy = false;    // a function of pairs of atoms is added to the energy
  bool scales_energies = false;     // the energies of atoms are scaled and shifted
  bool gives_forces = false;        // the output of the model has forces that are not derivatives of the energy
  bool is_observable = false;       // the output of the model has a quantity of atoms besides the energy
  bool has_no_adjoint = false;      // the energy does not depend on what it computes

  // How it may be evaluated.
  bool is_linear = false;               // constant coefficients; may add to the output of others even if that is kept
  bool is_cheap = false;                // a map of rows that costs little to recompute
  bool has_costly_edges = false;        // cheap layers cost little compared with its edges, so models recompute them
  bool has_edge_networks = false;       // its radial network reads features and is evaluated for each edge
  bool changes_in_place = false;        // the output uses the memory of the input
  bool needs_own_adjoint = false;       // the adjoint of the output does not replace its values
  bool tangents_need_values = false;    // tangents can be evaluated only in the same pass as the values

  // Properties of a model that has it.
  bool depends_on_orientation = false;    // a rotation of all atoms changes the energy by more than rounding
  bool is_single = false;                 // there is no second layer of this type
};

// Restricts the data that a layer stores per species to a subset of the species.
struct KeptSpecies {
  const std::vector<int> &kept;    // in their new order

  template <class T>
  void each(std::vector<T> &per_species) const {
    std::vector<T> chosen;
    for (int s : kept) chosen.push_back(per_species[s]);
    per_species = std::move(chosen);
  }
  // [species, n], or empty.
  void rows(Matrix &m) const {
    if (m.data.empty()) return;
    Matrix chosen{static_cast<int>(kept.size()), m.cols, {}};
    for (int s : kept) {
      const auto row = m.data.begin() + static_cast<size_t>(s) * m.cols;
      chosen.data.insert(chosen.data.end(), row, row + m.cols);
    }
    m = std::move(chosen);
  }
  // [species, species], or empty.
  void pairs(Matrix &m) const {
    if (m.data.empty()) return;
    const int num = static_cast<int>(kept.size());
    Matrix chosen{num, num, {}};
    for (int a : kept)
      for (int b : kept) chosen.data.push_back(m(a, b));
    m = std::move(chosen);
  }
  void basis(RadialBasis &b) const {
    pairs(b.pair_r0);
    pairs(b.pair_cutoff);
  }
  void radial(RadialFunction &f) const {
    basis(f.basis);
    rows(f.sender);
    rows(f.receiver);
    rows(f.receiver_factor);
    rows(f.sender_factor);
    if (f.charge_potential) pairs(f.charge_potential->widths);
  }
};

}    // namespace equi

#endif
