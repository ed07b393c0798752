// SPDX-License-Identifier: MIT
// Operations of models (kokkos/plan/operation_count.h) compared with sums by hand.
#include "kokkos/plan/operation_count.h"
#include "unittest/support/model_builder.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

OperationCount count_of(const Model &model, int rows_per_bin = QUINTIC_ROWS) {
  return count_operations(model, make_evaluation_plan(model, false), AVX512_TARGET, rows_per_bin);
}

// Features are x0 3x0e; z0 4x0e+2x1e, y0 3x0e, m0 3x0e+3x1e; x1 2x0e+2x1e; z1 2x0e, y1 2x0e+2x1e, m1 2x0e+2x0e; x2
// 2x0e.
TinyModelOptions small_model() {
  TinyModelOptions options;
  options.lmax_edge = 1;
  options.embedding_channels = 3;
  options.hidden = {"2x0e+2x1e", "2x0e"};
  return options;
}

// The counts of the layers of a kind, in their order: forward and backward of an atom, then of an edge.
template <class L>
std::vector<std::array<double, 4>> counts_of(const Model &model) {
  const OperationCount count = count_of(model);
  std::vector<std::array<double, 4>> found;
  for (size_t k = 0; k < model.layers.size(); ++k)
    if (std::holds_alternative<L>(model.layers[k])) {
      const LayerOperations &n = count.layers[k];
      found.push_back({n.per_atom.forward, n.per_atom.backward, n.per_edge.forward, n.per_edge.backward});
    }
  return found;
}
using Counts = std::vector<std::array<double, 4>>;

// Multiply-adds of a path on an edge and channel, with 5 of the weight forward and 10 of weight and derivative
// backward: 0x0->0 takes 1 and 2 more, 0x1->1 3 + 1 and 2 + 2 * 3 + 1, 1x1->0 3 + 1 and 6 + 5.
TEST(OperationCount, of_the_sevennet_family) {
  const Model model = make_tiny_model(small_model()).model();
  EXPECT_EQ(counts_of<Convolution>(model),
            (Counts{{0, 0, 2 * 3 * (6. + 9), 2 * 3 * (12. + 19)}, {0, 0, 2 * 2 * (6. + 9), 2 * 2 * (12. + 21)}}));
  // x0 to z0 and to y0 once per species; m0 to z0, x1 to z1, x1 to y1, m1 to z1 in both directions.
  EXPECT_EQ(counts_of<Linear>(model), (Counts{{0, 0, 0, 0},
                                              {0, 0, 0, 0},
                                              {2 * (12. + 18), 2 * (12. + 18), 0, 0},
                                              {2 * 4., 2 * 4., 0, 0},
                                              {2 * (4. + 12), 2 * (4. + 12), 0, 0},
                                              {2 * 8., 2 * 8., 0, 0}}));
  // Two scalars; two vectors of 3 components with a gate: activation, scale and 3 products.
  EXPECT_EQ(counts_of<Gate>(model),
            (Counts{{2 * 2. + 2 * (2 + 3), 2 * 2. + 2 * (3 + 9), 0, 0}, {2 * 2., 2 * 2., 0, 0}}));
  EXPECT_EQ(counts_of<Readout>(model), (Counts{{2 * 2., 2 * 2., 0, 0}}));
  const LayerOperations total = count_of(model).total();
  EXPECT_EQ(total.per_atom.forward, 60 + 8 + 32 + 16 + 14 + 4 + 4 + 2);
  EXPECT_EQ(total.per_edge.both(), 90 + 186 + 60 + 132);
  EXPECT_EQ(total.per_atom_with(7).forward, total.per_atom.forward + 7 * 150);
  // A cubic table saves 2 and 4 multiply-adds of each weight: of 3 * 2 and 2 * 2 weights.
  const LayerOperations cubic = count_of(model, CUBIC_ROWS).total();
  EXPECT_EQ(total.per_edge.forward - cubic.per_edge.forward, 2 * 2 * (3 * 2 + 2 * 2));
  EXPECT_EQ(total.per_edge.backward - cubic.per_edge.backward, 2 * 4 * (3 * 2 + 2 * 2));
}

// A contraction of scalars a c1 + a a c2: one product and two multiply-adds per channel; backward one more.
TEST(OperationCount, of_the_mace_family) {
  TinyModelOptions options = small_model();
  options.contraction_degree = 2;
  options.density = true;
  const Model model = make_tiny_model(options).model();
  EXPECT_EQ(counts_of<SymmetricContraction>(model).back(), (std::array<double, 4>{2 * 2 * 3., 2 * 2 * 4., 0, 0}));
  // m0 has 12 numbers and m1 has 4; a row of a quintic table is 5 multiply-adds, and one sum.
  EXPECT_EQ(counts_of<DensityNormalization>(model),
            (Counts{{12 + 3., 3 * 12 + 2., 11, 10}, {4 + 3., 3 * 4 + 2., 11, 10}}));
}

