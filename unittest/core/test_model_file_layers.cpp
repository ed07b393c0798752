// SPDX-License-Identifier: MIT
// The reader of .equi files: layers in general, and those of atoms' own features.
#include "src/model/model_file.h"
#include "unittest/support/model_documents.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

using namespace equi;
using namespace equi::testing;

TEST(ModelFile, reads_the_layers_of_mace) {
  ModelDocument d = make_tiny_model(family_options());
  const Model m = d.model();
  const auto &density = first_layer<DensityNormalization>(m);
  EXPECT_EQ(density.offset, 0.8);
  EXPECT_EQ(density.factor, 0.3);
  EXPECT_EQ(density.density.output, RadialFunction::Output::tanh_square);
  EXPECT_EQ(density.density.num_outputs(), 1);
  EXPECT_TRUE(density.density.times_cutoff);

  const ContractionProduct &product = first_layer<SymmetricContraction>(m).product;
  EXPECT_TRUE(product.per_species);
  const Json &term = layer(d, find_layer(d, "symmetric_contraction"))["blocks"][1]["terms"][2];
  const auto found = std::find_if(product.terms.begin(), product.terms.end(),
                                  [](const ContractionTerm &t) { return t.out == 1 && t.degree == 3; });
  ASSERT_NE(found, product.terms.end());
  const DocumentTensor &coupling = d.tensors.at(term["coupling"]), &weight = d.tensors.at(term["weight"]);
  ASSERT_EQ(found->entries.size(), static_cast<size_t>(coupling.shape[0]));
  EXPECT_EQ(found->entries[4].component, coupling.values[4 * 6]);
  EXPECT_EQ(found->entries[4].path, coupling.values[4 * 6 + 1]);
  for (int n = 0; n < 3; ++n) EXPECT_EQ(found->entries[4].factor[n], coupling.values[4 * 6 + 2 + n]);
  EXPECT_EQ(found->entries[4].coefficient, coupling.values[4 * 6 + 5]);
  ASSERT_EQ(found->weight.size(), 3u);
  EXPECT_EQ(found->num_paths, weight.shape[1]);
  EXPECT_EQ(found->weight[2](0, 3), weight.values[2 * weight.shape[1] * weight.shape[2] + 3]);

  int before = 0, after = 0;
  bool is_after = false;
  for (const Layer &l : m.layers) {
    is_after = is_after || std::holds_alternative<ScaleShift>(l);
    if (std::holds_alternative<PairRepulsion>(l)) ++(is_after ? after : before);
  }
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
  const auto &repulsion = first_layer<PairRepulsion>(m);
  EXPECT_EQ(repulsion.length.data, d.tensors["inside.length"].values);
  EXPECT_EQ(repulsion.exponents, (std::vector<double>{3.2, 0.94, 0.4, 0.2}));
}

TEST(ModelFile, refuses_bad_layer_norms) {
  TinyModelOptions o;
  o.hidden = {"5x0e+3x0e"};
  o.layer_norm = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "layer_norm"))[Json::json_pointer(field)] = value; }, parts);
  };
  refused("/irreps_out", "8x0e", {"irreps_out"});
  refused("/weight", "scale", {"weight", "[8]"});
  refused("/bias", "shift", {"bias", "[8]"});
  // Below the second float32 has no reciprocal.
  for (const double epsilon : {0.0, 1e-31})
    refused("/epsilon", epsilon, {"epsilon", "a positive number of at least 1e-30"});
  refused("/affine", true, {"\"affine\""});
  o.hidden = {"5x0e+3x1e"};
  expect_refusal(make_tiny_model(o).bytes(), {"irreps_in", "0e blocks alone"});
}

