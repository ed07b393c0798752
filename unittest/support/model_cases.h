// SPDX-License-Identifier: MIT
// Tiny models and structures on which the laws of an evaluation are tested.
#ifndef EQUI_TEST_MODEL_CASES_H
#define EQUI_TEST_MODEL_CASES_H

#include "unittest/support/model_builder.h"
#include "unittest/support/two_rank_exchange.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace equi {
namespace testing {

struct Structure {
  std::vector<Vector3> positions;
  std::vector<int> species;
  double cell[3][3] = {{5.1, 0.2, -0.3}, {0.4, 5.6, 0.1}, {-0.2, 0.3, 6.2}};
  bool periodic[3] = {true, true, true};

  ImageStructure images(double cutoff) const {
    return build_image_structure(positions, species, cell, periodic, cutoff);
  }
  int size() const { return static_cast<int>(positions.size()); }
};

// side^3 atoms on a jittered grid, so that none are close. The cell of side 2 is smaller than twice the cutoff of the
// tiny models.
inline Structure random_structure(int num_species, unsigned seed, int side = 2) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> jitter(-0.4, 0.4);
  Structure s;
  const double step[3] = {2.55, 2.8, 3.1};
  for (int k = 0; k < side * side * side; ++k) {
    const int corner[3] = {k % side, k / side % side, k / (side * side)};
    Vector3 p;
    for (int c = 0; c < 3; ++c) p[c] = corner[c] * step[c] + jitter(random);
    s.positions.push_back(p);
    s.species.push_back(static_cast<int>(random() % num_species));
  }
  for (auto &row : s.cell)
    for (double &c : row) c *= 0.5 * side;
  return s;
}

// Atoms of species 0, in a row without periodic images, beyond each other's reach.
inline Structure isolated_atoms(int num_atoms) {
  Structure s;
  for (int i = 0; i < num_atoms; ++i) {
    s.positions.push_back({100.0 * i, 0.0, 0.0});
    s.species.push_back(0);
  }
  for (bool &p : s.periodic) p = false;
  return s;
}

// Features whose adjoints ranks exchange, too: the inputs of convolutions but for the first one's, which depends on the
// species alone.
inline int num_exchanged_features(const Model &model) {
  std::set<int> inputs;
  for (const Layer &layer : model.layers)
    if (reads_senders(layer)) inputs.insert(ports(layer).input);
  return std::max(0, static_cast<int>(inputs.size()) - 1);
}
// Features that are sent to other ranks and whose adjoints stay: those that layers with far edges read.
inline int num_sent_features(const Model &model) {
  std::set<int> inputs;
  for (const Layer &layer : model.layers)
    if (traits(layer).far_cutoff > 0.0) inputs.insert(ports(layer).input);
  return static_cast<int>(inputs.size());
}
inline int num_far_layers(const Model &model) {
  return static_cast<int>(std::count_if(model.layers.begin(), model.layers.end(),
                                        [](const Layer &layer) { return traits(layer).far_cutoff > 0.0; }));
}
// Convolutions that read exchanged features.
inline int num_exchanging_convolutions(const Model &model) {
  int first = -1, count = 0;
  for (const Layer &layer : model.layers)
    if (reads_senders(layer)) {
      const int input = ports(layer).input;
      if (first < 0) first = input;
      count += input != first;
    }
  return count;
}

// The same potential, in which every convolution, gate, normalization and contraction whose output is read by linear
// layers alone is there twice: each of these layers adds up half of what it makes of the one and of the other.
inline Model with_features_read_twice(const Model &model) {
  Model twice = model;
  twice.layers.clear();
  std::vector<int> copy_of(model.features.size(), -1);
  for (const Layer &layer : model.layers) {
    twice.layers.push_back(layer);
    Layer copy = layer;
    int *output = nullptr;
    if (auto *c = std::get_if<Convolution>(&copy)) output = &c->output;
    if (auto *g = std::get_if<Gate>(&copy)) output = &g->output;
    if (auto *d = std::get_if<DensityNormalization>(&copy)) output = &d->output;
    if (auto *s = std::get_if<SymmetricContraction>(&copy)) output = &s->output;
    const bool is_linear = std::holds_alternative<Linear>(layer);
    if (output && std::all_of(model.layers.begin(), model.layers.end(), [&](const Layer &other) {
          const Ports p = ports(other);
          return (p.input != *output && p.second_input != *output) || std::holds_alternative<Linear>(other);
        })) {
      copy_of[*output] = static_cast<int>(twice.features.size());
      twice.features.push_back(twice.features[*output]);
      twice.feature_names.push_back(twice.feature_names[*output] + "_copy");
      *output = copy_of[*output];
      twice.layers.push_back(copy);
    } else if (is_linear && copy_of[ports(copy).input] >= 0) {
      for (auto *half : {&std::get<Linear>(twice.layers.back()), &std::get<Linear>(copy)})
        for (LinearBlock &block : half->blocks)
          for (Matrix &weight : block.weight)
            for (double &w : weight.data) w *= 0.5;
      Linear &second = std::get<Linear>(copy);
      second.input = copy_of[second.input];
      second.accumulate = true;
      second.bias.clear();
      twice.layers.push_back(copy);
    }
  }
  return twice;
}

