// SPDX-License-Identifier: MIT
// The reader of .equi files: its result for valid ones, and its refusal of each kind of invalid one.
#include "src/model/model_file.h"
#include "unittest/support/model_documents.h"

#include <gtest/gtest.h>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;
using namespace equi::testing;

TEST(ModelFile, reads_what_was_written) {
  ModelDocument d = make_tiny_model(rich_options());
  d.document["self_check"].push_back(example_structure());
  const Model m = d.model();
  EXPECT_EQ(m.file, "tiny.equi");
  EXPECT_EQ(m.framework, "test");
  EXPECT_EQ(m.elements, (std::vector<std::string>{"O", "Si", "Al"}));
  EXPECT_EQ(m.species("Si"), 1);
  EXPECT_EQ(m.species("Na"), -1);
  EXPECT_EQ(m.cutoff, 4.0);
  EXPECT_EQ(m.num_convolutions(), 3);
  ASSERT_EQ(m.layers.size(), static_cast<size_t>(SCALE_SHIFT + 1));
  EXPECT_EQ(m.provenance.at("source"), "unittest/support/model_builder.h");

  // Scales are folded in, in float64.
  const auto &linear = std::get<Linear>(m.layers[SC]);
  EXPECT_TRUE(linear.per_species);
  const Json &block = d.document["layers"][SC]["blocks"][0];
  const DocumentTensor &weight = d.tensors.at(block["weight"].get<std::string>());
  ASSERT_EQ(linear.blocks[0].weight.size(), 3u);
  const size_t size = linear.blocks[0].weight[0].data.size();
  for (size_t s = 0; s < 3; ++s)
    for (size_t k = 0; k < size; ++k)
      EXPECT_EQ(linear.blocks[0].weight[s].data[k], weight.values[s * size + k] * block["scale"].get<double>());
  const Json &bias = d.document["layers"][SC]["biases"][0];
  EXPECT_EQ(linear.bias[bias["out"].get<int>()][2],
            d.tensors.at(bias["tensor"].get<std::string>()).values[2] * bias["scale"].get<double>());

  const auto &convolution = std::get<Convolution>(m.layers[CONVOLUTION + LAYERS_PER_INTERACTION]);
  EXPECT_EQ(convolution.radial.num_outputs(), convolution.product.num_weights());
  EXPECT_EQ(convolution.radial.r_power.size(), static_cast<size_t>(convolution.product.num_weights()));
  EXPECT_EQ(convolution.radial.basis.r_on, 3.5);
  const auto &lin2 = std::get<Linear>(m.layers[LIN2]);
  EXPECT_TRUE(lin2.accumulate);
  EXPECT_EQ(lin2.output, linear.output);

  ASSERT_EQ(m.self_check.size(), 1u);
  const ReferenceStructure &r = m.self_check[0];
  EXPECT_EQ(r.symbols[1], "O");
  EXPECT_EQ(r.cell[1][1], 4.0);
  EXPECT_EQ(r.forces[1][0], -0.1);
  EXPECT_TRUE(r.has_stress && r.periodic[2]);
  EXPECT_EQ(r.stress[5], 6.0);
}

TEST(ModelFile, float32_and_float64_hold_the_same_model) {
  TinyModelOptions o;
  const Model a = make_tiny_model(o).model();
  o.is_double = false;
  ModelDocument d = make_tiny_model(o);
  const Model b = d.model();
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const auto *c = std::get_if<Convolution>(&a.layers[i]);
    if (!c) continue;
    const Network &other = std::get<Convolution>(b.layers[i]).radial.network;
    for (size_t k = 0; k < other.weights.size(); ++k)
      EXPECT_EQ(c->radial.network.weights[k].data, other.weights[k].data);
  }
}

TEST(ModelFile, two_layers_may_share_a_tensor) {
  ModelDocument d = make_tiny_model();
  layer(d, SCALE_SHIFT - LAYERS_PER_INTERACTION)["shift"] = "scale";
  d.tensors.erase("shift");
  const Model m = d.model();
  EXPECT_EQ(std::get<ScaleShift>(m.layers.back()).shift, std::get<ScaleShift>(m.layers.back()).scale);
}

TEST(ModelFile, is_read_from_disk) {
  const std::string path = ::testing::TempDir() + "equi_tiny_model.equi";
  make_tiny_model().write(path);
  EXPECT_EQ(read_model(path).file, path);
  std::remove(path.c_str());
  try {
    read_model(path);
    FAIL();
  } catch (const ModelFileError &e) {
    EXPECT_NE(std::string(e.what()).find(path + ": expected a model file"), std::string::npos) << e.what();
  }
}

