// SPDX-License-Identifier: MIT
// A convolution whose network reads features, with random edges: for tests of the networks of host and device.
#ifndef EQUI_TEST_EDGE_NETWORK_PROBLEM_H
#define EQUI_TEST_EDGE_NETWORK_PROBLEM_H

#include "unittest/support/model_cases.h"
#include "unittest/support/packed_feature.h"
#include "unittest/support/scalar_model.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <variant>
#include <vector>

namespace equi {
namespace testing {

inline std::vector<TinyCase> network_cases() {
  std::vector<TinyCase> cases;
  for (const TinyCase &c : family_cases())
    if (c.options.sender_scalars + c.options.receiver_scalars > 0) cases.push_back(c);
  return cases;
}

// A convolution of a tiny model and random edges.
struct EdgeNetworkProblem {
  static constexpr int NUM_ROWS = 9, NUM_RECEIVERS = 4;    // rows of senders come after those of receivers
  static constexpr int NUM_EDGES = 37;

  explicit EdgeNetworkProblem(const TinyCase &tiny) : model(tiny.model()) {
    for (const Layer &layer : model.layers)
      if (const auto *c = std::get_if<Convolution>(&layer)) convolution = c;    // the last one
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> distance(0.8, 2.7);    // within the cutoff of each pair
    for (int row = 0; row < NUM_ROWS; ++row) {
      species.push_back(static_cast<int>(random() % model.num_species()));
      x.emplace_back();
      for (int k = 0; k < irreps().dim(); ++k) x.back().push_back(normal(random));
    }
    for (int e = 0; e < NUM_EDGES; ++e) {
      r.push_back(distance(random));
      receiver.push_back(static_cast<int>(random() % NUM_RECEIVERS));
      sender.push_back(NUM_RECEIVERS + static_cast<int>(random() % (NUM_ROWS - NUM_RECEIVERS)));
      receiver_species.push_back(species[receiver.back()]);
      sender_species.push_back(species[sender.back()]);
      weights_adj.emplace_back();
      for (int c = 0; c < convolution->radial.num_outputs(); ++c) weights_adj.back().push_back(normal(random));
    }
    const auto another = [&](const std::vector<double> &numbers) {
      std::vector<double> others;
      for (size_t k = 0; k < numbers.size(); ++k) others.push_back(normal(random));
      return others;
    };
    r_tangent = another(r);
    for (const auto &row : x) x_tangent.push_back(another(row));
    for (const auto &row : weights_adj) weights_adj_tangent.push_back(another(row));
  }
  const Irreps &irreps() const { return convolution->product.irreps_in; }
  std::vector<double> weights(int e) const {
    return weights_of_features(convolution->radial, irreps(), r[e], receiver_species[e], sender_species[e],
                               x[receiver[e]], x[sender[e]]);
  }
  // The sum of weights times weights_adj.
  double form() const {
    double sum = 0.0;
    for (int e = 0; e < NUM_EDGES; ++e) {
      const std::vector<double> w = weights(e);
      for (size_t c = 0; c < w.size(); ++c) sum += w[c] * weights_adj[e][c];
    }
    return sum;
  }
  // Moves along the tangents.
  void move(double step) {
    const auto add = [step](std::vector<double> &to, const std::vector<double> &tangent) {
      for (size_t k = 0; k < to.size(); ++k) to[k] += step * tangent[k];
    };
    add(r, r_tangent);
    for (size_t row = 0; row < x.size(); ++row) add(x[row], x_tangent[row]);
    for (size_t e = 0; e < weights_adj.size(); ++e) add(weights_adj[e], weights_adj_tangent[e]);
  }
  // The derivative of form() by a number of this problem.
  double slope(double &number) {
    const double at = number;
    const auto difference = [&](double h) {
      number = at + h;
      const double above = form();
      number = at - h;
      const double below = form();
      number = at;
      return (above - below) / (2 * h);
    };
    return (4 * difference(1.25e-4) - difference(2.5e-4)) / 3;
  }

  Model model;
  const Convolution *convolution = nullptr;
  std::vector<int> species, receiver, sender, receiver_species, sender_species;
  std::vector<double> r, r_tangent;
  Rows x, weights_adj, x_tangent, weights_adj_tangent;
};

}    // namespace testing
}    // namespace equi

#endif
