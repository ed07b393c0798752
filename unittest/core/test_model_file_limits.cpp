// SPDX-License-Identifier: MIT
// Limits on the work of the reader of a small file: sizes that overflow, work without end, hidden text, damage to the
// numbers.
#include "src/base/model_limits.h"
#include "src/model/model_file.h"
#include "unittest/support/expect_refusal.h"
#include "unittest/support/model_builder.h"

#include <gtest/gtest.h>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

using namespace equi;
using namespace equi::testing;

namespace {

// A refusal or a reading takes much less even on a busy machine; the faults would take minutes.
constexpr double SECONDS = 10.0;

void expect_quickly(const std::function<void()> &f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), SECONDS);
}

void expect_quick_refusal(const ModelDocument &d, const std::vector<std::string> &parts) {
  const std::string bytes = d.bytes();
  expect_quickly([&] { expect_refusal(bytes, parts); });
}

TinyModelOptions small_options() {
  TinyModelOptions o;
  o.hidden = {"2x0e+2x1e", "2x0e"};
  return o;
}

// Replaces the value at a path of the document of small_options(), and expects a refusal with a message about a field.
void expect_refused_value(const std::string &pointer, const Json &value, const std::vector<std::string> &parts,
                          const TinyModelOptions &options = small_options()) {
  ModelDocument d = make_tiny_model(options);
  d.model();
  d.document[Json::json_pointer(pointer)] = value;
  expect_quick_refusal(d, parts);
}

// An embedding of this many channels; layers follow.
ModelDocument embedding(int channels) {
  ModelDocument d = make_tiny_model(small_options());
  d.document["layers"] = Json::array();
  d.tensors.clear();
  d.tensors["wave_numbers"] = {{1}, {1.0}, true};
  d.tensors["embedding"] = {{2, channels}, std::vector<double>(2 * static_cast<size_t>(channels), 0.5), false};
  d.document["layers"].push_back({{"type", "species_embedding"},
                                  {"output", "x0"},
                                  {"irreps", std::to_string(channels) + "x0e"},
                                  {"weight", "embedding"},
                                  {"scale", 1.0}});
  return d;
}

// A convolution of scalars on an embedding of `in` channels with one uvw path to `out` channels. The radial network has
// a matrix of `columns`.
ModelDocument scalar_convolution(int in, const std::string &out, int columns) {
  ModelDocument d = embedding(in);
  d.tensors["w"] = {{1, columns}, std::vector<double>(columns, 0.5), false};
  d.document["layers"].push_back(
      {{"type", "convolution"},
       {"input", "x0"},
       {"irreps_in", std::to_string(in) + "x0e"},
       {"output", "x1"},
       {"irreps_out", out},
       {"paths", {{{"in", 0}, {"l", 0}, {"out", 0}, {"scale", 1.0}, {"connection", "uvw"}}}},
       {"radial", {{"weights", {"w"}}, {"scales", {1.0}}, {"activation", "identity"}, {"activation_scale", 1.0}}}});
  return d;
}

std::string repeated(const std::string &part, int num) {
  std::string text = part;
  for (int k = 1; k < num; ++k) text += "+" + part;
  return text;
}

// A layer after a linear layer that makes blocks of these irreps from an embedding.
ModelDocument layer_on(const std::string &irreps, Json layer) {
  ModelDocument d = embedding(16);
  d.document["layers"].push_back({{"type", "linear"},
                                  {"input", "x0"},
                                  {"irreps_in", "16x0e"},
                                  {"output", "x1"},
                                  {"irreps_out", irreps},
                                  {"blocks", Json::array()}});
  layer["input"] = "x1";
  layer["irreps_in"] = irreps;
  layer["output"] = "x2";
  if (!layer.contains("irreps_out")) layer["irreps_out"] = irreps;
  d.document["layers"].push_back(layer);
  return d;
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  const size_t at = text.find(what);
  if (at == std::string::npos) throw std::logic_error("the header has no " + what);
  return text.replace(at, what.size(), by);
}

}    // namespace

// ---- sizes ----