TEST(ModelFile, refuses_bad_shares_of_channel_balances) {
  TinyModelOptions o;
  o.hidden = {"5x0e+3x1e", "5x0e"};
  o.balanced_channels = 2;
  o.balance_shares = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o,
        [&](ModelDocument &d) {
          layer(d, find_layer(d, "channel_balance"))[Json::json_pointer(std::string("/shares") + field)] = value;
        },
        parts);
  };
  refused("/block", 1, {"shares.block", "a 0e block"});
  refused("/first", 4, {"shares.first", "1 more after it"});
  refused("/first", 5, {"shares.first"});
  refused("/first", 2, {"shares", "not balanced themselves"});
  refused("/first", 0, {"shares", "not balanced themselves"});
  for (const double epsilon : {0.0, 1e-31}) refused("/epsilon", epsilon, {"shares.epsilon", "at least 1e-30"});
  refused("/power", 2, {"shares.power"});
  refused("/power", 1, {"shares.epsilon", "the weights may have either sign"});
  const Model model = make_tiny_model(o).model();
  const auto balance = std::find_if(model.layers.begin(), model.layers.end(),
                                    [](const Layer &l) { return std::holds_alternative<ChannelBalance>(l); });
  ASSERT_NE(balance, model.layers.end());
  EXPECT_EQ(std::get<ChannelBalance>(*balance).share_first, 3);
  EXPECT_EQ(std::get<ChannelBalance>(*balance).epsilon, 0.05);
}

TEST(ModelFile, reads_hardnesses_of_channel_balances) {
  TinyModelOptions o;
  o.hidden = {"5x0e+3x1e", "5x0e"};
  o.balanced_channels = 2;
  o.balance_hardness = true;
  ModelDocument d = make_tiny_model(o);
  const Model m = d.model();
  const auto &balance = first_layer<ChannelBalance>(m);
  EXPECT_EQ(balance.power, -1);
  EXPECT_EQ(balance.share_first, 3);
  EXPECT_EQ(balance.epsilon, 0.0);
  const std::string place = "/layers/" + std::to_string(find_layer(d, "channel_balance"));
  const auto refused = [&](const std::string &where, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &changed) { changed.document[Json::json_pointer(place + where)] = value; }, parts);
  };
  refused("/hardness/block", 1, {"hardness.block", "a 0e block"});
  refused("/hardness/first", 2, {"hardness", "not balanced themselves"});
  refused("/hardness/epsilon", 0.1, {"\"epsilon\""});
  refused("/shares", {{"block", 0}, {"first", 3}, {"epsilon", 0.05}}, {"hardness", "shares"});
}

TEST(ModelFile, refuses_bad_potentials) {
  TinyModelOptions o;
  o.hidden = {"5x0e+3x1o", "5x0e+3x1o"};
  o.parity = true;
  o.potential_width = 1.0;
  o.potential_dipoles = o.potential_gradients = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "potential"))[Json::json_pointer(field)] = value; }, parts);
  };
  refused("/irreps_out", "5x0e+5x1o", {"irreps_out", "channels for each channel"});
  refused("/irreps_out", "6x0e+5x1o", {"irreps_out", "blocks 0e and 1o of as many channels"});
  refused("/width", 0.0, {"width"});
  refused("/width", -1.0, {"width"});
  refused("/k_cutoff", 0.0, {"k_cutoff"});
  refused("/k_set", "all", {"k_set", "sphere"});
  refused("/factors", "felt0.widths", {"factors", "[2, 3]"});
  refused("/own", "felt0.widths", {"own", "[2, 3]"});
  refused("/self", 1, {"\"self\""});
  const Model model = make_tiny_model(o).model();
  const auto found = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const Layer &l) { return std::holds_alternative<Potential>(l); });
  ASSERT_NE(found, model.layers.end());
  EXPECT_EQ(std::get<Potential>(*found).channels, 2);
  EXPECT_EQ(std::get<Potential>(*found).function.widths.size(), 3U);
}

TEST(ModelFile, refuses_bad_channel_balances) {
  TinyModelOptions o;
  o.hidden = {"5x0e+3x1e", "4x0e"};
  o.balanced_channels = 2;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "channel_balance"))[Json::json_pointer(field)] = value; },
        parts);
  };
  refused("/irreps_out", "5x0e", {"irreps_out"});
  refused("/block", 1, {"block", "a 0e block"});
  refused("/block", 2, {"block"});
  refused("/first", 4, {"target", "1 to 1 channels", "2 numbers"});
  refused("/first", 5, {"first"});
  refused("/target", "scale_of_nothing", {"target"});
  refused("/input", "x0", {"input", "a feature that no other layer reads"});
  refused("/spin", 1, {"\"spin\""});
  // Nothing may be added to what is changed in place, and nothing else may read it.
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &layers = d.document["layers"];
                   const auto balances = [](const Json &l) { return l["type"] == "channel_balance"; };
                   const auto last = std::find_if(layers.rbegin(), layers.rend(), balances);
                   Json added = layers[find_layer(d, "linear")];
                   added["output"] = (*last)["output"];
                   added["accumulate"] = true;
                   layers.insert(last.base(), added);
                 },
                 {"output", "or has changed in place"});
  const auto with = [&](const char *key, const char *from, const char *to) {
    return [=](ModelDocument &d) {
      for (Json &l : d.document["layers"])
        if (l["type"] == "linear" && l[key] == from) {
          l[key] = to;
          return;
        }
      FAIL() << "no linear layer with " << from;
    };
  };
  expect_refusal(o, with("input", "x1", "u1"), {"input", "\"u1\", which a layer has changed in place"});
}

