// SPDX-License-Identifier: MIT
// Linear maps that are multiplied when a model is loaded (kokkos/layers/linear_folds.h), against each layer as it is.
#include "kokkos/layers/linear_folds.h"
#include "kokkos/layers/operation_count.h"
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/model_cases.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace equi;
using namespace equi::testing;

constexpr double ROUNDING = 1e-12;    // relative: sums of some hundred products in float64

double operations_of(const Model &model) {
  return count_operations(model, make_evaluation_plan(model, false), AVX512_TARGET).total().per_atom.both();
}

// Number and irreps of a new feature.
int add_feature(Model &model, const std::string &name, const Irreps &irreps) {
  model.feature_names.push_back(name);
  model.features.push_back(irreps);
  return static_cast<int>(model.features.size()) - 1;
}

Linear random_linear(const Model &model, int input, int output, bool per_species, bool accumulate, bool bias,
                     unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Linear linear{input, output, per_species, accumulate, {}, {}};
  const Irreps &in = model.features[input], &out = model.features[output];
  linear.bias.resize(out.size());
  for (int o = 0; o < out.size(); ++o) {
    for (int i = 0; i < in.size(); ++i) {
      if (in[i].irrep != out[o].irrep) continue;
      LinearBlock block{i, o, {}};
      for (int s = 0; s < (per_species ? model.num_species() : 1); ++s) {
        Matrix m{in[i].mul, out[o].mul, {}};
        for (int k = 0; k < m.rows * m.cols; ++k) m.data.push_back(normal(random) / std::sqrt(m.rows));
        block.weight.push_back(m);
      }
      linear.blocks.push_back(block);
    }
    if (bias && out[o].irrep == Irrep{0, 1})
      for (int u = 0; u < out[o].mul; ++u) linear.bias[o].push_back(normal(random));
  }
  return linear;
}

struct Chain {
  bool contracted = true, bias = false, per_species = false, self_connection = true, reads_out = true;
};

// A tiny model whose feature x1 is made of another one by a linear map, and of the embedding by a linear map of the
// species, and which is also read out: the node features of MACE.
Model with_chain(const Chain &chain) {
  TinyModelOptions options;
  options.hidden = {"4x0e+4x1e", "4x0e"};
  options.embedding_channels = 7;
  options.contraction_degree = chain.contracted ? 2 : 0;
  options.per_species_linear = chain.per_species;
  Model model = make_tiny_model(options).model();
  const auto named = [&](const std::string &name) {
    return static_cast<int>(std::find(model.feature_names.begin(), model.feature_names.end(), name) -
                            model.feature_names.begin());
  };
  const int x0 = named("x0"), x1 = named("x1"), b = add_feature(model, "b", model.features[x1]);
  std::vector<Layer> layers;
  for (Layer layer : model.layers) {
    if (ports(layer).output != x1) {
      if (std::holds_alternative<ScaleShift>(layer) && chain.reads_out) {
        Network network;
        network.weights = {{4, 3, {.1, .2, -.3, .4, .5, -.6, .7, .8, -.9, 1., .1, .2}}, {3, 1, {.3, -.2, .5}}};
        network.biases = {{.1, .2, .3}, {.4}};
        layers.push_back(Readout{x1, 0, network});
      }
      layers.push_back(layer);
      continue;
    }
    if (auto *c = std::get_if<SymmetricContraction>(&layer)) c->output = b;
    if (auto *g = std::get_if<Gate>(&layer)) g->output = b;
    layers.push_back(layer);
    layers.push_back(random_linear(model, b, x1, false, false, chain.bias, 5));
    if (chain.self_connection) layers.push_back(random_linear(model, x0, x1, true, true, false, 6));
  }
  model.layers = layers;
  return model;
}

struct Answer {
  double energy;
  std::vector<double> numbers;    // forces, their tangents, virial
};

Answer answer_of(const Model &model, bool folds, bool deterministic, bool device = false) {
  EvaluatorOptions options;
  options.precision = Precision::double_;
  options.radial_exact = true;
  options.directional = true;
  options.folds = folds;
  options.deterministic = deterministic;
  (void) device;
  const std::unique_ptr<Evaluator> evaluator = make_kokkos_evaluator(model, options);
  const ImageStructure images = random_structure(model.num_species(), 3).images(model.cutoff);
  evaluator->set_neighborhood(images.neighborhood);
  const size_t n = images.positions.size();
  std::vector<std::array<double, 3>> forces(n, {0, 0, 0}), tangents(n, {0, 0, 0}), direction(n);
  for (size_t a = 0; a < n; ++a)
    for (int c = 0; c < 3; ++c) direction[a][c] = std::sin(1.0 + images.neighborhood.owner_of(a) * 3 + c);
  EvaluationRequest request;
  const auto pointer = [](auto &rows) { return reinterpret_cast<double(*)[3]>(rows.data()); };
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.forces = pointer(forces);
  request.direction = pointer(direction);
  request.force_tangents = pointer(tangents);
  request.virial = true;
  NoExchange exchange;
  const EvaluationResult result = evaluator->evaluate(request, exchange);
  Answer answer{result.energy, {}};
  for (const auto *rows : {&forces, &tangents})
    for (const auto &row : *rows) answer.numbers.insert(answer.numbers.end(), row.begin(), row.end());
  answer.numbers.insert(answer.numbers.end(), result.virial, result.virial + 6);
  return answer;
}
}    // namespace