TEST(ModelFileLimits, products_of_channels_do_not_overflow) {
  // 65536 * 65536 and 46341 * 46341 are 0 and negative in 32 bits; a shape of -1 once meant any length.
  for (const int mul : {65535, 65536, 46341})
    expect_quick_refusal(scalar_convolution(mul, std::to_string(mul) + "x0e", 1000),
                         {"layers[1].paths: path 0: ", "weights"});
  expect_quick_refusal(scalar_convolution(65536, "65537x0e", 65536), {"layers[1].irreps_out", "65537x0e", "channels"});
  expect_quick_refusal(scalar_convolution(100, "100x0e", 9999),
                       {"layers[1].radial.weights[0]", "[1, 10000]", "[1, 9999]"});
  EXPECT_EQ(TensorProduct({Irreps::parse("65536x0e"), Irreps::parse("65536x0e"), 0, {{0, 0, 0, 1.0, Connection::uvw}}})
                .num_weights(),
            int64_t(1) << 32);
}

TEST(ModelFileLimits, weights_are_bounded_in_all_convolutions_together) {
  ModelDocument d = scalar_convolution(300, "300x0e", 90000);
  for (int k = 1; k < 4; ++k) {
    Json layer = d.document["layers"][1];
    layer["input"] = "x" + std::to_string(k);
    layer["output"] = "x" + std::to_string(k + 1);
    d.document["layers"].push_back(layer);
  }
  expect_quick_refusal(d, {"layers[3].paths", "weights in all", "270000"});
}

TEST(ModelFileLimits, irreps_are_bounded) {
  for (const char *text : {"65537x0e", "99999999999999999999999x0e", "2147483648x0e"})
    expect_refused_value("/layers/0/irreps", text, {"layers[0].irreps", "channels"});
  expect_refused_value("/layers/0/irreps", "1x99999999999999999999e", {"layers[0].irreps", "too large"});
  expect_refused_value("/layers/0/irreps", repeated("40000x8e", 30), {"layers[0].irreps", "components"});
  expect_refused_value("/layers/0/irreps", repeated("1x0e", 1000000), {"layers[0].irreps", "2048 blocks"});
}

// The reader refuses what the kernels of a back end cannot hold.
TEST(ModelFileLimits, layers_are_bounded_by_what_the_back_ends_hold) {
  const std::string nine = repeated("1x0e", 9);
  const std::vector<std::string> too_many = {"layers[2].irreps_in", "at most 8 blocks", "found 9"};
  expect_quick_refusal(layer_on(nine, {{"type", "norm_scale"}, {"offset", 1.0}, {"factor", 1.0}}), too_many);
  const Json group = {{"blocks", {0}}, {"weights", {1.0}}, {"center", false}};
  expect_quick_refusal(
      layer_on(nine, {{"type", "spherical_norm"}, {"groups", {group}}, {"epsilon", 1.0}, {"scale", "s"}}), too_many);

  const Json contraction = {{"type", "symmetric_contraction"}, {"per_species", false}, {"blocks", Json::array()}};
  expect_quick_refusal(layer_on(repeated("1x0e", 25), contraction), {"irreps_in", "at most 24 blocks", "found 25"});
  expect_quick_refusal(layer_on(repeated("1x8e", 4), contraction), {"irreps_in", "64 components", "and 68"});
  Json product = {{"type", "node_product"}, {"inputs", {"x1"}}, {"irreps_out", "1x0e"}};
  product["paths"] = {{{"in", {0}}, {"out", 0}, {"scale", 1.0}}};
  ModelDocument of_nodes = layer_on(repeated("1x0e", 25), product);
  Json &layer = of_nodes.document["layers"][2];
  layer["irreps_in"] = Json::array({layer["irreps_in"]});
  layer.erase("input");
  expect_quick_refusal(of_nodes, {"irreps_in", "at most 24 blocks", "found 25"});

  ModelDocument convolution =
      layer_on(repeated("1x0e+1x1e", 17), scalar_convolution(1, "1x0e", 1).document["layers"][1]);
  convolution.tensors["w"] = {{1, 1}, {0.5}, false};
  expect_quick_refusal(convolution, {"layers[2].irreps_in", "at most 32 runs of blocks", "found 34"});

  ModelDocument readout = embedding(2);
  Json weights = Json::array();
  for (int k = 0; k < 9; ++k) {
    const int cols = k == 8 ? 1 : 2;
    const std::string name = "w" + std::to_string(k);
    readout.tensors[name] = {{2, cols}, std::vector<double>(2 * cols, 0.5), false};
    weights.push_back(name);
  }
  const Json network = {
      {"weights", weights}, {"scales", std::vector<double>(9, 1.0)}, {"activation", "silu"}, {"activation_scale", 1.0}};
  readout.document["layers"].push_back(
      {{"type", "readout"}, {"input", "x0"}, {"irreps_in", "2x0e"}, {"block", 0}, {"network", network}});
  expect_quick_refusal(readout, {"layers[1].network.weights", "at most 8 matrices", "found 9"});
}

