// SPDX-License-Identifier: MIT
// Local networks in blocks of threads on a device, compared with a launch for each of their steps.
#include "kokkos/layers/local_network/local_placement.h"
#include "src/evaluation/native_evaluators.h"
#include "src/model/layer_list.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/model_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12}, FLOAT32 = {0.0, 3e-5};
// Bytes of a block: for all arrays; for some of them, so others are in the memory of the batch; and for so few that
// only atoms with few neighbors have any.
constexpr int64_t ENOUGH = 100 << 10, SOME = 30000, FEW = 14000;

// Atoms with many neighbors, with few, with one and with none. No neighbor is an image.
Structure uneven_structure(int num_species) {
  Structure s = random_structure(num_species, 7, 4);
  for (bool &is_periodic : s.periodic) is_periodic = false;
  const auto add = [&](double x, double y) {
    s.positions.insert(s.positions.begin() + s.size() / 2, Vector3{x, y, 0.0});
    s.species.insert(s.species.begin() + s.size() / 2, s.size() % num_species);
  };
  add(60.0, 0.0);
  for (const double y : {0.0, 1.1}) add(90.0, y);
  return s;
}

Evaluation evaluate(const Model &model, const EvaluatorOptions &options, const ImageStructure &images,
                    const std::vector<Vector3> *direction) {
  return evaluate_whole(*make_device_evaluator(model, options), images, direction);
}

class DeviceLocalBlocks : public ::testing::TestWithParam<TinyCase> {};

TEST_P(DeviceLocalBlocks, agree_with_launches_and_places_of_arrays_do_not_show) {
  const Model model = GetParam().model();
  const Structure structure = uneven_structure(model.num_species());
  const ImageStructure images = structure.images(model.reach());
  const std::vector<Vector3> direction = random_direction(structure.size(), 11);
  for (const Precision precision : {Precision::mixed, Precision::double_})
    for (const bool is_directional : {false, true}) {
      EvaluatorOptions options;
      options.precision = precision;
      options.directional = is_directional;
      options.radial_tolerance = COARSE_TABLES;
      options.block_bytes = 0;
      const auto *const along = is_directional ? &direction : nullptr;
      const Evaluation expected = evaluate(model, options, images, along);
      std::optional<Evaluation> first;
      for (const int64_t bytes : {ENOUGH, SOME, FEW}) {
        options.block_bytes = bytes;
        const Evaluation found = evaluate(model, options, images, along);
        expect_same(found, expected, precision == Precision::mixed ? FLOAT32 : SUM_ORDER,
                    std::to_string(bytes) + " bytes");
        if (!first) first = found;
        EXPECT_EQ(found.atom_energy, first->atom_energy);
        EXPECT_EQ(found.forces, first->forces);
        EXPECT_EQ(found.force_tangents, first->force_tangents);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(, DeviceLocalBlocks, ::testing::ValuesIn(local_network_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(DeviceLocalBlocksRun, too_few_bytes_lead_to_launches) {
  const Model model = case_named("local_of_2_layers").model();
  const auto is_in_blocks = [&](int64_t bytes) {
    EvaluatorOptions options;
    options.radial_tolerance = COARSE_TABLES;
    options.block_bytes = bytes;
    const std::string text = make_device_evaluator(model, options)->describe();
    EXPECT_NE(text.find("in blocks with") != std::string::npos,
              text.find("a launch for each step") != std::string::npos);
    return text.find("in blocks with") != std::string::npos;
  };
  EXPECT_TRUE(is_in_blocks(ENOUGH));
  EXPECT_TRUE(is_in_blocks(FEW));
  EXPECT_FALSE(is_in_blocks(3000));
  EXPECT_FALSE(is_in_blocks(0));
}

// ---- places
// The shape of Allegro's tutorial, and one near that of Allegro-OAM-L.
TinyModelOptions tutorial() {
  TinyModelOptions t;
  t.local_layers = 2;
  t.parity = true;
  t.xplor = false;
  t.lmax_edge = 1;
  t.local_irreps = {"0e+1o", "0e+1o", "0e"};
  t.local_channels = 32;
  t.local_scalars = t.local_embedding = 64;
  t.local_first_hidden = t.local_hidden = {64};
  return t;
}
TinyModelOptions large() {
  TinyModelOptions t = tutorial();
  t.lmax_edge = 3;
  t.local_irreps = {"0e+1o+2e+3o", "0e+1o+2e+3o", "0e"};
  t.local_channels = 64;
  t.local_scalars = 256;
  t.local_hidden = {512, 512};
  return t;
}

LocalPlacement placement_of(const TinyModelOptions &options, int64_t memory, int64_t requested = -1) {
  const Model model = make_tiny_model(options).model();
  for (const auto &layer : model.layers)
    if (const auto *network = std::get_if<LocalNetwork>(&layer)) {
      const std::vector<double> scale(model.num_species(), 1.0);
      const LocalProgram program(*network, model.num_species(), scale, EvaluatorOptions());
      const int l = model.lmax_edge;
      return LocalPlacement(program, {1, sizeof(float), (l + 1) * (l + 1), 4000}, memory, requested);
    }
  throw std::logic_error("a model without a local network");
}

constexpr int64_t H200 = 227 << 10;

TEST(LocalPlacement, blocks_are_used_where_they_save_memory_traffic) {
  const LocalPlacement small = placement_of(tutorial(), H200);
  EXPECT_TRUE(small.is_used);
  EXPECT_LT(small.bytes_of_blocks, 0.25 * small.bytes_of_steps);
  EXPECT_LE(small.bytes, H200);
  EXPECT_FALSE(placement_of(tutorial(), H200, 0).is_used);
  EXPECT_FALSE(placement_of(tutorial(), 16 << 10).is_used);
  EXPECT_FALSE(placement_of(large(), H200).is_used) << "each block reads all matrices";
}

TEST(LocalPlacement, tiles_fit_and_hold_less_the_more_edges_they_have) {
  const LocalPlacement p = placement_of(tutorial(), H200);
  ASSERT_GT(p.tiles.size(), 2u);
  for (size_t k = 0; k + 1 < p.tiles.size(); k++) {
    const LocalTile &tile = p.tiles[k], &next = p.tiles[k + 1];
    EXPECT_LT(tile.most_edges, next.most_edges);
    EXPECT_GE(tile.edge_width, next.edge_width);
    EXPECT_LE(4 * (tile.most_edges * tile.edge_width + p.most_receivers * tile.receiver_width), p.bytes);
    for (const auto *arrays : {&tile.forward, &tile.backward})
      for (const LocalArray &a : *arrays) {
        const int width = a.is_of_receivers ? tile.receiver_width : tile.edge_width;
        EXPECT_TRUE(a.memory == 0 || a.before + a.width <= width);
      }
  }
  const LocalTile &last = p.tiles.back();
  for (const auto *arrays : {&last.forward, &last.backward})
    EXPECT_TRUE(std::all_of(arrays->begin(), arrays->end(), [](const LocalArray &a) { return a.memory == 0; }));
}

}    // namespace