struct TinyCase {
  std::string name;
  TinyModelOptions options;
  bool keeps_parity = false;      // whether mirror images have one energy
  double mirror_change = 1e-6;    // by what their energies differ at the least where they do not, eV
  // Replaces the builder's activations of the gates on even scalars, where not empty.
  std::string scalar_activation, gate_activation;
  bool reads_twice = false;    // with_features_read_twice()
  double turn_error = 0.0;     // by what a turn of the structure may change energies and turned forces, eV and eV/A

  Model model() const;
};

inline void PrintTo(const TinyCase &c, std::ostream *out) {
  *out << c.name;
}

// Odd multiplicities and some above the padding of 16, every option of the format at least once, one to three layers.
inline std::vector<TinyCase> tiny_cases() {
  std::vector<TinyCase> cases(5);
  cases[0].name = "rotations_only";
  cases[0].keeps_parity = true;    // two layers form nothing but products of two harmonics of equal l
  cases[1].name = "one_layer";
  cases[1].options.hidden = {"7x0e"};
  cases[1].keeps_parity = true;    // nothing but distances enters
  cases[1].options.lmax_edge = 1;
  cases[1].options.xplor = false;
  cases[1].options.radial_hidden = {};
  cases[1].options.readout_hidden = {6};
  cases[2].name = "parity_three_layers";
  TinyModelOptions &parity = cases[2].options;
  parity.elements = {"O", "H", "Si"};
  parity.parity = true;
  parity.lmax_edge = 3;
  parity.hidden = {"3x0e+1x0o+2x1o+3x1e+1x2e+1x3o", "2x0o+4x0e+1x2o+2x1o", "5x0e"};
  parity.per_species_linear = true;
  parity.biases = true;
  parity.xplor = false;
  parity.p = 5.5;
  parity.readout_hidden = {4, 3};
  parity.seed = 2;
  cases[2].keeps_parity = true;
  cases[3].name = "unnormalized_high_l";
  TinyModelOptions &high = cases[3].options;
  high.lmax_edge = 4;
  high.hidden = {"4x0e+1x4e+3x1e", "3x0e+1x3e", "4x0e"};
  high.embedding_channels = 1;
  high.r_power = true;
  high.radial_hidden = {5};
  high.is_double = false;
  high.seed = 3;
  cases[4].name = "many_channels";
  TinyModelOptions &wide = cases[4].options;
  wide.embedding_channels = 33;
  wide.hidden = {"16x0e+17x1e+5x2e+3x1e", "33x0e+16x1e", "13x0e"};
  wide.per_species_linear = true;
  wide.seed = 4;
  // The activations that the builder does not choose.
  cases.push_back(cases[2]);
  cases.back().name = "parity_ssp_and_sigmoid";
  cases.back().scalar_activation = "ssp";
  cases.back().gate_activation = "sigmoid";
  cases.push_back(cases[3]);
  cases.back().name = "high_l_identity_and_tanh";
  cases.back().scalar_activation = "identity";
  cases.back().gate_activation = "tanh";
  return cases;
}