TEST(ModelFileLimits, features_are_bounded_together) {
  ModelDocument d = embedding(16);
  const std::string blocks = repeated("1x0e", 2000);
  for (int k = 0; k < 200; ++k)
    d.document["layers"].push_back({{"type", "linear"},
                                    {"input", "x0"},
                                    {"irreps_in", "16x0e"},
                                    {"output", "y" + std::to_string(k)},
                                    {"irreps_out", blocks},
                                    {"blocks", Json::array()}});
  expect_quick_refusal(d, {"irreps_out", "components in all"});
}

TEST(ModelFileLimits, lengths_of_tensors_are_positive) {
  ModelDocument d = make_tiny_model(small_options());
  d.tensors["wave_numbers"] = {{0}, {}, true};
  expect_quick_refusal(d, {"radial_basis.wave_numbers", "shape [n], found [0]"});
  d = make_tiny_model(small_options());
  d.tensors["radial0.w0"] = {{4, 0}, {}, true};
  expect_quick_refusal(d, {"radial.weights[0]", "[4, n]", "[4, 0]"});
}

// ---- work and memory ----

TEST(ModelFileLimits, nesting_is_bounded_in_header_and_document) {
  for (const char *open : {"[", "{\"\":"}) {
    std::string nested;
    for (int k = 0; k < 2000000; ++k) nested += open;
    expect_quickly([&] {
      expect_refusal(ModelDocument::container("{\"a\":" + nested, ""), {"header", "nested"});
      const Json inner = "{\"format\":" + nested;
      expect_refusal(ModelDocument::container("{\"__metadata__\":{\"equi\":" + inner.dump() + "}}", ""),
                     {"__metadata__.equi", "nested", "format"});
    });
  }
}

TEST(ModelFileLimits, the_header_is_bounded) {
  std::string bytes = ModelDocument::container("{}", "");
  for (const uint64_t length : {MAX_HEADER_BYTES + 1, uint64_t(1) << 63, ~uint64_t(0)}) {
    std::memcpy(&bytes[0], &length, 8);
    expect_refusal(bytes, {"header", "at most", std::to_string(length)});
  }
}

TEST(ModelFileLimits, lists_are_bounded) {
  ModelDocument d = make_tiny_model(small_options());
  const Json layer = d.document["layers"][0];
  for (int k = 0; k < 5000; ++k) d.document["layers"].push_back(layer);
  expect_quick_refusal(d, {"layers: expected", "1 to 1024"});

  expect_refused_value("/elements", std::vector<std::string>(50000, "H"), {"elements", "1 to 118"});
  expect_refused_value("/layers/3/paths", Json::array(), {"layers[3].paths", "1 to 4096"});
  const Json path = make_tiny_model(small_options()).document["layers"][3]["paths"][0];
  expect_refused_value("/layers/3/paths", std::vector<Json>(20000, path), {"layers[3].paths", "1 to 4096", "20000"});
  for (const char *key : {"weights", "scales"})
    expect_refused_value(std::string("/layers/3/radial/") + key, std::vector<Json>(100000, 1.0),
                         {"layers[3].radial." + std::string(key), "an array of"});
  Json many;
  for (int k = 0; k < 1000; ++k) many["key" + std::to_string(k)] = "text";
  expect_refused_value("/provenance", many, {"provenance", "64 entries"});
  const Json structure = {{"name", "atom"},           {"symbols", {"Na"}}, {"pbc", {false, false, false}},
                          {"positions", {{0, 0, 0}}}, {"energy", 0},       {"forces", {{0, 0, 0}}}};
  expect_refused_value("/self_check", std::vector<Json>(20000, structure), {"self_check", "0 to 64"});
}

