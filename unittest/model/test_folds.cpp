// SPDX-License-Identifier: MIT
// Linear maps that are multiplied when a model is loaded (kokkos/plan/linear_folds.h), compared with the separate
// layers.
#include "kokkos/plan/linear_folds.h"
#include "kokkos/plan/operation_count.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/framework_answers.h"
#include "unittest/support/linear_chain.h"
#include "unittest/support/make_kokkos.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
constexpr double TANGENT_ORDER = 1e-12;

double operations_of(const Model &model) {
  return count_operations(model, make_evaluation_plan(model, false), AVX512_TARGET).total().per_atom.both();
}

void expect_same_folded(const Model &model, const Structure &structure) {
  const ImageStructure images = structure.images(model.reach());
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  for (const bool deterministic : {false, true}) {
    KokkosOptions options{Precision::double_, true, deterministic};
    options.directional = true;
    const Evaluation folded = evaluate_whole(*make_kokkos(model, options), images, &direction);
    options.folds = false;
    const Evaluation expected = evaluate_whole(*make_kokkos(model, options), images, &direction);
    expect_same(folded, expected, SUM_ORDER, "folded");
    double largest = 1.0;
    for (const Vector3 &t : expected.force_tangents)
      for (const double c : t) largest = std::max(largest, std::fabs(c));
    EXPECT_LE(largest_difference(folded.force_tangents, expected.force_tangents), TANGENT_ORDER * largest);
  }
}

TEST(LinearFolds, a_folded_chain_has_fewer_operations_and_the_same_results) {
  int number = 0;
  for (const Chain &chain : all_chains()) {
    SCOPED_TRACE("chain " + std::to_string(number++));
    const Model model = with_chain(chain), folded = fold_linears(model);
    const bool can_fold = !(chain.bias && chain.per_species);
    if (can_fold)
      EXPECT_LT(operations_of(folded), operations_of(model));
    else
      EXPECT_EQ(folded.layers.size(), model.layers.size());
    expect_same_folded(model, random_structure(model.num_species(), 7));
  }
}

TEST(LinearFolds, two_ranks_agree_with_one_that_has_each_layer_as_it_is) {
  for (const Chain &chain : all_chains()) {
    const Model model = with_chain(chain);
    const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
    KokkosOptions options{Precision::double_, true};
    const std::vector<RankPart> parts = split_structure(images, {1, 1, 0, 1, 1, 0, 1, 1}, 2);
    RankGroup group(parts);
    std::vector<std::unique_ptr<Evaluator>> ranks;
    for (int r = 0; r < 2; ++r) ranks.push_back(make_kokkos(model, options));
    options.folds = false;
    expect_same(evaluate_ranks(ranks, parts, 8, group), evaluate_whole(*make_kokkos(model, options), images), SUM_ORDER,
                "two ranks");
  }
}

// x1 of the chain: 4x0e+4x1e of b, read by a gate's linear (4x0e), by the next convolution's (4x0e+4x1e) and by a
// readout of one matrix. Without x1 the products of its map are saved, and also the 16 numbers of a row of the species
// that were added to it. Such rows are added to the 4 and the 16 numbers of the two readers instead.
TEST(LinearFolds, a_fold_saves_the_operations_of_the_first_map) {
  const Model model = with_chain({});
  EXPECT_EQ(operations_of(model) - operations_of(fold_linears(model)), 2 * 2 * (4 * 4 + 3 * 4 * 4) + 16 - (4 + 16));
}

TEST(LinearFolds, what_a_nonlinear_layer_reads_stays) {
  TinyModelOptions options;
  const Model model = make_tiny_model(options).model();
  EXPECT_EQ(fold_linears(model).layers.size(), model.layers.size());
  EXPECT_EQ(operations_of(fold_linears(model)), operations_of(model));

  // A readout that is not linear.
  Model chain = with_chain({});
  for (Layer &layer : chain.layers)
    if (auto *readout = std::get_if<Readout>(&layer); readout && readout->network.weights.size() > 1)
      readout->network.activation = Activation::silu;
  EXPECT_EQ(fold_linears(chain).layers.size(), chain.layers.size());
}

// Each matrix fits into float32, and features of 1e-20 do before and after either.
TEST(LinearFolds, products_beyond_float32_are_not_made) {
  const Model chain = with_chain({});
  ASSERT_LT(operations_of(fold_linears(chain)), operations_of(chain));
  Model large = chain;
  for (Layer &layer : large.layers)
    if (auto *linear = std::get_if<Linear>(&layer))
      for (LinearBlock &block : linear->blocks)
        for (Matrix &m : block.weight)
          for (double &v : m.data) v *= 1e20;
  EXPECT_EQ(operations_of(fold_linears(large)), operations_of(large));
}

// Models of all frameworks; the folds change some models of MACE.
TEST(LinearFolds, models_of_frameworks_are_the_same_folded) {
  int num_folded = 0, num_models = 0;
  for (const std::string &file : model_files()) {
    SCOPED_TRACE(file);
    const Model whole = read_model(file);
    const Model model = whole.restricted_to(elements_of(whole.self_check));
    ++num_models;
    if (operations_of(fold_linears(model)) < operations_of(model)) ++num_folded;
    const ReferenceStructure &r = whole.self_check.front();
    std::vector<int> species;
    for (const std::string &s : r.symbols) species.push_back(model.species(s));
    const ImageStructure images = build_image_structure(r.positions, species, r.cell, r.periodic, model.reach());
    KokkosOptions options{Precision::double_, true};
    const Evaluation folded = evaluate_whole(*make_kokkos(model, options), images);
    options.folds = false;
    expect_same(folded, evaluate_whole(*make_kokkos(model, options), images), SUM_ORDER, "folded");
  }
  EXPECT_GT(num_models, 0);
  std::printf("%d of %d models are folded\n", num_folded, num_models);
}

}    // namespace
