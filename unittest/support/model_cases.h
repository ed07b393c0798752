// SPDX-License-Identifier: MIT
// Tiny models and structures on which the laws of an evaluation are tested.
#ifndef EQUI_TEST_MODEL_CASES_H
#define EQUI_TEST_MODEL_CASES_H

#include "unittest/support/model_builder.h"
#include "unittest/support/two_rank_exchange.h"

#include <ostream>
#include <string>
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
Structure random_structure(int num_species, unsigned seed, int side = 2);

// Atoms of species 0, in a row without periodic images, beyond each other's reach.
Structure isolated_atoms(int num_atoms);

// Features whose adjoints ranks exchange, too: the inputs of convolutions but for the first one's, which depends on the
// species alone.
int num_exchanged_features(const Model &model);
// Features that are sent to other ranks and whose adjoints stay: those that layers with far edges read.
int num_sent_features(const Model &model);
int num_far_layers(const Model &model);
// Convolutions that read exchanged features.
int num_exchanging_convolutions(const Model &model);

// The same potential, in which every convolution, gate, normalization and contraction whose output is read by linear
// layers alone is there twice: each of these layers adds up half of what it makes of the one and of the other.
Model with_features_read_twice(const Model &model);

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

void PrintTo(const TinyCase &c, std::ostream *out);

// Odd multiplicities and some above the padding of 16, every option of the format at least once, one to three layers.
std::vector<TinyCase> tiny_cases();

// What MACE and NequIP need beyond tiny_cases().
std::vector<TinyCase> family_cases();

// SO(2) convolutions. The last convolution of a model sees nothing but components of m = 0, because what leads to
// scalars does: most cases have another one before it.
std::vector<TinyCase> so2_cases();

// Pair attentions, as in SO3LR: the first one of a model reads species only. Only squares of tensors lead to scalars.
std::vector<TinyCase> attention_cases();

// Local networks, as in Allegro.
std::vector<TinyCase> local_network_cases();

// Models with an Ewald sum, which only hold for cells that are periodic in three directions: other laws than those of
// all_cases() hold for them.
std::vector<TinyCase> ewald_cases();

// Models with the layer potential, to which the same laws apply on hosts: charges alone, and with dipoles, fields or
// both.
std::vector<TinyCase> potential_cases();

std::vector<TinyCase> all_cases();

// Those whose energies of atoms depend only on atoms within some cutoffs.
std::vector<TinyCase> local_cases(std::vector<TinyCase> cases);

TinyCase case_named(const std::string &name);

double energy_of(Evaluator &evaluator, const Structure &s, double cutoff);

double largest_force(const std::vector<Vector3> &forces);

}    // namespace testing
}    // namespace equi

#endif