// A product of matrices in memory connects whole runs of blocks.
TEST(ModelFileLimits, linear_layers_between_many_blocks_are_bounded) {
  for (const bool per_species : {false, true}) {
    ModelDocument d = make_tiny_model(small_options());
    d.document["layers"] = Json::array();
    d.tensors.clear();
    d.tensors["wave_numbers"] = {{1}, {1.0}, true};
    d.tensors["embedding"] = {{2, 1}, {0.5, 0.5}, true};
    d.tensors["w"] = {{1, 1}, {0.5}, true};
    if (per_species) d.tensors["w"] = {{2, 1, 1}, {0.5, 0.5}, true};
    d.document["layers"].push_back(
        {{"type", "species_embedding"}, {"output", "x0"}, {"irreps", "1x0e"}, {"weight", "embedding"}, {"scale", 1.0}});
    const auto add = [&](const std::string &input, int in, const std::string &output, int out, int entries) {
      Json blocks = Json::array();
      for (int k = 0; k < entries; ++k)
        blocks.push_back({{"in", k % in}, {"out", k / in % out}, {"weight", "w"}, {"scale", 1.0}});
      d.document["layers"].push_back({{"type", "linear"},
                                      {"input", input},
                                      {"irreps_in", repeated("1x0e", in)},
                                      {"output", output},
                                      {"irreps_out", repeated("1x0e", out)},
                                      {"per_species", per_species},
                                      {"blocks", blocks}});
    };
    add("x0", 1, "x1", 2000, 1);
    add("x1", 2000, "x2", 2000, 30000);
    expect_quick_refusal(d, {"layers[2].blocks[0]", "layout of the kernels"});
  }
}

// A tensor of a hundred thousand numbers, named by thousands of layers.
TEST(ModelFileLimits, tensors_are_read_a_few_times_at_most) {
  ModelDocument d = embedding(320);
  d.tensors["w"] = {{320, 320}, std::vector<double>(320 * 320, 0.5), false};
  for (int k = 0; k < 1000; ++k)
    d.document["layers"].push_back({{"type", "linear"},
                                    {"input", "x" + std::to_string(k)},
                                    {"irreps_in", "320x0e"},
                                    {"output", "x" + std::to_string(k + 1)},
                                    {"irreps_out", "320x0e"},
                                    {"blocks", {{{"in", 0}, {"out", 0}, {"weight", "w"}, {"scale", 1.0}}}}});
  expect_quick_refusal(d, {"blocks[0].weight", "a few times at most"});
}

TEST(ModelFileLimits, networks_are_bounded) {
  ModelDocument d = make_tiny_model(small_options());
  d.tensors["radial0.w0"] = {{4, 5000}, std::vector<double>(20000, 0.5), false};
  expect_quick_refusal(d, {"layers[3].radial.weights[0]", "at most 4096 columns"});

  d = make_tiny_model(small_options());
  d.tensors["rows"] = {{2, 5000}, std::vector<double>(10000, 0.5), false};
  d.document["layers"][3]["radial"]["sender"] = "rows";
  expect_quick_refusal(d, {"layers[3].radial.sender", "at most 4096 columns"});

  d = make_tiny_model(small_options());
  d.tensors["wave_numbers"] = {{2100}, std::vector<double>(2100, 0.5), false};
  expect_quick_refusal(d, {"radial_basis.wave_numbers", "at most 2048 numbers", "2100"});

  // Matrices without an activation between them become one, which may be larger than all of them.
  d = scalar_convolution(256, "256x0e", 1);
  d.tensors["wave_numbers"] = {{256}, std::vector<double>(256, 0.5), false};
  d.tensors["w"] = {{256, 1}, std::vector<double>(256, 0.5), false};
  d.tensors["v"] = {{1, 65536}, std::vector<double>(65536, 0.5), false};
  Json &radial = d.document["layers"][1]["radial"];
  radial["weights"] = {"w", "v"};
  radial["scales"] = {1.0, 1.0};
  const Json convolution = d.document["layers"][1];
  for (int k = 1; k < 4; ++k) {
    d.document["layers"].push_back(convolution);
    d.document["layers"].back()["input"] = "x" + std::to_string(k);
    d.document["layers"].back()["output"] = "x" + std::to_string(k + 1);
  }
  expect_quick_refusal(d, {"layers[3].radial.weights[1]", "layout of the kernels"});
}