TEST(ModelFile, refuses_every_truncation) {
  TinyModelOptions o;
  o.hidden = {"2x0e"};
  const std::string good = make_tiny_model(o).bytes();
  parse_model(good, "good.equi");
  for (size_t n = 0; n < good.size(); n += n < 32 || n + 32 > good.size() ? 1 : 61)
    expect_refusal(good.substr(0, n), {});
  expect_refusal(good.substr(0, 3), {"file length", "at least 8 bytes", "found 3"});
  expect_refusal(good.substr(0, 500), {"file length", "truncated"});
  expect_refusal(good.substr(0, good.size() - 1), {"truncated"});
  expect_refusal(good + "x", {"file length"});
}

TEST(ModelFile, refuses_other_formats) {
  expect_refusal(std::string("PK\x03\x04 a zip archive of some trainer"), {"found one of PyTorch", "equi convert"});
  expect_refusal(std::string("\x80\x02 a pickle of some trainer"), {"found one of PyTorch", "equi convert"});
  expect_refusal(std::string("# DATE: 2020 UNITS: metal\nsome potential"), {"not an .equi file"});
  expect_refusal(std::string(100, '\0'), {"not an .equi file"});
  expect_refusal(ModelDocument::container("{}", ""), {"__metadata__.equi", "not an .equi file"});
  expect_refusal(ModelDocument::container("{\"__metadata__\":{\"format\":\"pt\"}}", ""), {"__metadata__.equi"});
  expect_refusal(ModelDocument::container("{\"__metadata__\":{\"equi\":\"{]\"}}", ""),
                 {"__metadata__.equi", "valid JSON"});
  expect_refusal(ModelDocument::container("{\"__metadata__\":{\"equi\":\"[1]\"}}", ""), {"document", "an object"});
  expect_refusal(ModelDocument::container("{\"__metadata__\":{\"equi\":7}}", ""), {"__metadata__.equi", "a string"});
  expect_refusal(ModelDocument::container("{\"__metadata__\":3}", ""), {"__metadata__", "an object"});
  expect_refusal(ModelDocument::container("{broken", ""), {"header", "valid JSON"});
}

TEST(ModelFile, refuses_damaged_containers) {
  const ModelDocument d = make_tiny_model();
  const auto with = [&](const std::string &pointer, const Json &value) {
    Json h = d.header();
    h[Json::json_pointer(pointer)] = value;
    return ModelDocument::container(h.dump(), d.data());
  };
  expect_refusal(with("/scale/dtype", "I64"), {"tensor scale.dtype", "F32 or F64", "I64"});
  expect_refusal(with("/scale/dtype", 4), {"tensor scale.dtype", "a string"});
  expect_refusal(with("/scale/dtype", "F32"), {"tensor scale.data_offsets", "8 bytes"});
  expect_refusal(with("/scale/shape", {3}), {"tensor scale.data_offsets"});
  expect_refusal(with("/scale/shape", {-2}), {"tensor scale.shape[0]", "-2"});
  expect_refusal(with("/scale/shape", {2.5}), {"tensor scale.shape[0]"});
  expect_refusal(with("/scale/shape", {2147483647, 2147483647, 2147483647}), {"tensor scale.shape"});
  expect_refusal(with("/scale/shape", {18446744073709551615u}), {"tensor scale.shape[0]"});
  expect_refusal(with("/scale/shape", "x"), {"tensor scale.shape", "an array"});
  expect_refusal(with("/scale/data_offsets", {0, 16}), {"data_offsets", "where the tensor before ends"});
  expect_refusal(with("/scale/data_offsets", {-16, 0}), {"tensor scale.data_offsets[0]"});
  expect_refusal(with("/scale/data_offsets", {0, 18446744073709551615u}), {"tensor scale.data_offsets[1]"});
  expect_refusal(with("/scale/data_offsets", {0, 9223372036854775807}), {"tensor scale.data_offsets"});
  expect_refusal(with("/scale/data_offsets", {0}), {"tensor scale.data_offsets", "2 offsets"});
  expect_refusal(with("/scale", 5), {"tensor scale"});

  std::string huge = d.bytes();
  for (int k = 0; k < 8; ++k) huge[k] = '\xff';
  expect_refusal(huge, {"header"});
  // JSON that is nested deeper than a stack allows.
  expect_refusal(ModelDocument::container("{\"a\":" + std::string(2000000, '['), ""), {"header"});
  expect_refusal(ModelDocument::container("{\"a\":" + std::string(1000000, '[') + std::string(1000000, ']') + "}", ""),
                 {"header", "nested", "a[0][0]"});
}