// What MACE and NequIP need beyond tiny_cases().
inline std::vector<TinyCase> family_cases() {
  std::vector<TinyCase> cases(31);
  cases[0].name = "contraction_agnesi_density";
  TinyModelOptions &mace = cases[0].options;
  mace.elements = {"O", "H", "Si"};
  mace.parity = true;
  mace.lmax_edge = 3;
  mace.hidden = {"5x0e+5x1o+5x2e", "13x0e"};
  mace.xplor = false;
  mace.p = 5.0;
  mace.transform = "agnesi";
  mace.density = true;
  mace.contraction_degree = 3;
  mace.repulsion_inside = true;
  mace.readout_hidden = {4};
  cases[0].keeps_parity = true;
  cases[1].name = "rows_of_species_norms_late_cutoff";
  TinyModelOptions &late = cases[1].options;
  late.hidden = {"3x0e+3x1e+3x2e", "3x0e+3x1e", "5x0e"};
  late.basis = "gaussian";
  late.transform = "soft";
  late.late_cutoff = true;
  late.sender_columns = 3;
  late.receiver_columns = 2;
  late.norms = true;
  late.biases = true;
  late.density = true;
  late.contraction_degree = 2;
  late.contraction_per_species = false;
  late.repulsion_outside = true;
  late.seed = 5;
  cases[2].name = "cutoffs_of_pairs";
  TinyModelOptions &pairs = cases[2].options;
  pairs.elements = {"O", "H", "Si"};
  pairs.parity = true;
  pairs.hidden = {"13x0e+5x1o+3x1e", "33x0e"};
  pairs.xplor = false;
  pairs.pair_cutoffs = true;
  pairs.density = true;
  pairs.repulsion_inside = pairs.repulsion_outside = true;
  pairs.denominator = 0.5;
  pairs.seed = 6;
  cases[2].keeps_parity = true;
  cases[3].name = "fourth_degree_chebyshev";
  TinyModelOptions &fourth = cases[3].options;
  fourth.parity = true;
  fourth.lmax_edge = 1;
  fourth.hidden = {"1x0e+1x1o", "33x0e"};
  fourth.xplor = false;
  fourth.basis = "chebyshev";
  fourth.transform = "agnesi";
  fourth.sender_columns = 1;
  fourth.radial_hidden = {5};
  fourth.contraction_degree = 4;
  fourth.is_double = false;
  fourth.seed = 7;
  cases[3].keeps_parity = true;
  cases[4].name = "weights_of_features";
  TinyModelOptions &attention = cases[4].options;
  attention.parity = true;
  attention.hidden = {"5x0e+5x1o", "13x0e+13x1o+13x2e", "33x0e"};
  attention.xplor = false;
  attention.sender_scalars = 7;
  attention.receiver_scalars = 5;
  attention.contraction_degree = 2;
  attention.seed = 8;
  cases[4].keeps_parity = true;
  cases[5].name = "weights_of_features_norms_late_cutoff";
  TinyModelOptions &normed = cases[5].options;
  normed.elements = {"O", "H", "Si"};
  normed.parity = true;
  normed.lmax_edge = 3;
  normed.hidden = {"13x0e+3x0o+2x1o+3x1e+1x2e", "2x0o+4x0e+1x2o+18x1o", "5x0e"};
  normed.xplor = false;    // whose derivative vanishes at most distances
  normed.denominator = 6.0;
  normed.transform = "agnesi";
  normed.late_cutoff = true;
  normed.sender_scalars = 17;
  normed.receiver_columns = 2;
  normed.norms = true;
  normed.biases = true;
  normed.density = true;
  normed.repulsion_outside = true;
  normed.seed = 9;
  cases[5].keeps_parity = true;
  cases[6].name = "weights_of_receivers";
  TinyModelOptions &receivers = cases[6].options;
  receivers.lmax_edge = 4;
  receivers.hidden = {"4x0e+1x4e+3x1e", "4x0e"};
  receivers.xplor = false;
  receivers.pair_cutoffs = true;
  receivers.radial_hidden = {};
  receivers.biases = true;
  receivers.sender_columns = 1;
  receivers.receiver_scalars = 33;
  receivers.seed = 10;
  cases[6].keeps_parity = true;
  cases[7].name = "fully_connected";
  TinyModelOptions &connected = cases[7].options;
  connected.connected_channels = 13;
  connected.embedding_channels = 5;
  connected.hidden = {"17x0e+3x1e+5x2e", "5x0e+13x1e", "5x0e"};
  connected.r_power = true;
  connected.denominator = 6.0;
  connected.seed = 11;
  cases[8].name = "fully_connected_parity_pairs";
  TinyModelOptions &both = cases[8].options;
  both.elements = {"O", "H", "Si"};
  both.parity = true;
  both.lmax_edge = 3;
  both.hidden = {"3x0e+1x0o+2x1o+5x1e+1x2e+1x3o", "13x0e"};
  both.connected_channels = 3;
  both.denominator = 0.7;
  both.xplor = false;
  both.pair_cutoffs = true;
  both.density = true;
  both.seed = 14;
  cases[8].keeps_parity = true;
  cases[9].name = "layer_norm";
  TinyModelOptions &norm = cases[9].options;
  norm.hidden = {"13x0e+5x1e", "13x0e+5x0e+33x0e"};
  norm.readout_hidden = {4};
  norm.layer_norm = true;
  norm.adds_self_connection = true;    // of the species alone, where the convolution is the first one
  norm.seed = 15;
  cases[9].keeps_parity = true;
  cases[10].name = "node_products";
  TinyModelOptions &products = cases[10].options;
  products.elements = {"O", "H", "Si"};
  products.parity = true;
  products.hidden = {"5x0e+5x1o+5x2e", "5x0e+5x1o+5x1e", "33x0e"};
  products.node_product = "pair";
  products.xplor = false;
  products.seed = 16;
  cases[10].keeps_parity = true;
  cases[11].name = "squares_of_scaled_norms";
  TinyModelOptions &squares = cases[11].options;
  squares.hidden = {"13x2e+13x0e+13x1e", "17x0e"};
  squares.node_product = "square";
  squares.layer_norm = true;
  squares.seed = 17;
  cases[12].name = "activated_weights_exp_normal";
  TinyModelOptions &activated = cases[12].options;
  activated.parity = true;
  activated.hidden = {"5x0e+5x1o+5x2e", "13x0e+13x1o", "33x0e"};
  activated.basis = "exp_normal";
  activated.cosine = true;
  activated.late_cutoff = true;
  activated.activate_last = true;
  activated.biases = true;
  activated.denominator = 1.5;
  activated.seed = 18;
  cases[12].keeps_parity = true;
  cases[13].name = "factors_of_pairs";
  TinyModelOptions &factors = cases[13].options;
  factors.elements = {"O", "H", "Si"};
  factors.hidden = {"13x0e+5x1e", "5x0e"};
  factors.cosine = true;
  factors.radial_hidden = {};
  factors.biases = true;
  factors.late_cutoff = true;
  factors.pair_factor = true;
  factors.denominator = 1.0;
  factors.seed = 19;
  cases[13].keeps_parity = true;
  cases[14].name = "spherical_norm_of_all_blocks";
  TinyModelOptions &of_all = cases[14].options;
  of_all.hidden = {"13x0e+13x1e+13x2e", "33x0e+33x1e"};
  of_all.spherical_norm = "all";
  of_all.biases = true;
  of_all.seed = 20;
  cases[15].name = "spherical_norm_of_scalars_and_others";
  TinyModelOptions &of_two = cases[15].options;
  of_two.elements = {"O", "H", "Si"};
  of_two.parity = true;
  of_two.hidden = {"5x0e+5x1o+5x2e", "17x0e+17x2e+17x1o+17x1o"};
  of_two.spherical_norm = "first_alone";
  of_two.xplor = false;
  of_two.seed = 21;
  cases[15].keeps_parity = true;
  cases[16].name = "spherical_norm_of_each_block";
  TinyModelOptions &of_each = cases[16].options;
  of_each.hidden = {"16x0e+16x2e+16x1e", "5x0e+5x1e"};
  of_each.spherical_norm = "each";
  of_each.biases = true;
  of_each.seed = 22;
  cases[16].keeps_parity = true;
  cases[17].name = "gaunt_products";
  TinyModelOptions &gaunt = cases[17].options;
  gaunt.elements = {"O", "H", "Si"};
  gaunt.parity = true;
  gaunt.lmax_edge = 3;
  gaunt.hidden = {"5x0e+5x1o+5x2e+5x3o", "5x2e+5x0e+5x1o", "33x0e"};
  gaunt.node_product = "pair";
  gaunt.gaunt = true;
  gaunt.xplor = false;
  gaunt.seed = 31;
  cases[17].keeps_parity = true;
  cases[18].name = "gaunt_squares";
  TinyModelOptions &gaunt_squares = cases[18].options;
  gaunt_squares.hidden = {"13x0e+13x1e+13x2e", "17x0e+17x1e"};
  gaunt_squares.node_product = "square";
  gaunt_squares.gaunt = true;
  gaunt_squares.seed = 32;
  // Biases of a group's last channel, which is no padding; rows of the species tell a pair from its reverse where
  // nothing else does.
  cases[19].name = "biases_of_full_groups_symmetric_r0";
  TinyModelOptions &full = cases[19].options;
  full.elements = {"O", "H", "Si"};
  full.hidden = {"16x0e+3x1e", "16x0e"};
  full.basis = "gaussian";
  full.transform = "soft";
  full.symmetric_r0 = true;
  full.sender_columns = 3;
  full.receiver_columns = 2;
  full.biases = true;
  full.xplor = false;
  full.seed = 33;
  cases[19].keeps_parity = true;
  cases[20].name = "balanced_channels";
  TinyModelOptions &balanced = cases[20].options;
  balanced.elements = {"O", "H", "Si"};
  balanced.hidden = {"17x0e+5x1e", "5x0e+3x1e", "33x0e"};
  balanced.balanced_channels = 3;
  balanced.biases = true;
  balanced.xplor = false;
  balanced.seed = 34;
  // Adjoints of exchanged features that are made long before they are exchanged.
  cases[21].name = "features_that_are_exchanged_late";
  TinyModelOptions &late_inputs = cases[21].options;
  late_inputs.hidden = {"5x0e+3x1e", "13x0e+5x1e", "5x0e+3x1e", "5x0e"};
  late_inputs.late_inputs = true;
  late_inputs.xplor = false;
  late_inputs.seed = 35;
  cases[22].name = "activated_weights_of_shared_charges";
  TinyModelOptions &charges = cases[22].options;
  charges.elements = {"O", "H", "Si"};
  charges.parity = true;
  charges.hidden = {"13x0e+5x1o", "33x0e+3x1o", "17x0e"};
  charges.balanced_channels = 5;
  charges.balance_shares = true;
  charges.sender_scalars = 7;
  charges.receiver_scalars = 5;
  charges.activate_last = true;
  charges.biases = true;
  charges.cosine = true;
  charges.late_cutoff = true;
  charges.denominator = 1.5;
  charges.coulomb_cutoff = 6.5;
  charges.permittivity = 78.3;
  charges.seed = 37;
  cases[22].keeps_parity = true;
  cases[23].name = "grid_networks_with_biases";
  TinyModelOptions &points = cases[23].options;
  points.elements = {"O", "H", "Si"};
  points.hidden = {"5x0e+5x2e+5x1e", "17x0e+17x1e"};
  points.grid_rings = 3;
  points.grid_hidden = {33};
  points.biases = true;
  points.xplor = false;
  points.denominator = 1.0;
  points.seed = 45;
  cases[23].turn_error = 2e-3;
  // A block of one channel has a whole block of padding after it.
  cases[24].name = "spherical_norm_of_unequal_blocks";
  TinyModelOptions &unequal = cases[24].options;
  unequal.elements = {"O", "H", "Si"};
  unequal.parity = true;
  unequal.hidden = {"13x0e+33x1o+1x2e", "33x0e+5x0e+1x1o+17x2e"};
  unequal.spherical_norm = "all";
  unequal.xplor = false;
  unequal.seed = 121;    // with which an exchange matters
  cases[24].keeps_parity = true;
  // The centered block has weights that differ, so its adjoint has two means.
  cases[25].name = "spherical_norm_with_weights_of_channels";
  TinyModelOptions &weighted = cases[25].options;
  weighted.hidden = {"13x0e+5x1e+33x2e", "33x0e+13x1e"};
  weighted.spherical_norm = "first_alone";
  weighted.channel_weights = true;
  weighted.biases = true;
  weighted.seed = 52;
  cases[25].keeps_parity = true;
  cases[26].name = "gated_weights_of_features";
  TinyModelOptions &gated = cases[26].options;
  gated.elements = {"O", "H", "Si"};
  gated.parity = true;
  gated.hidden = {"13x0e+5x1o", "5x0e+1x1o", "33x0e"};
  gated.xplor = false;
  gated.gates = true;
  gated.sender_scalars = 7;
  gated.receiver_scalars = 5;
  gated.biases = true;
  gated.density = true;
  gated.seed = 81;
  cases[26].keeps_parity = true;
  cases[27].name = "gated_weights_of_species_with_powers";
  TinyModelOptions &gated_rows = cases[27].options;
  gated_rows.parity = true;
  gated_rows.lmax_edge = 3;
  gated_rows.hidden = {"5x0e+13x1o", "33x0e"};
  gated_rows.xplor = false;
  gated_rows.r_power = true;
  gated_rows.gates = true;
  gated_rows.sender_columns = 3;
  gated_rows.receiver_columns = 2;
  gated_rows.norms = true;
  gated_rows.biases = true;
  gated_rows.seed = 82;
  cases[27].keeps_parity = true;
  cases[28].name = "gated_weights_of_one_matrix";
  TinyModelOptions &gated_matrix = cases[28].options;
  gated_matrix.hidden = {"1x0e+1x1e", "5x0e"};
  gated_matrix.xplor = false;
  gated_matrix.radial_hidden = {};
  gated_matrix.gates = true;
  gated_matrix.sender_columns = 2;
  gated_matrix.receiver_scalars = 1;
  gated_matrix.is_double = false;
  gated_matrix.seed = 83;
  cases[28].keeps_parity = true;
  cases[29].name = "charges_by_hardness";
  TinyModelOptions &hard = cases[29].options;
  hard.elements = {"O", "H", "Si"};
  hard.hidden = {"13x0e+5x1e", "5x0e+3x1e", "33x0e"};
  hard.balanced_channels = 2;
  hard.balance_hardness = true;
  hard.charge_potentials = true;
  hard.denominator = 1.0;
  hard.biases = true;
  hard.xplor = false;
  hard.seed = 84;
  cases[30].name = "potentials_of_charges_with_factors";
  TinyModelOptions &potentials = cases[30].options;
  potentials.elements = {"O", "H", "Si"};
  potentials.parity = true;
  potentials.hidden = {"13x0e+5x1o", "5x0e+1x1o", "3x0e"};
  potentials.xplor = false;
  potentials.charge_potentials = true;
  potentials.sender_columns = 2;
  potentials.pair_factor = true;
  potentials.balanced_channels = 1;
  potentials.balance_hardness = true;
  potentials.biases = true;
  potentials.seed = 85;
  cases[30].keeps_parity = true;
  TinyCase far;
  far.name = "charges_and_dispersion_of_one_feature";
  far.options.hidden = {"13x0e+5x1e", "17x0e+2x1e"};
  far.options.basis = "bernstein";
  far.options.num_basis = 7;
  far.options.late_cutoff = far.options.biases = true;
  far.options.xplor = false;
  far.options.p = 3.0;
  far.options.repulsion_outside = far.options.repulsion_switch = true;
  far.options.coulomb_cutoff = 6.1;
  far.options.coulomb_width = 2.7;
  far.options.dispersion_cutoff = 7.2;
  far.options.denominator = 0.5;
  far.options.seed = 60;
  far.keeps_parity = true;
  cases.push_back(far);
  // The decay of the basis ends within the cutoff.
  far.name = "charges_and_dispersion_of_two_features";
  far.options.elements = {"O", "H", "Si"};
  far.options.gamma = 4.1;
  far.options.num_basis = 3;
  far.options.cosine = far.options.cosine_repulsion = far.options.repulsion_inside = true;
  far.options.coulomb_cutoff = 6.7;
  far.options.coulomb_width = 0.0;
  far.options.permittivity = 78.3;
  far.options.dispersion_cutoff = 5.3;
  far.options.far_features = true;
  far.options.seed = 61;
  cases.push_back(far);
  // Messages that more than a linear layer of the same interaction reads.
  for (const char *reader : {"norm_scale", "later", "convolution"}) {
    TinyCase of_messages;
    of_messages.name = std::string("messages_read_by_") + reader;
    of_messages.options.hidden = {"5x0e+5x1e", "3x0e+2x1e", "5x0e"};
    of_messages.options.message_reader = reader;
    of_messages.options.denominator = 1.0;
    of_messages.options.xplor = false;
    of_messages.options.seed = std::string(reader) == "norm_scale" ? 49 : 48;    // with which an exchange matters
    cases.push_back(of_messages);
  }
  return cases;
}