TEST(ModelFileLimits, lengths_and_steepness_are_bounded) {
  for (const double cutoff : {1e5, 51.0, 0.05, 1e-300, 1e300}) expect_refused_value("/cutoff", cutoff, {"cutoff"});
  expect_refused_value("/radial_basis/prefactor", 1e35, {"radial_basis.prefactor", "magnitude"});
  for (const double k : {1e300, -1e9, 251.0}) {
    ModelDocument d = make_tiny_model(small_options());
    d.tensors["wave_numbers"].values[1] = k;
    expect_quick_refusal(d, {"radial_basis.wave_numbers", "magnitudes"});
  }
  TinyModelOptions soft = small_options();
  soft.basis = "gaussian";
  soft.xplor = false;
  soft.transform = "soft";
  for (const double bad : {1e6, -1e6}) {
    expect_refused_value("/radial_basis/transform/alpha", bad, {"radial_basis.transform.alpha"}, soft);
    expect_refused_value("/radial_basis/width", bad, {"radial_basis.width"}, soft);
    expect_refused_value("/radial_basis/width", 1.0 / bad, {"radial_basis.width"}, soft);
  }
  for (const double bad : {1e-300, 1e20}) {
    ModelDocument d = make_tiny_model(soft);
    d.tensors["r0"].values[1] = bad;
    expect_quick_refusal(d, {"radial_basis.transform.r0", "numbers from"});
  }
  TinyModelOptions repulsion = small_options();
  repulsion.repulsion_inside = true;
  for (const char *name : {"inside.length", "inside.cutoff"})
    for (const double bad : {1e-300, 1e20}) {
      ModelDocument d = make_tiny_model(repulsion);
      d.tensors[name].values[1] = bad;
      expect_quick_refusal(d, {name, "numbers from"});
    }
}

TEST(ModelFileLimits, numbers_fit_into_float32) {
  for (const double bad : {1e31, -1e300}) {
    ModelDocument d = make_tiny_model(small_options());
    d.tensors["shift"].values[1] = bad;
    expect_quick_refusal(d, {"shift", "magnitudes up to 1e+30", "at index 1"});
    expect_refused_value("/layers/0/scale", bad, {"layers[0].scale", "magnitude"});
    // A product of two that are not too large.
    d = make_tiny_model(small_options());
    d.tensors["embedding"].values[1] = std::copysign(1e20, bad);
    d.document["layers"][0]["scale"] = 1e20;
    expect_quick_refusal(d, {"layers[0].weight", "magnitudes up to 1e+30"});
  }
}

TEST(ModelFileLimits, self_checks_are_bounded) {
  const auto structure = [](double edge, size_t atoms) {
    Json positions = Json::array(), forces = Json::array();
    for (size_t k = 0; k < atoms; ++k) {
      positions.push_back({0.1 * static_cast<double>(k), 0, 0});
      forces.push_back({0, 0, 0});
    }
    return Json{{"name", "cell"},
                {"symbols", std::vector<std::string>(atoms, "Na")},
                {"cell", {{edge, 0, 0}, {0, edge, 0}, {0, 0, edge}}},
                {"pbc", {true, true, true}},
                {"positions", positions},
                {"energy", 0.0},
                {"forces", forces}};
  };
  const auto expect = [](const Json &s, const std::vector<std::string> &parts) {
    expect_refused_value("/self_check", Json::array({s}), parts);
  };
  expect(structure(0.05, 1), {"self_check[0]", "pairs of atoms within the cutoff"});
  expect(structure(1e-5, 1), {"self_check[0]"});
  expect(structure(4.0, 900), {"self_check[0]", "pairs of atoms within the cutoff"});
  expect(structure(4.0, 2000), {"self_check[0].symbols", "1 to 1024"});
  for (const double bad : {1e6, -1e30}) {
    Json s = structure(4.0, 1);
    s["positions"][0][1] = bad;
    expect(s, {"self_check[0].positions[0][1]"});
    s = structure(4.0, 1);
    s["cell"][1][1] = bad;
    expect(s, {"self_check[0].cell[1][1]"});
  }
  // Two parallel vectors, and a cell so thin that images of atoms inside lie billions of cells away.
  Json s = structure(4.0, 1);
  s["cell"] = {{4, 0, 0}, {8, 0, 0}, {0, 0, 4}};
  expect(s, {"self_check[0]", "cell"});
  s["cell"] = {{4, 0, 0}, {4, 1e-6, 0}, {0, 0, 4}};
  s["positions"][0] = {0, 1e4, 0};
  expect(s, {"self_check[0]"});
  // Each is cheap, but a list of them is not.
  expect_refused_value("/self_check", std::vector<Json>(60, structure(1.0, 10)),
                       {"self_check[", "pairs of atoms within the cutoff"});

  TinyModelOptions o = small_options();
  o.elements = {"H", "He", "Li", "Be", "B", "C", "N", "O", "F", "Ne", "Na", "Mg", "Al", "Si", "P", "S", "Cl"};
  Json all = structure(40.0, o.elements.size());
  all["symbols"] = o.elements;
  expect_refused_value("/self_check", Json::array({all}), {"self_check[0].symbols", "at most 16 elements", "17"}, o);
}