// Two channels of 4 components and 15 points, with hidden layers of 5 and 7. Forward: matrices of components,
// components to points and back, a matrix of points, two operations for each activation and one for each bias of the
// first. Backward evaluates the hidden layers again, the first activation among them.
TEST(OperationCount, of_grid_networks) {
  TinyModelOptions options = small_model();
  options.grid_rings = 3;
  options.grid_hidden = {5, 7};
  options.biases = true;
  const double entry = 2 * 4 * 2 * 5. + 2 * 15 * 4 * 5, exit = 2 * 4 * 7 * 2. + 2 * 15 * 4 * 7,
               between = 2 * 15 * 5 * 7.;
  EXPECT_EQ(counts_of<GridNetwork>(make_tiny_model(options).model()).front(),
            (std::array<double, 4>{entry + between + exit + 2 * 15 * 12. + 15 * 5 + 4 * 2,
                                   2 * entry + 2 * between + exit + 2 * 15 * 12. + 2 * 15 * 5. + 15 * 5, 0, 0}));
}

// Norms of two channels of 4 components and of 1: 3 operations for a component and for a channel, backward 7 and 6.
TEST(OperationCount, of_the_tensornet_family) {
  TinyModelOptions options = small_model();
  options.node_product = "square";
  options.readout_hidden = {4};
  const Model model = make_tiny_model(options).model();
  EXPECT_EQ(counts_of<NormScale>(model), (Counts{{3 * 8. + 3 * 2, 7 * 8. + 6 * 2, 0, 0}, {12, 26, 0, 0}}));
  EXPECT_EQ(counts_of<NodeProduct>(model).back(), (std::array<double, 4>{2 * 2 * 3., 2 * 2 * 4., 0, 0}));
  // 2 to 4 to 1, four activations with their scale.
  EXPECT_EQ(counts_of<Readout>(model), (Counts{{2 * 8. + 2 * 4 + 2 * 4, 2 * 8. + 2 * 4 + 2 * 4, 0, 0}}));
}

// Two heads of 3 channels and a group of 5 of degree 1. The first layer has no tensors. The other one has difference
// networks from 1 to 4 and on to 6 or to 5.
TEST(OperationCount, of_the_so3lr_family) {
  TinyModelOptions options = small_model();
  options.attention_heads = 2;
  options.attention_channels = 3;
  options.attention_group_channels = 5;
  options.attention_degrees = {1};
  options.attention_hidden = {4};
  const Model model = make_tiny_model(options).model();
  const double forward = 11 * 2 * 5. + 6 * 5 + 5 * 3 + 3 * 2, backward = 11 * (4 * 5. + 2) + 6 * 11 + 5 * 7 + 3 * 4;
  const double networks = 2 * (4 + 4 * 6.) + 2 * (4 + 4 * 5.) + 2 * 4 * 2;
  EXPECT_EQ(counts_of<PairAttention>(model),
            (Counts{{0, 0, forward, backward},
                    {0, 0, forward + 3 * 3 + 11 * 2 + networks, backward + 3 * 4 + 11 * 2 + networks}}));
}

// One product of tensors of l = 0 and 1 with 2 channels, from 3 scalars. Tables have the 3 scalars and the 4 factors of
// the first tensors and of the environment; networks have one hidden layer of 5.
TEST(OperationCount, of_the_allegro_family) {
  TinyModelOptions options = small_model();
  options.lmax_edge = 1;
  options.parity = true;
  options.local_layers = 1;
  options.local_irreps = {"0e+1o", "0e"};
  options.local_channels = 2;
  options.local_scalars = 3;
  options.local_hidden = {5};
  const Model model = make_tiny_model(options).model();
  const double table = 3 + 4 + 4, activations = 2 * 5;
  const double networks = 2 * (5 * 5 + 5 * 3.) + activations + 2 * (6 * 5 + 5.) + activations;
  // Tensors of 2 channels have 8 numbers. Cells of the product are (0,0) and three of l = 1, as are its couplings.
  const double forward = table * 10 + networks + 2 * 8 + 8 + 2 * 4 * 2. + 1;
  const double backward = table * 22 + networks + 2 * 4 * 8 + 8 + 2 * 4 * 4.;
  EXPECT_EQ(counts_of<LocalNetwork>(model), (Counts{{8 + 2 * 4 * 2. + 1, 8 + 2 * 4 * 2., forward, backward}}));
}

// From 2 channels of each atom to 4 and on to 3, l and m to 1. Rotations take 2 and 18 operations per channel; there
// are 4 numbers per channel, of 3 pairs of l and |m|.
TEST(OperationCount, of_the_esen_family) {
  TinyModelOptions options = small_model();
  options.so2_lmax = options.so2_mmax = 1;
  options.so2_in = 2;
  options.so2_out = 3;
  options.so2_hidden = {4};
  const Model model = make_tiny_model(options).model();
  const double rotations = 20 * (2 * 2 + 3), factors = 4 * 4, cutoff = 4 * 3;
  const double first = 2 * 8 * (8 + 4) + 4 * 2 * 4 * 4, second = 2 * 8 * 6 + 4 * 2 * 4 * 3;
  // 4 basis functions, two hidden layers of 8 and 3 * 4 factors.
  const double matrices = 2 * (4 * 8 + 8 * 8 + 8 * 12), activations = 2 * 16;
  const double gates_forward = 4 + 4 * (1 + 3), gates_backward = 4 * 2 + 4 * (2 + 9);
  EXPECT_EQ(
      counts_of<So2Convolution>(model),
      (Counts{{0, 0, rotations + factors + cutoff + first + second + matrices + activations + gates_forward,
               rotations + 3 * factors + 3 * cutoff + first + second + matrices + activations + gates_backward}}));
}

}    // namespace