TEST(ModelFile, refuses_bad_node_products_and_scales_by_norms) {
  TinyModelOptions o;
  o.parity = true;
  o.hidden = {"5x0e+5x1o", "5x0e"};
  o.node_product = "pair";
  const auto refused_in = [&](const char *type, const char *field, const Json &value,
                              const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, type))[Json::json_pointer(field)] = value; }, parts);
  };
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    refused_in("node_product", field, value, parts);
  };
  refused("/inputs", Json::array(), {"inputs", "1 to 2 features"});
  refused("/inputs", {"a0", "s0", "z0"}, {"inputs", "1 to 2 features"});
  refused("/inputs", {"a0", "a0"}, {"inputs", "two features", "twice"});
  refused("/inputs/1", "later", {"inputs[1]", "an earlier layer writes"});
  refused("/irreps_in", {"5x0e+5x1o"}, {"irreps_in", "2 irreps"});
  refused("/irreps_in/1", "5x0e", {"irreps_in[1]", "5x0e+5x1o"});
  refused("/irreps_out", "4x0e+5x1o", {"5 channels", "4x0e"});
  refused("/paths", Json::array(), {"paths"});
  refused("/paths/0/in", Json::array(), {"paths[0].in", "1 to 2 blocks"});
  refused("/paths/0/in/0", 4, {"paths[0].in[0]", "4"});
  refused("/paths/0/out", 2, {"paths[0].out", "2"});
  refused("/paths/0/out", 1, {"paths", "path 0", "1x1o"});
  refused("/paths/0/scale", "s", {"paths[0].scale", "a number"});
  refused("/paths/0/weight", "w", {"\"weight\""});
  refused("/accumulate", true, {"\"accumulate\""});
  refused_in("norm_scale", "/irreps_out", "5x0e", {"irreps_out"});
  for (const double offset : {0.0, 1e-31}) refused_in("norm_scale", "/offset", offset, {"offset", "at least 1e-30"});
  refused_in("norm_scale", "/factor", -0.1, {"factor", "a number from 0"});
  refused_in("norm_scale", "/power", 2, {"\"power\""});
  TinyModelOptions uneven = o;
  uneven.hidden = {"5x0e+4x1o", "5x0e"};
  expect_refusal(make_tiny_model(uneven).bytes(), {"irreps_in", "blocks of 5 channels", "4x1o"});
}

TEST(ModelFile, refuses_bad_gaunt_products) {
  TinyModelOptions o;
  o.parity = true;
  o.hidden = {"5x0e+5x1o", "5x0e"};
  o.node_product = "pair";
  o.gaunt = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "node_product"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const Model m = make_tiny_model(o).model();
  EXPECT_EQ(first_layer<NodeProduct>(m).product.paths.size(), 4u);    // 000, 110, 011 and 101
  refused("/paths", Json::array({{{"in", {0}}, {"out", 0}, {"scale", 1.0}}}), {"paths", "paths or gaunt, not both"});
  refused("/gaunt", {{0, 1}}, {"gaunt", "2 functions"});
  refused("/gaunt", "all", {"gaunt", "all"});
  refused("/gaunt/0", Json::array(), {"gaunt[0]", "1 to 9 blocks"});
  refused("/gaunt/1/0", 4, {"gaunt[1][0]", "4"});
  refused("/gaunt/1/0", 1, {"gaunt", "different orders", "the second function", "two of order 1"});
  TinyModelOptions other = o;
  other.hidden = {"5x0e+5x1o+5x1e", "5x0e"};
  expect_refusal(make_tiny_model(other).bytes(), {"gaunt", "different orders"});
  other.hidden = {"5x0e+5x1e", "5x0e"};
  expect_refusal(other,
                 [&](ModelDocument &d) {
                   Json &l = layer(d, find_layer(d, "node_product"));
                   l["irreps_out"] = "5x0o+5x1e";
                 },
                 {"gaunt", "parity", "1x0e+1x0e", "1x0o"});
  expect_refusal(o,
                 [&](ModelDocument &d) {
                   Json &l = layer(d, find_layer(d, "node_product"));
                   l["gaunt"] = {{0}, {2}};
                   l["irreps_out"] = "5x1o";
                 },
                 {"gaunt", "an order of the output"});
}