// Random damage anywhere: the file is refused or read, and nothing else happens (run under a sanitizer for the full
// meaning).
TEST(ModelFile, survives_random_damage) {
  TinyModelOptions plain, family = family_options();
  plain.hidden = {"2x0e+2x1e", "2x0e"};
  family.hidden = {"2x0e+2x1o", "2x0e"};
  for (const TinyModelOptions &o : {plain, family}) {
    const ModelDocument d = make_tiny_model(o);
    const std::string good = d.bytes();
    const size_t header_end = good.size() - d.data().size();
    std::mt19937 random(2);
    int num_refused = 0;
    for (int k = 0; k < 3000; ++k) {
      std::string bad = good;
      for (int hits = 1 + static_cast<int>(random() % 3); hits > 0; --hits) {
        const size_t where = random() % header_end;
        if (random() % 2)
          bad[where] = "0123456789-.eE[]{},:\"abz"[random() % 24];
        else
          bad[where] = static_cast<char>(random() % 256);
      }
      try {
        parse_model(bad, "damaged.equi");
      } catch (const ModelFileError &) {
        ++num_refused;
      }
    }
    EXPECT_GT(num_refused, 1500);
  }
}

TEST(ModelFile, refuses_a_bad_head) {
  expect_refused_value("/format", "other", {"format: expected \"equi\", found \"other\""});
  expect_refused_value("/format_version", MODEL_FORMAT_VERSION + 1, {"format_version", "newer", "found 4"});
  expect_refused_value("/format_version", 0, {"format_version"});
  expect_refused_value("/format_version", "1", {"format_version"});
  expect_refused_value("/framework", "sevenn", {"framework", "an object"});
  expect_refused_value("/elements", Json::array(), {"elements"});
  expect_refused_value("/elements/1", "Xx", {"elements[1]", "a chemical symbol", "Xx"});
  expect_refused_value("/elements/1", "O", {"elements[1]", "each element once"});
  expect_refused_value("/elements/1", 14, {"elements[1]", "a string, found 14"});
  expect_refused_value("/cutoff", 0.0, {"cutoff", "a number from"});
  expect_refused_value("/cutoff", -4.0, {"cutoff", "a number from"});
  expect_refused_value("/cutoff", nullptr, {"cutoff", "a number, found null"});
  expect_refused_value("/lmax_edge", 9, {"lmax_edge", "0 to 8"});
  expect_refused_value("/lmax_edge", -1, {"lmax_edge"});
  expect_refused_value("/edge_parity", 1, {"edge_parity", "true or false"});
  expect_refused_value("/units/energy", "kcal/mol", {"units.energy", "\"eV\""});
  expect_refused_value("/units/length", "nm", {"units.length", "\"Angstrom\""});
  expect_refused_value("/provenance/date", 2024, {"provenance.date", "a string"});
  for (const char *key : {"format", "format_version", "framework", "architecture", "elements", "cutoff", "lmax_edge",
                          "edge_parity", "radial_basis", "layers", "provenance", "units"})
    expect_refusal([&](ModelDocument &d) { d.document.erase(key); },
                   {std::string(key) + ": expected this field, found none"});
}

