// SPDX-License-Identifier: MIT
// Operations of models (kokkos/layers/operation_count.h) against sums by hand.
#include "kokkos/layers/operation_count.h"
#include "unittest/support/model_builder.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

OperationCount count_of(const Model &model, int rows_per_bin = QUINTIC_ROWS) {
  return count_operations(model, make_evaluation_plan(model, false), AVX512_TARGET, rows_per_bin);
}

TEST(OperationCount, dump) {
  TinyModelOptions o[4];
  for (auto &p : o) { p.lmax_edge = 1; p.embedding_channels = 3; p.hidden = {"2x0e+2x1e", "2x0e"}; }
  o[1].contraction_degree = 2;
  o[1].per_species_linear = true;
  o[1].density = true;
  o[2].node_product = "square";
  o[2].readout_hidden = {4};
  o[3].so2_lmax = 1; o[3].so2_mmax = 1; o[3].so2_in = 2; o[3].so2_out = 3; o[3].so2_hidden = {4};
  for (auto &p : o) {
    const Model m = make_tiny_model(p).model();
    const OperationCount c = count_of(m);
    for (size_t k = 0; k < m.layers.size(); ++k) {
      const Ports q = ports(m.layers[k]);
      auto t = [&](int f) { return f < 0 ? std::string("-") : m.feature_names[f] + " " + m.features[f].to_string(); };
      std::printf("%zu type %zu: %s -> %s: %g %g  %g %g\n", k, m.layers[k].index(), t(q.input).c_str(), t(q.output).c_str(),
                  c.layers[k].per_atom.forward, c.layers[k].per_atom.backward, c.layers[k].per_edge.forward, c.layers[k].per_edge.backward);
    }
  }
}

}    // namespace