TEST(ModelFile, refuses_bad_grid_networks) {
  TinyModelOptions o;
  o.hidden = {"5x0e+5x2e", "5x0e"};
  o.biases = true;
  o.grid_rings = 3;
  o.grid_hidden = {7, 9};
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "grid_network"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const Model m = make_tiny_model(o).model();
  const auto &grid = first_layer<GridNetwork>(m);
  EXPECT_EQ(grid.num_points(), 15);
  EXPECT_EQ(grid.to_points.cols, 6);
  EXPECT_EQ(grid.from_points.cols, 6);
  ASSERT_EQ(grid.network.weights.size(), 3u);
  EXPECT_EQ(grid.network.weights[1].cols, 9);
  refused("/points", 0, {"points", "0"});
  refused("/points", 4097, {"points", "4096"});
  refused("/points", 14, {"to", "[14, 6]"});
  refused("/from", "grid0.w0", {"from", "[15, 6]"});
  refused("/network/weights/0", "grid0.w1", {"network.weights[0]", "[5, "});
  refused("/network/weights", {"grid0.w0"}, {"network.scales", "scales, one per weight"});
  refused("/network/activation", "identity", {"network.weights", "two matrices or more"});
  refused("/network/norms", Json::array(), {"\"norms\""});
  refused("/grid", 1, {"\"grid\""});
  TinyModelOptions uneven = o;
  uneven.hidden = {"5x0e+4x1e", "5x0e"};
  expect_refusal(make_tiny_model(uneven).bytes(), {"irreps_in", "blocks of 5 channels", "4x1e"});
  TinyModelOptions large = o;
  large.grid_rings = 40;
  large.grid_hidden = {170};
  expect_refusal(make_tiny_model(large).bytes(), {"points", "524288 numbers of hidden layers", "556160"});
}

TEST(ModelFile, refuses_bad_spherical_norms) {
  TinyModelOptions o;
  o.hidden = {"5x0e+5x1e+5x2e", "5x0e"};
  o.biases = true;
  o.spherical_norm = "first_alone";
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "spherical_norm"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const Model m = make_tiny_model(o).model();
  const auto &norm = first_layer<SphericalNorm>(m);
  ASSERT_EQ(norm.groups.size(), 2u);
  EXPECT_TRUE(norm.groups[0].center);
  EXPECT_EQ(norm.groups[1].blocks, (std::vector<int>{2, 1}));
  EXPECT_EQ(norm.bias.size(), 5u);
  refused("/irreps_out", "5x0e", {"irreps_out"});
  refused("/groups", Json::array(), {"groups", "groups"});
  refused("/groups/0/blocks", {0, 1}, {"groups[0].weights", "weights, one per block"});
  refused("/groups/0/blocks/0", 3, {"groups[0].blocks[0]", "3"});
  refused("/groups/1/blocks/1", 2, {"groups[1].blocks[1]", "each block in one group", "2 again"});
  refused("/groups/1", {{"blocks", {1}}, {"weights", {0.2}}, {"center", false}},
          {"groups", "each block in one group", "none with block 2"});
  refused("/groups/1/weights/0", -0.1, {"groups[1].weights[0]", "a number from 0"});
  refused("/groups/1/center", true, {"groups[1].center", "no 0e block"});
  refused("/groups/1/scale", 1.0, {"\"scale\""});
  for (const double epsilon : {0.0, 1e-31}) refused("/epsilon", epsilon, {"epsilon", "at least 1e-30"});
  refused("/groups/1/weights/0", "scale", {"groups[1].weights[0]", "[5]"});
  refused("/scale", "scale", {"scale", "[3, 5]"});
  refused("/scale", {"scale", "scale"}, {"scale", "3 scales, one per block", "2"});
  refused("/bias", "scale", {"bias", "[5]"});
  refused("/affine", true, {"\"affine\""});
  TinyModelOptions uneven = o;
  uneven.hidden = {"5x0e+4x1e", "5x0e"};
  uneven.channel_weights = true;
  const auto refused_uneven = [&](const auto &change, const std::vector<std::string> &parts) {
    ModelDocument d = make_tiny_model(uneven);
    const Json &norm = layer(d, find_layer(d, "spherical_norm"));
    change(d, layer(d, find_layer(d, "spherical_norm")), norm["groups"][1]["weights"][0].template get<std::string>());
    expect_refusal(d.bytes(), parts);
  };
  refused_uneven([](ModelDocument &, Json &norm, const std::string &) { norm["scale"] = norm["scale"][0]; },
                 {"irreps_in", "blocks of 5 channels", "4x1e"});
  refused_uneven(
      [](ModelDocument &, Json &norm, const std::string &) { std::swap(norm["scale"][0], norm["scale"][1]); },
      {"scale[0]", "[5]", "[4]"});
  refused_uneven([](ModelDocument &d, Json &, const std::string &weights) { d.tensors[weights].values[3] = -0.1; },
                 {"groups[1].weights[0]", "without negative numbers", "-0.1"});
  TinyModelOptions two = o;
  two.hidden = {"5x0e+5x0e+5x1e", "5x0e"};
  expect_refusal(make_tiny_model(two).bytes(), {"bias", "one 0e block"});
}