// ---- containers ----

TEST(ModelFileLimits, tensors_lie_without_gaps_and_overlaps) {
  const ModelDocument d = make_tiny_model(small_options());
  const Json header = d.header();
  const std::string name = "radial0.w1", pointer = "/radial0.w1/data_offsets/";
  const int64_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
  for (const int64_t shift : {-8, -4, 4, 8}) {
    Json moved = header;
    moved[name]["data_offsets"] = {begin + shift, end + shift};
    expect_refusal(ModelDocument::container(moved.dump(), d.data()), {"data_offsets", "where the tensor before ends"});
    moved = header;
    moved[name]["shape"][0] = header[name]["shape"][0].get<int64_t>() + shift;
    expect_refusal(ModelDocument::container(moved.dump(), d.data()), {"tensor radial0.w1.data_offsets"});
  }
  for (const Json &shape : {Json{2147483647, 2147483647, 0}, Json{0, 2147483647, 2147483647}, Json{4294967296u, 0}}) {
    Json other = header;
    other[name]["shape"] = shape;
    expect_refusal(ModelDocument::container(other.dump(), d.data()), {"tensor radial0.w1"});
  }
  Json other = header;
  other[name]["dtype"] = "F32";    // the bytes are those of F64
  expect_refusal(ModelDocument::container(other.dump(), d.data()), {"tensor radial0.w1.data_offsets"});
  other = header;
  other[name]["strides"] = {1, 2};
  expect_refusal(ModelDocument::container(other.dump(), d.data()), {"tensor radial0.w1", "\"strides\""});
}

// ---- keys ----

TEST(ModelFileLimits, keys_are_given_once) {
  const ModelDocument d = make_tiny_model(small_options());
  const std::string header = d.header().dump();
  for (const auto &[what, by, place] :
       {std::array<std::string, 3>{"\"scale\":{", "\"shift\":{},\"scale\":{", "shift again"},
        {"\"dtype\":\"F64\"", "\"dtype\":\"F32\",\"dtype\":\"F64\"", "dtype again"},
        {"{\"__metadata__\":{", "{\"__metadata__\":{\"equi\":\"\",", "__metadata__.equi again"}})
    expect_refusal(ModelDocument::container(replaced(header, what, by), d.data()), {"header", "once", place});

  // A key occurs twice in the document, at every depth; another reader might use the second one.
  Json h = d.header();
  const std::string document = h["__metadata__"]["equi"];
  for (const auto &[what, by, place] :
       {std::array<std::string, 3>{"\"cutoff\":4.0", "\"cutoff\":4.0,\"cutoff\":5.0", "found cutoff again"},
        {"\"energy\":\"eV\"", "\"energy\":\"eV\",\"energy\":\"eV\"", "units.energy again"},
        {"\"type\":\"convolution\"", "\"type\":\"convolution\",\"type\":\"gate\"", "layers[3].type again"},
        {"\"r_on\":3.5", "\"r_on\":3.5,\"r_\\u006fn\":3.6", "radial_basis.cutoff_function.r_on again"}}) {
    h["__metadata__"]["equi"] = replaced(document, what, by);
    expect_refusal(ModelDocument::container(h.dump(), d.data()), {"__metadata__.equi", "once", place});
  }
}

