// SPDX-License-Identifier: MIT
// The structures of the laws, their models and the cases that have every option of the format.
#include "unittest/support/model_cases.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <stdexcept>
#include <variant>

namespace equi {
namespace testing {

Structure random_structure(int num_species, unsigned seed, int side) {
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

Structure isolated_atoms(int num_atoms) {
  Structure s;
  for (int i = 0; i < num_atoms; ++i) {
    s.positions.push_back({100.0 * i, 0.0, 0.0});
    s.species.push_back(0);
  }
  for (bool &p : s.periodic) p = false;
  return s;
}

int num_exchanged_features(const Model &model) {
  std::set<int> inputs;
  for (const Layer &layer : model.layers)
    if (reads_senders(layer)) inputs.insert(ports(layer).input);
  return std::max(0, static_cast<int>(inputs.size()) - 1);
}

int num_sent_features(const Model &model) {
  std::set<int> inputs;
  for (const Layer &layer : model.layers)
    if (traits(layer).far_cutoff > 0.0) inputs.insert(ports(layer).input);
  return static_cast<int>(inputs.size());
}

int num_far_layers(const Model &model) {
  return static_cast<int>(std::count_if(model.layers.begin(), model.layers.end(),
                                        [](const Layer &layer) { return traits(layer).far_cutoff > 0.0; }));
}

int num_exchanging_convolutions(const Model &model) {
  int first = -1, count = 0;
  for (const Layer &layer : model.layers)
    if (reads_senders(layer)) {
      const int input = ports(layer).input;
      if (first < 0) first = input;
      count += input != first;
    }
  return count;
}

Model with_features_read_twice(const Model &model) {
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

Model TinyCase::model() const {
  ModelDocument d = make_tiny_model(options);
  for (auto &layer : d.document["layers"]) {
    if (layer["type"] != "gate") continue;
    for (auto &term : layer["terms"]) {
      if (term["activation"] == "tanh") continue;
      const std::string &a = term.contains("gate_in") ? gate_activation : scalar_activation;
      if (!a.empty()) term["activation"] = a;
    }
  }
  return reads_twice ? with_features_read_twice(d.model()) : d.model();
}

void PrintTo(const TinyCase &c, std::ostream *out) {
  *out << c.name;
}

std::vector<TinyCase> tiny_cases() {
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

std::vector<TinyCase> all_cases() {
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

std::vector<TinyCase> local_cases(std::vector<TinyCase> cases) {
  const auto is_not_local = [](const TinyCase &c) {
    return c.options.balanced_channels > 0 || c.options.dispersion_cutoff > 0.0;
  };
  cases.erase(std::remove_if(cases.begin(), cases.end(), is_not_local), cases.end());
  return cases;
}

TinyCase case_named(const std::string &name) {
  for (const TinyCase &c : all_cases())
    if (c.name == name) return c;
  throw std::logic_error("no tiny model " + name);
}

double energy_of(Evaluator &evaluator, const Structure &s, double cutoff) {
  const ImageStructure images = s.images(cutoff);
  evaluator.set_neighborhood(images.neighborhood);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  NoExchange none;
  return evaluator.evaluate(request, none).energy;
}

double largest_force(const std::vector<Vector3> &forces) {
  double largest = 0.0;
  for (const Vector3 &f : forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
  return largest;
}

}    // namespace testing
}    // namespace equi