TEST(ModelFile, refuses_bad_symmetric_contractions) {
  const std::string type = "symmetric_contraction", term = "/blocks/1/terms/2";
  expect_refused_in(type, "/irreps_out", "5x0e+4x1o", {"irreps_out", "5 channels", "4x1o"});
  expect_refused_in(type, "/per_species", false, {"weight", "[n, 5]"});
  expect_refused_in(type, "/blocks/1/out", 0, {"blocks[1].out", "one entry per output block"});
  expect_refused_in(type, "/blocks/1/out", 2, {"blocks[1].out", "0 to 1"});
  expect_refused_in(type, "/blocks/1/weight", "w", {"blocks[1]", "\"weight\""});
  expect_refused_in(type, term + "/degree", 5, {"blocks[1].terms[2].degree", "1 to 4"});
  expect_refused_in(type, term + "/degree", 2, {"blocks[1].terms[2].coupling", "[n, 5]"});
  expect_refused_in(type, term + "/scale", 2, {"blocks[1].terms[2]", "\"scale\""});
  expect_refused_in(type, "/blocks/0/terms/1", Json::object(), {"blocks[0].terms[1].degree"});
  expect_refusal(family_options(),
                 [](ModelDocument &d) {
                   Json &terms = layer(d, find_layer(d, "symmetric_contraction"))["blocks"][1]["terms"];
                   terms.push_back(terms[2]);
                 },
                 {"blocks", "output block and degree belong to an earlier term"});

  // Numbers of the third row of a coupling of the third degree into 1o: component, path, three factors, coefficient.
  const auto expect = [](int column, double value, const std::vector<std::string> &parts) {
    expect_refusal(
        family_options(), [&](ModelDocument &d) { d.tensors["contraction0.1.3.coupling"].values[12 + column] = value; },
        parts);
  };
  for (double bad : {3.0, -1.0, 0.5, 1e20}) expect(0, bad, {"coupling", "a component", "0 to 2", "row 2"});
  for (double bad : {3.0, -1.0, 0.5}) expect(1, bad, {"coupling", "a path", "0 to 2", "row 2"});
  for (double bad : {4.0, -1.0, 1.5}) expect(3, bad, {"coupling", "a factor", "0 to 3", "row 2"});
  expect(5, std::nan(""), {"coupling", "finite"});
  expect_refusal(family_options(),
                 [](ModelDocument &d) {
                   std::vector<double> &v = d.tensors["contraction0.1.3.coupling"].values;
                   std::copy_n(std::vector<double>{0, 0, 3, 0, 0}.begin(), 5, v.begin());
                 },
                 {"coupling", "ascending order", "row 0"});
  // Parity: three scalars are no vector, unless nothing comes of it.
  const auto with_scalars = [](double coefficient) {
    ModelDocument d = make_tiny_model(family_options());
    std::vector<double> &v = d.tensors["contraction0.1.3.coupling"].values;
    std::copy_n(std::vector<double>{0, 0, 0, 0, 0, coefficient}.begin(), 6, v.begin());
    return d;
  };
  expect_refusal(with_scalars(1.0).bytes(), {"coupling", "factors of total parity o in row 0"});
  EXPECT_EQ(with_scalars(0.0).model().num_convolutions(), 2);
}

