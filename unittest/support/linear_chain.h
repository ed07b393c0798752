// SPDX-License-Identifier: MIT
// Tiny models with consecutive linear layers, which the other tiny models do not have.
#ifndef EQUI_TEST_LINEAR_CHAIN_H
#define EQUI_TEST_LINEAR_CHAIN_H

#include "unittest/support/model_builder.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// The number of a new feature.
inline int add_feature(Model &model, const std::string &name, const Irreps &irreps) {
  model.feature_names.push_back(name);
  model.features.push_back(irreps);
  return static_cast<int>(model.features.size()) - 1;
}

inline Linear random_linear(const Model &model, int input, int output, bool per_species, bool accumulate, bool bias,
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

// A tiny model whose feature x1 is the sum of a linear map of another feature and of a linear map of the species'
// embedding. A readout also reads x1: these are the node features of MACE.
inline Model with_chain(const Chain &chain) {
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

// Each model has another part that can be folded; the last one has none.
inline std::vector<Chain> all_chains() {
  std::vector<Chain> chains(6);
  chains[1].bias = true;
  chains[2].self_connection = false;
  chains[3].per_species = true;
  chains[4].contracted = chains[4].reads_out = false;
  chains[5].bias = chains[5].per_species = true;
  return chains;
}

}    // namespace testing
}    // namespace equi

#endif