TEST(ModelFile, reads_a_composition_and_a_number_of_neighbors) {
  ModelDocument d = make_tiny_model(rich_options());
  EXPECT_TRUE(d.model().composition.empty());
  EXPECT_EQ(d.model().max_neighbors, 0);
  d.document["composition"] = {{"Al", 2}, {"O", 7}, {"Si", 2}};
  d.document["max_neighbors"] = 300;
  d.document["nearest_neighbors"] = {{"count", 20}, {"tolerance", 0.01}};
  const Model model = d.model();
  EXPECT_EQ(model.nearest.count, 20);
  EXPECT_EQ(model.nearest.tolerance, 0.01);
  ASSERT_FALSE(model.notes.empty());
  EXPECT_NE(model.notes.back().find("20 nearest"), std::string::npos);
  d.document["nearest_neighbors"] = {{"count", 20}};
  EXPECT_LT(d.model().nearest.tolerance, 0.0);
  EXPECT_EQ(model.composition, (std::vector<int64_t>{7, 2, 2}));
  EXPECT_EQ(model.max_neighbors, 300);
  EXPECT_EQ(model.restricted_to({"Al", "O"}).composition, (std::vector<int64_t>{2, 7}));

  const auto with = [](const char *key, const Json &value) {
    return [=](ModelDocument &m) { m.document[key] = value; };
  };
  expect_refusal(with("composition", Json{{"Al", 1}, {"O", 1}}), {"composition", "all elements of the model", "no Si"});
  expect_refusal(with("nearest_neighbors", Json{{"count", 0}}), {"nearest_neighbors.count", "1 to"});
  expect_refusal(with("nearest_neighbors", Json{{"count", 9}, {"tolerance", -0.1}}), {"nearest_neighbors.tolerance"});
  expect_refusal(with("nearest_neighbors", Json{{"count", 9}, {"strict", true}}), {"\"strict\""});
  expect_refusal(with("composition", Json{{"Na", 1}}), {"composition", "elements of the model", "Na"});
  expect_refusal(with("composition", Json{{"Al", 0}, {"O", 1}, {"Si", 1}}), {"composition.Al", "0"});
  expect_refusal(with("composition", Json::array({1, 2, 3})), {"composition"});
  expect_refusal(with("max_neighbors", 0), {"max_neighbors", "0"});
  expect_refusal(with("max_neighbors", 2.5), {"max_neighbors"});
}

TEST(ModelFile, reads_files_of_the_first_version) {
  ModelDocument d = make_tiny_model(rich_options());
  d.document["format_version"] = 1;
  EXPECT_EQ(d.model().num_convolutions(), 3);
}

TEST(ModelFile, refuses_bad_tensors) {
  const double bad_numbers[] = {std::nan(""), std::numeric_limits<double>::infinity()};
  for (double bad : bad_numbers)
    expect_refusal([&](ModelDocument &d) { d.tensors["radial1.w1"].values[5] = bad; },
                   {"layers[8].radial.weights[1]", "finite", "radial1.w1", "index 5"});
  expect_refusal([](ModelDocument &d) { d.tensors["lin2_0.0.0"].shape = {1, -1}; }, {"tensor lin2_0.0.0.shape"});
  expect_refusal([](ModelDocument &d) { std::swap(d.tensors["embedding"].shape[0], d.tensors["embedding"].shape[1]); },
                 {"layers[0].weight", "[3, 13]", "[13, 3]"});
  expect_refusal([](ModelDocument &d) { d.tensors["superfluous"] = {{1}, {1.0}, true}; }, {"tensor superfluous"});
  expect_refusal([](ModelDocument &d) { d.tensors.erase("scale"); }, {"layers[17].scale", "\"scale\""});
  expect_refusal(
      [](ModelDocument &d) {
        d.tensors["shift"] = {{2}, {1.0, 2.0}, true};
      },
      {"layers[17].shift", "[3]", "[2]"});
}

TEST(ModelFile, refuses_bad_self_checks) {
  const auto expect = [](const std::string &pointer, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        [&](ModelDocument &d) {
          Json s = example_structure();
          s[Json::json_pointer(pointer)] = value;
          d.document["self_check"].push_back(s);
        },
        parts);
  };
  expect("/symbols/0", "Na", {"self_check[0].symbols[0]", "an element of the model"});
  expect("/symbols", Json::array(), {"self_check[0].symbols"});
  expect("/cell", nullptr, {"self_check[0]", "a cell"});
  expect("/cell/2", {1, 2}, {"self_check[0].cell[2]"});
  expect("/cell/2", {4, 4, 0}, {"self_check[0].cell", "volume"});
  expect("/pbc", {true}, {"self_check[0].pbc"});
  expect("/positions", {{0, 0, 0}}, {"self_check[0].positions", "2 positions"});
  expect("/forces/1/2", "x", {"self_check[0].forces[1][2]", "a number"});
  expect("/energy", nullptr, {"self_check[0].energy"});
  expect("/stress", {1, 2, 3}, {"self_check[0].stress", "6 numbers"});
}