TEST(ModelFile, refuses_bad_layers) {
  expect_refused_value(at(GATE) + "/type", "attention", {"layers[5].type", "convolution", "attention"});
  expect_refused_value("/layers", Json::array(), {"layers"});
  expect_refused_value("/layers", "none", {"layers", "an array"});
  expect_refused_value(at(LIN1), 3, {"layers[2]", "an object"});
  expect_refused_value(at(LIN1) + "/acumulate", true, {"layers[2]", "acumulate"});
  expect_refused_value(at(LIN1) + "/input", "later", {"layers[2].input", "an earlier layer writes", "later"});
  expect_refused_value(at(LIN1) + "/output", "x0", {"layers[2].output", "no earlier layer"});
  expect_refused_value(at(LIN1) + "/irreps_in", "12x0e", {"layers[2].irreps_in", "13x0e", "12x0e"});
  expect_refused_value(at(LIN1) + "/irreps_out", "12y0e", {"layers[2].irreps_out", "12y0e"});
  expect_refused_value(at(LIN1) + "/irreps_out", "2x9e", {"layers[2].irreps_out", "l up to 8"});
  expect_refused_value(at(EMBEDDING) + "/irreps", "13x0o", {"layers[0].irreps", "0e"});
  expect_refused_value(at(LIN2) + "/irreps_out", "5x0e", {"layers[4].irreps_out"});
  // The order of layers.
  expect_refusal([](ModelDocument &d) { std::swap(layer(d, LIN1), layer(d, CONVOLUTION)); }, {"layers[2].input", "y0"});
  expect_refusal([](ModelDocument &d) { std::swap(layer(d, LIN2), layer(d, GATE)); },
                 {"layers[5].output", "no layer has read"});
  expect_refusal([](ModelDocument &d) { std::swap(layer(d, READOUT), layer(d, SCALE_SHIFT)); },
                 {"layers[17]", "after scale_shift"});
  expect_refusal([](ModelDocument &d) { d.document["layers"].erase(READOUT); }, {"layers", "readout"});
}

TEST(ModelFile, refuses_bad_linears) {
  expect_refused_value(at(LIN1) + "/blocks/0/in", 1, {"layers[2].blocks[0].in", "0 to 0"});
  expect_refused_value(at(LIN1) + "/blocks/0/out", -1, {"layers[2].blocks[0].out", "-1"});
  expect_refused_value(at(LIN1) + "/blocks/0/weight", 0, {"layers[2].blocks[0].weight", "a string"});
  expect_refused_value(at(LIN1) + "/blocks/0/scale", "1", {"layers[2].blocks[0].scale", "a number"});
  expect_refused_value(at(LIN1) + "/per_species", true, {"layers[2].blocks[0].weight", "[3, 13, 13]", "[13, 13]"});
  expect_refused_value(at(SC) + "/per_species", false, {"layers[1].blocks[0].weight"});
  expect_refused_value(at(SC) + "/blocks/0/out", 0, {"layers[1].blocks[0]", "equal irreps", "13x0e and 3x0o"});
  expect_refused_value(at(SC) + "/biases/0/out", 0, {"layers[1].biases[0].out", "0e", "3x0o"});
  expect_refusal(
      [](ModelDocument &d) {
        Json &blocks = layer(d, LIN1)["blocks"];
        blocks.push_back(blocks[0]);
      },
      {"layers[2].blocks[1]", "one entry per pair"});
  expect_refusal(
      [](ModelDocument &d) {
        Json &biases = layer(d, LIN1)["biases"];
        biases.push_back(biases[0]);
      },
      {"layers[2].biases[1].out", "one bias per block"});
}

