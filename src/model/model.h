// SPDX-License-Identifier: MIT
// A model is a potential as an ordered list of layers: it says what is to be computed, independent of how and where.
// The reader (model_file.h) fills it, with all normalization constants folded in, in float64. doc/model_file.rst
// states the meaning of every layer.
#ifndef EQUI_MODEL_H
#define EQUI_MODEL_H

#include "src/algebra/irreps.h"
#include "src/geometry/nearest_neighbors.h"
#include "src/layers/channel_balance.h"
#include "src/layers/convolution.h"
#include "src/layers/coulomb.h"
#include "src/layers/density_normalization.h"
#include "src/layers/direct_forces.h"
#include "src/layers/gate.h"
#include "src/layers/grid_network.h"
#include "src/layers/layer_norm.h"
#include "src/layers/linear.h"
#include "src/layers/node_product.h"
#include "src/layers/norm_scale.h"
#include "src/layers/pair_repulsion.h"
#include "src/layers/readout.h"
#include "src/layers/scale_shift.h"
#include "src/layers/so2_convolution.h"
#include "src/layers/species_embedding.h"
#include "src/layers/spherical_norm.h"
#include "src/layers/symmetric_contraction.h"
#include "src/model/mixture.h"
#include "src/numbers/matrix.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace equi {

// A PairRepulsion before ScaleShift is scaled by it, one after it is not. There is one Coulomb layer at most.
using Layer = std::variant<SpeciesEmbedding, Linear, Convolution, So2Convolution, Gate, DensityNormalization, LayerNorm,
                           ChannelBalance, NodeProduct, NormScale, SphericalNorm, GridNetwork, SymmetricContraction,
                           Readout, DirectForces, PairRepulsion, Coulomb, ScaleShift>;

inline Ports ports(const Layer &layer) {
  return std::visit([](const auto &l) { return l.ports(); }, layer);
}

// Whether a layer is a convolution of some kind: it reads its input at the senders of edges, and sums over them.
inline bool reads_senders(const Layer &layer) {
  return std::holds_alternative<Convolution>(layer) || std::holds_alternative<So2Convolution>(layer);
}
// Whether it reads its input at their receivers, too.
inline bool reads_receivers(const Layer &layer) {
  const auto *convolution = std::get_if<Convolution>(&layer);
  return convolution ? convolution->radial.reads_receiver() : std::holds_alternative<So2Convolution>(layer);
}

// Whether a turn of all atoms leaves the energy as it is, but for rounding.
inline bool is_invariant(const std::vector<Layer> &layers) {
  for (const Layer &layer : layers) {
    const auto *so2 = std::get_if<So2Convolution>(&layer);
    if (std::holds_alternative<GridNetwork>(layer) || (so2 && so2->depends_on_frame())) return false;
  }
  return true;
}

// Whether the energy of an atom depends on atoms at any distance.
inline bool has_channel_balance(const std::vector<Layer> &layers) {
  for (const Layer &layer : layers)
    if (std::holds_alternative<ChannelBalance>(layer)) return true;
  return false;
}

// Whether forces come from features: they are no derivatives of the energy.
inline bool has_direct_forces(const std::vector<Layer> &layers) {
  for (const Layer &layer : layers)
    if (std::holds_alternative<DirectForces>(layer)) return true;
  return false;
}

// The Coulomb layer, or null.
inline const Coulomb *find_coulomb(const std::vector<Layer> &layers) {
  for (const Layer &layer : layers)
    if (const auto *coulomb = std::get_if<Coulomb>(&layer)) return coulomb;
  return nullptr;
}

// What a layer evaluates by the kernels of contractions, if it does.
inline std::optional<ContractionProduct> polynomials(const Layer &layer) {
  if (const auto *c = std::get_if<SymmetricContraction>(&layer)) return c->product;
  if (const auto *n = std::get_if<NodeProduct>(&layer)) return n->product.polynomials();
  return std::nullopt;
}

// A structure with the framework's own answers in float64 (eV, Angstrom; stress as ASE: xx,yy,zz,yz,xz,xy in eV/A^3).
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
  // Texts of the file are printable (printable.h).
  std::string file;    // where it was read from, for messages
  std::string framework, framework_version, architecture;
  std::vector<std::string> elements;    // index = species
  double cutoff = 0.0;                  // Angstrom, of all layers but a Coulomb layer
  Matrix pair_cutoff;                   // empty, or [receiver species, sender species], at most cutoff
  int lmax_edge = 0;
  int max_neighbors = 0;               // of an atom within the cutoff, more are refused; 0: any number
  NearestNeighbors nearest;            // of an atom's neighbors within the cutoff, those that it sees
  std::vector<int64_t> composition;    // empty, or by species the atoms of the one formula that the model holds for
  std::optional<Mixture> mixture;      // of a file for all systems: what this model has been made for
  std::vector<std::string> feature_names;
  std::vector<Irreps> features;
  std::vector<Layer> layers;
  bool offers_direct_forces = false;    // whether the file has them, for which other layers are wanted, too
  std::map<std::string, std::string> provenance;
  std::vector<ReferenceStructure> self_check;
  std::vector<std::string> notes;    // of the reader, for the user: lines without indentation

  int num_species() const { return static_cast<int>(elements.size()); }
  int species(const std::string &symbol) const;    // -1 if the model does not know it
  int num_convolutions() const;
  // The largest distance within which atoms must know each other: of all cutoffs. Angstrom
  double reach() const {
    const Coulomb *coulomb = find_coulomb(layers);
    return coulomb && coulomb->cutoff > cutoff ? coulomb->cutoff : cutoff;
  }
  // The same model for a subset of its elements, in the given order; weights of other species are dropped.
  Model restricted_to(const std::vector<std::string> &symbols) const;
  // The same model with the derivatives of the energy as forces: without direct forces and the layers that lead to them
  // alone. Features keep their numbers.
  Model without_direct_forces() const;
  // By layer, whether that model has it.
  std::vector<bool> layers_of_energy() const;
};

}    // namespace equi

#endif