// SO(2) convolutions. The last convolution of a model sees nothing but components of m = 0, because what leads to
// scalars does: most cases have another one before it.
inline std::vector<TinyCase> so2_cases() {
  std::vector<TinyCase> cases(15);
  cases[0].name = "so2_biases_rows_of_species";
  TinyModelOptions &rows = cases[0].options;
  rows.so2_lmax = rows.so2_mmax = 2;
  rows.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  rows.basis = "gaussian";
  rows.late_cutoff = true;
  rows.sender_columns = 3;
  rows.receiver_columns = 2;
  rows.norms = rows.biases = true;
  rows.xplor = false;
  rows.p = 5.0;
  rows.seed = 23;
  cases[1].name = "so2_of_fewer_m";
  TinyModelOptions &fewer = cases[1].options;
  fewer.so2_lmax = 3;
  fewer.so2_mmax = 1;
  fewer.so2_in = 13;
  fewer.so2_hidden = {33};
  fewer.so2_out = 5;
  fewer.lmax_edge = 3;
  fewer.hidden = {"13x0e+5x1e+2x3e", "7x0e+7x1e+7x2e+7x3e", "5x0e"};
  fewer.seed = 24;
  cases[2].name = "so2_of_scalars";
  cases[2].keeps_parity = true;
  TinyModelOptions &scalars = cases[2].options;
  scalars.so2_lmax = 0;
  scalars.hidden = {"5x0e"};
  scalars.so2_begin = 0;
  scalars.so2_in = 13;
  scalars.late_cutoff = true;
  scalars.cutoff = 5.0;
  scalars.pair_cutoffs = true;
  scalars.xplor = false;
  scalars.seed = 25;
  cases[3].name = "so2_of_dipoles";
  TinyModelOptions &dipoles = cases[3].options;
  dipoles.elements = {"O", "H", "Si"};
  dipoles.so2_lmax = dipoles.so2_mmax = 1;
  dipoles.so2_begin = 0;    // its input depends on the species alone
  dipoles.so2_hidden = {};
  dipoles.lmax_edge = 1;
  dipoles.hidden = {"5x0e+3x1e", "5x0e+3x1e", "5x0e"};
  dipoles.seed = 26;
  cases[4].name = "so2_of_m_0";
  TinyModelOptions &axial = cases[4].options;
  axial.so2_lmax = 2;
  axial.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e", "5x0e"};
  axial.so2_hidden = {16, 17};
  axial.so2_gate_last = true;
  axial.so2_scalars = "tanh";
  axial.so2_gates = "ssp";
  axial.biases = true;
  axial.seed = 27;
  cases[4].keeps_parity = true;
  cases[5].name = "so2_of_order_4_and_all_m";
  TinyModelOptions &all = cases[5].options;
  all.so2_lmax = all.so2_mmax = 4;
  all.lmax_edge = 4;
  all.hidden = {"4x0e+4x1e+4x2e+4x3e+4x4e", "4x0e+4x2e+3x4e", "5x0e"};
  all.so2_gate_last = true;
  all.so2_scalars = "sigmoid";
  all.seed = 28;
  cases[6].name = "so2_of_order_6";
  TinyModelOptions &six = cases[6].options;
  six.so2_lmax = 6;
  six.so2_mmax = 2;
  six.so2_in = 2;
  six.so2_hidden = {3};
  six.so2_out = 2;
  six.lmax_edge = 6;
  six.hidden = {"2x0e+2x1e+2x5e+2x6e", "2x0e+2x6e+2x3e", "5x0e"};
  six.seed = 29;
  cases[7].name = "so2_with_spherical_norms";
  TinyModelOptions &normed = cases[7].options;
  normed.so2_lmax = 3;
  normed.so2_mmax = 2;
  normed.lmax_edge = 3;
  normed.hidden = {"5x0e+5x1e+5x2e+5x3e", "5x0e+5x1e+5x2e+5x3e", "13x0e"};
  normed.spherical_norm = "all";
  normed.biases = true;
  normed.density = true;
  normed.seed = 30;
  cases[8] = cases[7];
  cases[8].name = "so2_with_balanced_channels";
  cases[8].options.balanced_channels = 2;
  cases[8].options.seed = 36;
  cases[9].name = "so2_with_attention";
  TinyModelOptions &attention = cases[9].options;
  attention.so2_lmax = attention.so2_mmax = 2;
  attention.so2_hidden = {5, 13};
  attention.so2_product = attention.biases = true;
  attention.so2_heads = 3;
  attention.so2_scores = 7;
  attention.so2_gain = 3.0;
  attention.so2_score_bias = 60.0;    // exponentials of which would be 0 or infinite
  attention.so2_out = 15;
  attention.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  attention.seed = 43;    // energies of a few eV
  // With other seeds these two hardly notice an exchange.
  cases[10].name = "so2_of_blocks";
  TinyModelOptions &blocks = cases[10].options;
  blocks.so2_blocks = blocks.biases = true;
  blocks.spherical_norm = "all";
  blocks.so2_lmax = blocks.so2_mmax = 2;
  blocks.so2_in = blocks.so2_out = 5;
  blocks.hidden = {"5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e"};
  blocks.seed = 53;
  cases[11].name = "so2_with_products";
  TinyModelOptions &product = cases[11].options;
  product.so2_lmax = 3;
  product.so2_mmax = 1;
  product.lmax_edge = 3;
  product.so2_hidden = {17};
  product.so2_product = product.so2_gate_last = true;
  product.biases = true;
  product.hidden = {"5x0e+3x1e+2x3e", "5x0e+5x1e+5x2e+5x3e", "5x0e"};
  product.seed = 96;
  cases[12].name = "so2_with_grid_networks";
  TinyModelOptions &grids = cases[12].options;
  grids.so2_blocks = true;
  grids.spherical_norm = "all";
  grids.so2_lmax = 2;
  grids.so2_mmax = 1;
  grids.so2_in = grids.so2_out = 5;
  grids.hidden = {"5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e", "5x0e+5x1e+5x2e"};
  grids.grid_rings = 4;
  grids.grid_hidden = {17, 7};
  grids.seed = 44;
  cases[12].turn_error = 2e-3;
  // As EquiformerV2 and eSCN, which depend on the frames of edges.
  cases[13].name = "so2_at_points_with_attention";
  TinyModelOptions &points = cases[13].options;
  points.so2_lmax = 2;
  points.so2_mmax = 1;
  points.so2_points = 0;
  points.so2_hidden = {17};
  points.so2_heads = 2;
  points.so2_gain = 6.0;
  points.so2_scores = 7;
  points.so2_out = 6;
  points.biases = true;
  points.without_cutoff = true;
  points.xplor = false;
  points.nearest = 6;
  points.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  points.seed = 101;
  cases[13].turn_error = 0.3;
  cases[14].name = "so2_at_points_with_late_factors";
  TinyModelOptions &late = cases[14].options;
  late.so2_lmax = late.so2_mmax = 2;
  late.so2_hidden = {7};
  late.so2_points = late.so2_radial = 1;
  late.so2_point_scalars = false;
  late.sender_columns = 3;
  late.receiver_columns = 2;
  late.nearest = 7;
  late.nearest_tolerance = 0.01;
  late.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  late.seed = 105;
  cases[14].turn_error = 0.3;
  return cases;
}