TEST(ModelFileLimits, unknown_keys_are_named) {
  for (const auto &[pointer, field] : {std::pair<const char *, const char *>{"/comment", "document"},
                                       {"/Cutoff", "document"},
                                       {"/framework/build", "framework"},
                                       {"/units/charge", "units"}})
    expect_refused_value(pointer, 1,
                         {field, "only the fields", std::string(pointer).substr(std::string(pointer).rfind('/') + 1)});
  const Json structure = {{"name", "atom"}, {"symbols", {"Na"}}, {"pbc", {false, false, false}}, {"energie", 1}};
  expect_refused_value("/self_check", Json::array({structure}), {"self_check[0]", "energie"});
}

// ---- hash and versions ----

TEST(ModelFileLimits, every_damaged_number_is_found) {
  const ModelDocument d = make_tiny_model(small_options());
  const std::string good = d.bytes();
  const size_t first = good.size() - d.data().size();
  for (size_t at = first; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);    // the smallest change: most such numbers look valid
    expect_refusal(bad, {"data_hash", "expected", "found data with \"xxh3_128:"});
  }
}

TEST(ModelFileLimits, the_hash_is_that_of_the_library) {
  // Values of XXH3's reference implementation (Python's xxhash.xxh3_128_hexdigest).
  EXPECT_EQ(data_hash("", 0), "xxh3_128:99aa06d3014798d86001c324468d497f");
  std::string bytes;
  for (int k = 0; k < 1000; ++k) bytes += static_cast<char>(k % 251);
  EXPECT_EQ(data_hash(bytes.data(), bytes.size()), "xxh3_128:18bf41bc8229e27733ef703fb2b20ed1");
}

TEST(ModelFileLimits, version_3_needs_its_hash_and_earlier_ones_have_none) {
  ModelDocument d = make_tiny_model(small_options());
  EXPECT_TRUE(d.model().notes.empty());
  for (const Json &bad : {Json("xxh3_128:00"), Json("sha256:"), Json(5), Json(nullptr)}) {
    d.document["data_hash"] = bad;
    expect_refusal(d.bytes(), {"data_hash", "expected"});
  }
  Json h = make_tiny_model(small_options()).header();
  Json document = Json::parse(h["__metadata__"]["equi"].get<std::string>());
  document.erase("data_hash");
  h["__metadata__"]["equi"] = document.dump();
  expect_refusal(ModelDocument::container(h.dump(), d.data()), {"data_hash", "expected this field"});

  for (const int version : {1, 2}) {
    d = make_tiny_model(small_options());
    d.document["format_version"] = version;
    const Model m = d.model();
    ASSERT_EQ(m.notes.size(), 1u);
    EXPECT_NE(m.notes[0].find("format version " + std::to_string(version)), std::string::npos) << m.notes[0];
    EXPECT_NE(m.notes[0].find("without a hash"), std::string::npos) << m.notes[0];
    d.document["data_hash"] = "xxh3_128:00";
    expect_refusal(d.bytes(), {"document", "data_hash"});
  }
}

// Made with ModelDocument::write from models of make_tiny_model; that of version 2 has a radial network that reads
// features, which version 1 did not know.
TEST(ModelFileLimits, files_of_earlier_versions_are_read) {
  for (const int version : {1, 2}) {
    const Model m = read_model(EQUI_GOLDEN_DIR "/model-version-" + std::to_string(version) + ".equi");
    ASSERT_EQ(m.notes.size(), 1u);
    EXPECT_NE(m.notes[0].find("format version " + std::to_string(version)), std::string::npos);
    ASSERT_EQ(m.layers.size(), 13u);
    EXPECT_FLOAT_EQ(std::get<SpeciesEmbedding>(m.layers[0]).weight.data.front(), -0.38683176f);
    EXPECT_FLOAT_EQ(std::get<SpeciesEmbedding>(m.layers[0]).weight.data.back(), -0.858812094f);
    EXPECT_EQ(std::get<Convolution>(m.layers[3]).radial.reads_features(), version == 2);
  }
}