TEST(Model, restriction_keeps_the_rows_of_its_elements) {
  ModelDocument d = make_tiny_model(rich_options());
  d.document["self_check"].push_back(example_structure());
  Json other = example_structure();
  other["symbols"][0] = "Al";
  d.document["self_check"].push_back(other);
  const Model m = d.model(), r = m.restricted_to({"Si", "O"});
  EXPECT_EQ(r.elements, (std::vector<std::string>{"Si", "O"}));
  EXPECT_EQ(r.species("Al"), -1);
  const auto &before = std::get<SpeciesEmbedding>(m.layers[EMBEDDING]).weight;
  const auto &after = std::get<SpeciesEmbedding>(r.layers[EMBEDDING]).weight;
  ASSERT_EQ(after.rows, 2);
  for (int u = 0; u < 13; ++u) {
    EXPECT_EQ(after(0, u), before(1, u));
    EXPECT_EQ(after(1, u), before(0, u));
  }
  const auto &sc = std::get<Linear>(r.layers[SC]), &sc_before = std::get<Linear>(m.layers[SC]);
  ASSERT_EQ(sc.blocks[0].weight.size(), 2u);
  EXPECT_EQ(sc.blocks[0].weight[0].data, sc_before.blocks[0].weight[1].data);
  EXPECT_EQ(std::get<Linear>(r.layers[LIN1]).blocks[0].weight.size(), 1u);
  const auto &shift = std::get<ScaleShift>(r.layers.back()).shift,
             &shift_before = std::get<ScaleShift>(m.layers.back()).shift;
  EXPECT_EQ(shift, (std::vector<double>{shift_before[1], shift_before[0]}));
  EXPECT_EQ(r.self_check.size(), 1u);
  try {
    m.restricted_to({"Si", "Na"});
    FAIL();
  } catch (const std::invalid_argument &e) {
    EXPECT_NE(std::string(e.what()).find("no element Na; the model knows: O Si Al"), std::string::npos) << e.what();
  }
}

// The remaining file gives the same results as before for each pair of the kept species.
TEST(Model, restriction_keeps_what_belongs_to_pairs) {
  TinyModelOptions cutoffs = family_options();
  cutoffs.transform = "";
  cutoffs.pair_cutoffs = true;
  for (const TinyModelOptions &o : {family_options(), cutoffs}) {
    const Model m = make_tiny_model(o).model(), r = m.restricted_to({"Al", "O"});
    const int before[2] = {2, 0};
    const auto expect_same = [&](const RadialFunction &f, const RadialFunction &old) {
      std::vector<double> a(f.num_outputs()), b(f.num_outputs());
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          f.for_pair(i, j).derivatives(1.9, 0, 1, a.data());
          old.for_pair(before[i], before[j]).derivatives(1.9, 0, 1, b.data());
          EXPECT_EQ(a, b) << i << j;
        }
      EXPECT_EQ(f.sender.rows, 2);
    };
    expect_same(first_layer<Convolution>(r).radial, first_layer<Convolution>(m).radial);
    expect_same(first_layer<DensityNormalization>(r).density, first_layer<DensityNormalization>(m).density);
    if (o.pair_cutoffs) {
      EXPECT_EQ(r.pair_cutoff.rows, 2);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) EXPECT_EQ(r.pair_cutoff(i, j), m.pair_cutoff(before[i], before[j]));
    } else {
      EXPECT_TRUE(r.pair_cutoff.data.empty());
    }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        EXPECT_EQ(first_layer<PairRepulsion>(r).energy(i, j, 1.9, nullptr),
                  first_layer<PairRepulsion>(m).energy(before[i], before[j], 1.9, nullptr));
    const ContractionProduct &after = first_layer<SymmetricContraction>(r).product,
                             &old = first_layer<SymmetricContraction>(m).product;
    ASSERT_EQ(after.terms.size(), old.terms.size());
    for (size_t t = 0; t < after.terms.size(); ++t) {
      ASSERT_EQ(after.terms[t].weight.size(), 2u);
      for (int s = 0; s < 2; ++s) EXPECT_EQ(after.terms[t].weight[s].data, old.terms[t].weight[before[s]].data);
    }
  }
  TinyModelOptions common = family_options();
  common.contraction_per_species = false;
  const Model m = make_tiny_model(common).model().restricted_to({"Si"});
  EXPECT_EQ(first_layer<SymmetricContraction>(m).product.terms[0].weight.size(), 1u);
}

TEST(ModelBuilder, makes_readable_models_of_many_kinds) {
  for (int lmax = 0; lmax <= 4; ++lmax)
    for (bool parity : {false, true})
      for (bool has_extras : {false, true}) {
        TinyModelOptions o;
        o.lmax_edge = lmax;
        o.parity = parity;
        o.hidden = {parity ? "13x0e+5x1o+33x2e" : "13x0e+5x1e+33x2e", "5x0e"};
        if (lmax == 0) o.hidden = {"13x0e", "5x0e"};
        o.biases = o.per_species_linear = o.r_power = has_extras;
        o.xplor = !has_extras;
        EXPECT_EQ(make_tiny_model(o).model().num_convolutions(), 2) << lmax << parity;
      }
}