// Pair attentions, as in SO3LR: the first one of a model reads species only. Only squares of tensors lead to scalars.
inline std::vector<TinyCase> attention_cases() {
  std::vector<TinyCase> cases(4);
  for (TinyCase &c : cases) c.keeps_parity = true;
  cases[0].name = "attention_of_3_heads";
  TinyModelOptions &three = cases[0].options;
  three.parity = true;
  three.attention_heads = 3;
  three.attention_channels = 8;
  three.attention_group_channels = 12;
  three.hidden = {"24x0e+1x1o+1x2e", "24x0e+1x1o+1x2e", "5x0e"};
  three.biases = true;
  three.xplor = false;
  three.p = 3.0;
  three.late_cutoff = true;
  three.seed = 61;
  cases[1].name = "attention_of_degrees_0_1_3";
  TinyModelOptions &degrees = cases[1].options;
  degrees.elements = {"O", "H", "Si"};
  degrees.parity = true;
  degrees.lmax_edge = 3;
  degrees.attention_heads = 4;
  degrees.attention_channels = 9;
  degrees.attention_group_channels = 12;
  degrees.attention_degrees = {0, 1, 3};
  degrees.basis = "gaussian";
  degrees.cosine = true;
  degrees.hidden = {"36x0e+1x0e+1x1o+1x3o", "36x0e+2x1o+1x3o", "33x0e"};
  degrees.sender_columns = 3;
  degrees.receiver_columns = 2;
  degrees.norms = degrees.biases = true;
  degrees.attention_hidden = {9, 5};
  degrees.seed = 62;
  cases[2].name = "attention_of_one_head_and_degree";
  TinyModelOptions &one = cases[2].options;
  one.attention_heads = 1;
  one.attention_channels = 17;
  one.attention_degrees = {2};
  one.attention_group_channels = 1;
  one.attention_hidden = {};
  one.hidden = {"5x0e+3x2e", "5x0e+3x2e", "5x0e"};
  one.pair_cutoffs = true;
  one.xplor = false;
  one.seed = 63;
  cases[3].name = "attention_without_tensors";
  TinyModelOptions &without = cases[3].options;
  without.attention_heads = 2;
  without.attention_tensors = 3;
  without.biases = true;
  without.hidden = {"13x0e+5x1e", "13x0e+5x1e", "5x0e"};
  without.seed = 64;
  return cases;
}