// ---- texts ----

TEST(ModelFileLimits, texts_of_the_file_are_printable) {
  const std::string escape = "\x1b[31mevil\nPair style equi: forged \u202egnp",
                    shown = "\\x1b[31mevil\\nPair style equi: forged \\u{202e}gnp";
  ModelDocument d = make_tiny_model(small_options());
  d.document["architecture"] = escape;
  d.document["framework"] = {{"name", escape}, {"version", escape}};
  d.document["provenance"] = {{"licence", escape}, {escape, std::string(100000, 'x')}};
  const Model m = parse_model(d.bytes(), "a\x1b.equi");
  EXPECT_EQ(m.file, "a\\x1b.equi");
  EXPECT_EQ(m.architecture, shown);
  EXPECT_EQ(m.framework, shown);
  EXPECT_EQ(m.framework_version, shown);
  EXPECT_EQ(m.provenance.at("licence"), shown);
  for (const auto &[key, text] : m.provenance) {
    EXPECT_EQ(key, printable(key));
    EXPECT_LT(text.size(), 1100u);
  }
}

// All parts of a file that an error may show: names, keys, values, and quotations by the JSON library.
TEST(ModelFileLimits, errors_are_printable_and_bounded) {
  const std::string evil = "\x1b]0;x\x07\nERROR: \u202e" + std::string(100000, 'y');
  const ModelDocument good = make_tiny_model(small_options());
  std::vector<std::string> files;
  const auto with = [&](const std::function<void(ModelDocument &)> &damage) {
    ModelDocument d = good;
    damage(d);
    files.push_back(d.bytes());
  };
  with([&](ModelDocument &d) { d.tensors[evil] = {{1}, {1.0}, true}; });
  with([&](ModelDocument &d) { d.tensors["scale"].values[0] = NAN; });
  for (const char *pointer : {"/format", "/elements/0", "/units/energy", "/data_hash", "/layers/0/type",
                              "/layers/0/weight", "/layers/0/irreps", "/layers/1/input", "/layers/1/irreps_out",
                              "/layers/3/radial/activation", "/radial_basis/kind", "/radial_basis/wave_numbers",
                              "/radial_basis/cutoff_function/kind", "/layers/3/paths/0/connection"})
    with([&](ModelDocument &d) { d.document[Json::json_pointer(pointer)] = evil; });
  with([&](ModelDocument &d) { d.document[evil] = 1; });
  with([&](ModelDocument &d) { d.document["layers"][0][evil] = 1; });
  with([&](ModelDocument &d) { d.document["provenance"][evil] = 1; });
  const Json header = good.header();
  for (const char *tensor : {"scale", "__metadata__"}) {
    Json h = header;
    h[tensor][evil] = 1;
    files.push_back(ModelDocument::container(h.dump(), good.data()));
  }
  const std::string quoted = Json(evil).dump();
  files.push_back(ModelDocument::container("{" + quoted + ":1," + quoted + ":1}", ""));
  files.push_back(ModelDocument::container("{\"\xff\x1b" + evil, ""));
  files.push_back(ModelDocument::container("{\"__metadata__\":{\"equi\":" + quoted + "}}", ""));
  for (const std::string &bytes : files) {
    try {
      parse_model(bytes, "name\x1b\n.equi");
      ADD_FAILURE() << "accepted";
    } catch (const ModelFileError &e) {
      const std::string message = e.what();
      EXPECT_EQ(message.rfind("name\\x1b\\n.equi: ", 0), 0u) << message;
      EXPECT_EQ(message, printable(message, message.size()));
      EXPECT_LT(message.size(), 1100u);
    }
  }
}

TEST(ModelFileLimits, only_files_are_read) {
  for (const char *path : {"/dev/zero", "/", "/no/such/file.equi"}) {
    try {
      read_file_bytes(path);
      ADD_FAILURE() << path << " was read";
    } catch (const ModelFileError &e) {
      EXPECT_EQ(std::string(e.what()).find(std::string(path) + ": expected a model file"), 0u) << e.what();
    }
  }
}