TEST(ModelFile, refuses_bad_gates) {
  // Gate input of the first layer: 3x0o, 22x0e (5 scalars, 17 gates), 13x1o, 2x1e, 2x2e.
  const std::string term = at(GATE) + "/terms/";
  expect_refused_value(term + "0/in", 7, {"layers[5].terms[0].in"});
  expect_refused_value(term + "0/offset", 18, {"layers[5].terms[0].offset", "5 channels", "22x0e"});
  expect_refused_value(term + "0/offset", -1, {"layers[5].terms[0].offset"});
  expect_refused_value(term + "0/in", 2, {"layers[5].terms[0]"});
  expect_refused_value(term + "1/out", 0, {"layers[5].terms[1].out", "one term per output block"});
  expect_refused_value(term + "1/activation", "silu", {"layers[5].terms[1].activation", "odd scalars"});
  expect_refused_value(term + "2/gate_in", 2, {"layers[5].terms[2].gate_in", "scalars"});
  expect_refused_value(term + "2/gate_offset", 10, {"layers[5].terms[2].gate_offset", "13 channels"});
  expect_refused_value(term + "2/in", 3, {"layers[5].terms[2]"});
  expect_refusal(
      [](ModelDocument &d) {
        layer(d, GATE)["terms"][2].erase("gate_in");
        layer(d, GATE)["terms"][2].erase("gate_offset");
      },
      {"layers[5].terms[2]", "gate_in"});
  expect_refusal([](ModelDocument &d) { layer(d, GATE)["terms"].erase(0); },
                 {"layers[5].terms", "one per output block"});
}

// e3nn would call the result even; trainers that label it odd all the same are followed.
TEST(ModelFile, accepts_even_functions_of_odd_scalars) {
  ModelDocument d = make_tiny_model(rich_options());
  layer(d, GATE)["terms"][1]["activation"] = "abs";
  EXPECT_EQ(std::get<Gate>(d.model().layers[GATE]).terms[1].activation, Activation::abs);
}

TEST(ModelFile, direct_forces_are_read_where_they_are_asked_for) {
  TinyModelOptions o;
  o.direct_forces = true;
  ModelDocument d = make_tiny_model(o);
  const Model direct = parse_model(d.bytes(), "tiny.equi", {}, ForcesOf::features);
  const auto at = std::find_if(direct.layers.begin(), direct.layers.end(),
                               [](const Layer &layer) { return std::holds_alternative<DirectForces>(layer); });
  ASSERT_NE(at, direct.layers.end());
  EXPECT_EQ(std::get<DirectForces>(*at).scale, 1.7);
  EXPECT_EQ(direct.feature_names[std::get<DirectForces>(*at).input], "force");
  EXPECT_EQ(direct.num_convolutions(), 3);
  const Model of_energy = d.model();
  EXPECT_TRUE(of_energy.offers_direct_forces);
  EXPECT_EQ(of_energy.num_convolutions(), 2);
  EXPECT_EQ(of_energy.features.size(), direct.features.size());
  o.direct_forces = false;
  const std::string without = make_tiny_model(o).bytes();
  try {
    parse_model(without, "tiny.equi", {}, ForcesOf::features);
    ADD_FAILURE() << "a file without direct forces was taken for one with them";
  } catch (const ModelFileError &e) {
    EXPECT_NE(std::string(e.what()).find("direct_forces"), std::string::npos) << e.what();
  }
}

TEST(ModelFile, refuses_bad_direct_forces) {
  TinyModelOptions o;
  o.direct_forces = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "direct_forces"))[Json::json_pointer(field)] = value; },
        parts);
  };
  refused("/input", "nothing", {"input", "nothing"});
  refused("/irreps_in", "2x1e", {"irreps_in", "1x1e"});
  refused("/block", 1, {"block"});
  refused("/scale", "one", {"scale", "a number"});
  refused("/charges", 1, {"\"charges\""});
  // Several vectors, and scalars.
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &direct = layer(d, find_layer(d, "direct_forces"));
                   direct["input"] = "x3";
                   direct["irreps_in"] = "3x0e+2x1e";
                   direct["block"] = 1;
                 },
                 {"block", "one vector", "2x1e"});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &direct = layer(d, find_layer(d, "direct_forces"));
                   direct["input"] = "x3";
                   direct["irreps_in"] = "3x0e+2x1e";
                 },
                 {"block", "one vector", "3x0e"});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &layers = d.document["layers"];
                   layers.insert(layers.end() - 1, layers[find_layer(d, "direct_forces")]);
                 },
                 {"one layer of type direct_forces"});
  o.repulsion_inside = true;
  expect_refusal(make_tiny_model(o).bytes(), {"pair_repulsion", "direct_forces"});
}