// Local networks, as in Allegro.
inline std::vector<TinyCase> local_network_cases() {
  std::vector<TinyCase> cases(8);
  for (TinyCase &c : cases) {
    c.keeps_parity = true;
    c.options.parity = true;
    c.options.xplor = false;
    c.options.local_layers = 2;
  }
  cases[0].name = "local_of_2_layers";
  cases[0].options.seed = 71;
  cases[1].name = "local_of_1_layer";
  TinyModelOptions &one = cases[1].options;
  one.elements = {"O", "H", "Si"};
  one.local_layers = 1;
  one.lmax_edge = 1;
  one.local_irreps = {"0e+1o", "0e"};
  one.local_channels = 33;
  one.local_scalars = 13;
  one.local_first_hidden = {8, 5};
  one.local_hidden = {17, 6};
  one.local_activation = "mish";
  one.local_channelwise = false;
  one.local_pairs = true;
  one.pair_cutoffs = true;
  one.seed = 72;
  cases[2].name = "local_of_3_layers_and_both_parities";
  TinyModelOptions &three = cases[2].options;
  three.local_layers = 3;
  three.local_irreps = {"0e+1o+2e", "0e+1e+1o+2o+2e", "0e+1o+2e", "0e"};
  three.local_channels = 13;
  three.local_scalars = 5;
  three.local_activation = "gelu";
  three.basis = "cosine_bump";
  three.num_basis = 7;
  three.local_gain = 0.5;
  three.seed = 73;
  cases[3].name = "local_of_degree_4_with_a_gap";
  TinyModelOptions &high = cases[3].options;
  high.lmax_edge = 4;
  high.local_irreps = {"0e+1o+4e", "0e+2e+1o+4e", "0e"};
  high.local_shared = true;
  high.local_channels = 3;
  high.local_first_hidden = {};
  high.seed = 74;
  cases[4].name = "local_with_more_steps";
  cases[4].options.local_more = true;
  cases[4].options.local_activation = "tanh";
  cases[4].options.seed = 75;
  cases[5].name = "local_of_matrices";
  TinyModelOptions &linear = cases[5].options;
  linear.local_first_hidden = linear.local_hidden = {};
  linear.cosine = true;
  linear.local_more = true;
  linear.is_double = false;
  linear.seed = 76;
  cases[6].name = "local_beside_convolutions";
  TinyModelOptions &beside = cases[6].options;
  beside = tiny_cases()[0].options;
  beside.local_layers = 2;
  beside.local_alone = false;
  cases[7].name = "local_of_6_elements";    // so many pairs have no tables
  cases[7].options.elements = {"H", "C", "N", "O", "S", "Cl"};
  cases[7].options.seed = 78;
  return cases;
}

// Models with an Ewald sum, which only hold for cells that are periodic in three directions: other laws than those of
// all_cases() hold for them.
inline std::vector<TinyCase> ewald_cases() {
  const auto with_ewald = [](const char *name, TinyCase c, double width, double cutoff, const char *set) {
    c.name = std::string("ewald_") + name;
    c.options.ewald_width = width;
    c.options.ewald_cutoff = cutoff;
    c.options.ewald_set = set;
    return c;
  };
  const std::vector<TinyCase> tiny = tiny_cases();
  std::vector<TinyCase> cases = {
      with_ewald("sphere", tiny[0], 0.9, 3.3, "sphere"), with_ewald("wide", tiny[4], 1.1, 2.6, "sphere"),
      with_ewald("converged", tiny[2], 1.4, 2.0, "converged"), with_ewald("self_kept", tiny[1], 0.8, 3.0, "sphere")};
  cases.back().options.ewald_removes_self = false;
  return cases;
}

// Models with the layer potential, to which the same laws apply on hosts: charges alone, and with dipoles, fields or
// both.
inline std::vector<TinyCase> potential_cases() {
  const auto with_potential = [](const char *name, TinyCase c, double width, const char *set, bool dipoles,
                                 bool gradients, int updates) {
    c.name = std::string("potential_") + name;
    c.options.ewald_cutoff = 2.7;
    c.options.ewald_set = set;
    c.options.potential_width = width;
    c.options.potential_dipoles = dipoles;
    c.options.potential_gradients = gradients;
    c.options.potential_updates = updates;
    return c;
  };
  const std::vector<TinyCase> tiny = tiny_cases();
  TinyCase vectors = tiny[2];
  for (std::string &hidden : vectors.options.hidden) hidden = "5x0e+13x1o";
  return {with_potential("charges", tiny[0], 1.0, "sphere", false, false, 2),
          with_potential("fields", tiny[2], 1.1, "sphere", false, true, 1),
          with_potential("converged", vectors, 1.6, "converged", true, false, 1),
          with_potential("dipoles", vectors, 1.2, "sphere", true, true, 2)};
}

inline std::vector<TinyCase> all_cases() {
  std::vector<TinyCase> cases = tiny_cases();
  for (const TinyCase &c : family_cases()) cases.push_back(c);
  for (const char *name : {"parity_three_layers", "contraction_agnesi_density"}) {
    cases.push_back(*std::find_if(cases.begin(), cases.end(), [&](const TinyCase &c) { return c.name == name; }));
    cases.back().name += "_read_twice";
    cases.back().reads_twice = true;
  }
  for (const TinyCase &c : so2_cases()) cases.push_back(c);
  for (const TinyCase &c : attention_cases()) cases.push_back(c);
  for (const TinyCase &c : local_network_cases()) cases.push_back(c);
  return cases;
}

// Those whose energies of atoms depend only on atoms within some cutoffs.
inline std::vector<TinyCase> local_cases(std::vector<TinyCase> cases) {
  const auto is_not_local = [](const TinyCase &c) {
    return c.options.balanced_channels > 0 || c.options.dispersion_cutoff > 0.0;
  };
  cases.erase(std::remove_if(cases.begin(), cases.end(), is_not_local), cases.end());
  return cases;
}

inline TinyCase case_named(const std::string &name) {
  for (const TinyCase &c : all_cases())
    if (c.name == name) return c;
  throw std::logic_error("no tiny model " + name);
}

inline double energy_of(Evaluator &evaluator, const Structure &s, double cutoff) {
  const ImageStructure images = s.images(cutoff);
  evaluator.set_neighborhood(images.neighborhood);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  NoExchange none;
  return evaluator.evaluate(request, none).energy;
}

inline double largest_force(const std::vector<Vector3> &forces) {
  double largest = 0.0;
  for (const Vector3 &f : forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
  return largest;
}

}    // namespace testing
}    // namespace equi

#endif
