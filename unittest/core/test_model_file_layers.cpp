// SPDX-License-Identifier: MIT
// The reader of .equi files: layers, networks and radial bases.
#include "src/model/model_file.h"
#include "unittest/support/model_documents.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

using namespace equi;
using namespace equi::testing;

TEST(ModelFile, products_of_matrices_become_one) {
  TinyModelOptions o;
  o.readout_hidden = {6, 3};
  ModelDocument d = make_tiny_model(o);
  for (Json &l : d.document["layers"])
    if (l["type"] == "readout") l["network"].update({{"activation", "identity"}, {"activation_scale", 1.0}});
  const Model m = d.model();
  for (const Layer &l : m.layers)
    if (const auto *r = std::get_if<Readout>(&l)) {
      EXPECT_EQ(r->network.weights.size(), 1u);
      EXPECT_EQ(r->network.num_inputs(), 5);
      EXPECT_EQ(r->network.num_outputs(), 1);
    }
}

TEST(ModelFile, refuses_a_bad_radial_basis) {
  expect_refused_value("/radial_basis/kind", "spline", {"radial_basis.kind", "\"bessel\"", "spline"});
  expect_refused_value("/radial_basis/wave_numbers", "nothing", {"radial_basis.wave_numbers", "nothing"});
  expect_refused_value("/radial_basis/wave_numbers", "embedding", {"radial_basis.wave_numbers", "[n]", "[3, 13]"});
  expect_refused_value("/radial_basis/cutoff_function/kind", "sine", {"radial_basis.cutoff_function.kind", "sine"});
  expect_refused_value("/radial_basis/cutoff_function/r_on", 4.0,
                       {"radial_basis.cutoff_function.r_on", "below the cutoff"});
  expect_refused_value("/radial_basis/cutoff_function", {{"kind", "polynomial"}, {"p", 1}},
                       {"radial_basis.cutoff_function.p"});
  expect_refused_value("/radial_basis/transform", "agnesi", {"radial_basis.transform", "an object"});
  expect_refused_value("/radial_basis/apply_cutof", false, {"radial_basis", "apply_cutof"});
  expect_refused_value("/radial_basis/centres", "wave_numbers", {"radial_basis", "centres"});
  expect_refused_value("/radial_basis/apply_cutoff", 1, {"radial_basis.apply_cutoff", "true or false"});

  TinyModelOptions o;
  o.basis = "gaussian";
  const auto expect = [&](const std::string &pointer, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { d.document["radial_basis"][Json::json_pointer(pointer)] = value; }, parts);
  };
  expect("/width", 0.0, {"radial_basis.width", "a number from"});
  expect("/centres", "scale_", {"radial_basis.centres"});
  expect("/prefactor", 1.0, {"radial_basis", "\"prefactor\""});
  o.basis = "chebyshev";
  expect("/size", 0, {"radial_basis.size", "1 to 64"});
  expect("/size", 65, {"radial_basis.size", "1 to 64"});
  o.transform = "agnesi";
  o.xplor = false;
  expect("/transform/kind", "tanh", {"radial_basis.transform.kind", "\"agnesi\" or \"soft\""});
  expect("/transform/q", 0.0, {"radial_basis.transform.q", "positive"});
  expect("/transform/p", 33.0, {"radial_basis.transform.p", "at most 32"});
  expect("/transform/a", -1.0, {"radial_basis.transform.a", "positive"});
  expect("/transform/alpha", 4.0, {"radial_basis.transform", "\"alpha\""});
  expect("/transform/r0", "scale", {"radial_basis.transform.r0", "[2, 2]", "[2]"});
  expect("/cutoffs", "r0", {"radial_basis.cutoffs", "transform"});
  expect_refusal(o, [](ModelDocument &d) { d.tensors["r0"].values[3] = 0.0; },
                 {"radial_basis.transform.r0", "numbers from"});
  o.transform = "soft";
  expect("/transform/alpha", nullptr, {"radial_basis.transform.alpha", "a number"});
  expect("/transform/q", 1.0, {"radial_basis.transform", "\"q\""});
  o.transform = "";
  o.pair_cutoffs = true;
  expect("/cutoffs", "scale", {"radial_basis.cutoffs", "[2, 2]", "[2]"});
  expect("/cutoff_function", {{"kind", "xplor"}, {"r_on", 3.5}}, {"radial_basis.cutoffs", "xplor"});
  for (double bad : {0.0, -1.0, 4.001})
    expect_refusal(o, [&](ModelDocument &d) { d.tensors["cutoffs"].values[2] = bad; }, {"radial_basis.cutoffs"});
}

TEST(ModelFile, reads_radial_bases_of_all_kinds) {
  TinyModelOptions o = family_options();
  ModelDocument d = make_tiny_model(o);
  const Model agnesi = d.model();
  const RadialFunction &f = first_layer<Convolution>(agnesi).radial;
  EXPECT_EQ(f.basis.kind, RadialBasis::Kind::bessel);
  EXPECT_EQ(f.basis.transform, RadialBasis::Transform::agnesi);
  EXPECT_EQ(f.basis.agnesi_q, 0.9183);
  EXPECT_EQ(f.basis.agnesi_p, 4.5791);
  EXPECT_EQ(f.basis.agnesi_a, 1.0805);
  EXPECT_EQ(f.basis.pair_r0.data, d.tensors["r0"].values);
  EXPECT_FALSE(f.basis.apply_cutoff);
  EXPECT_TRUE(f.times_cutoff);
  EXPECT_EQ(f.network.num_inputs(), 4 + 2 + 3);
  EXPECT_EQ(f.sender.cols, 2);
  EXPECT_EQ(f.receiver.data, d.tensors["radial0.receiver"].values);
  ASSERT_EQ(f.network.norms.size(), 3u);
  EXPECT_EQ(f.network.norms[1].weight, d.tensors["radial0.norm1.weight"].values);
  EXPECT_EQ(f.network.norms[1].epsilon, 1e-5);
  EXPECT_TRUE(f.network.norms[2].weight.empty());
  EXPECT_EQ(f.output, RadialFunction::Output::weights);

  o = TinyModelOptions();
  o.basis = "gaussian";
  o.transform = "soft";
  const Model soft = make_tiny_model(o).model();
  const RadialBasis &gaussian = first_layer<Convolution>(soft).radial.basis;
  EXPECT_EQ(gaussian.kind, RadialBasis::Kind::gaussian);
  EXPECT_EQ(gaussian.size(), 4);
  EXPECT_EQ(gaussian.soft_alpha, 4.0);
  EXPECT_TRUE(gaussian.apply_cutoff);
  o = TinyModelOptions();
  o.basis = "chebyshev";
  o.xplor = false;
  o.pair_cutoffs = true;
  d = make_tiny_model(o);
  const Model m = d.model();
  EXPECT_EQ(first_layer<Convolution>(m).radial.basis.size(), 4);
  EXPECT_EQ(m.pair_cutoff.data, d.tensors["cutoffs"].values);
  EXPECT_EQ(m.pair_cutoff.rows, 2);
  EXPECT_EQ(first_layer<Convolution>(m).radial.basis.pair_cutoff.data, m.pair_cutoff.data);
  EXPECT_TRUE(make_tiny_model().model().pair_cutoff.data.empty());
}

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

TEST(ModelFile, refuses_bad_radial_networks) {
  const std::string net = "/radial";
  expect_refused_in("convolution", net + "/sender", "scale", {"radial.sender", "[3, n]", "[3]"});
  expect_refused_in("convolution", net + "/receiver", "radial0.sender", {"radial.weights[0]", "[8, n]", "[9, 8]"});
  expect_refused_in("convolution", net + "/norms", Json::array(), {"radial.norms", "3 norms"});
  expect_refused_in("convolution", net + "/norms/0/weight", "radial0.sender", {"radial.norms[0].weight", "[8]"});
  expect_refused_in("convolution", net + "/norms/0/epsilon", 0.0, {"radial.norms[0].epsilon", "positive"});
  expect_refused_in("convolution", net + "/norms/0/mean", 0.0, {"radial.norms[0]", "\"mean\""});
  expect_refused_in("convolution", net + "/norms/2",
                    {{"weight", "radial0.norm0.weight"}, {"bias", "radial0.norm0.bias"}, {"epsilon", 1e-5}},
                    {"radial.norms[2]", "null for the last weight"});
  expect_refused_in("convolution", net + "/times_cutoff", 1, {"radial.times_cutoff", "true or false"});
  // A block of the input: of a convolution, even scalars, and as many inputs of the network as it has channels.
  expect_refused_in("convolution", net + "/sender", {{"block", 1}}, {"radial.sender.block", "0 to 0", "1"});
  expect_refused_in("convolution", net + "/sender", {{"block", -1}}, {"radial.sender.block"});
  expect_refused_in("convolution", net + "/sender", {{"block", "x"}}, {"radial.sender.block"});
  expect_refused_in("convolution", net + "/sender", Json::object(), {"radial.sender.block"});
  expect_refused_in("convolution", net + "/sender", {{"block", 0}, {"scale", 2.0}}, {"radial.sender", "\"scale\""});
  expect_refused_in("convolution", net + "/receiver", {{"block", 0}}, {"radial.weights[0]", "[11, n]", "[9, 8]"});
  expect_refused_in("density_normalization", net + "/receiver", {{"block", 0}}, {"radial.receiver", "a string"});
  // Readouts have no pair of species and no norms.
  for (const char *key : {"sender", "receiver", "norms", "times_cutoff"})
    expect_refused_in("readout", std::string("/network/") + key, Json::array(), {"network", key});
}

TEST(ModelFile, reads_blocks_of_the_input_into_radial_networks) {
  TinyModelOptions o = family_options();
  o.sender_scalars = 7;
  const Model m = make_tiny_model(o).model();
  const auto &c = first_layer<Convolution>(m);
  EXPECT_EQ(m.features[c.input].to_string(), "5x0e+7x0e");
  EXPECT_EQ(c.radial.sender_block, 1);
  EXPECT_EQ(c.radial.receiver_block, -1);
  EXPECT_EQ(c.radial.receiver.cols, 3);
  EXPECT_TRUE(c.radial.reads_features());
  EXPECT_FALSE(first_layer<DensityNormalization>(m).density.reads_features());
  // No route evaluates such a function without the features.
  double w[100];
  EXPECT_THROW(c.radial.for_pair(0, 0), std::logic_error);
  EXPECT_THROW(c.radial.derivatives(1.0, 0, 1, w), std::logic_error);

  const auto expect_refused = [&](const char *where, const Json &value, std::vector<std::string> parts) {
    o.hidden = {"5x0e+5x1o", "13x0e"};
    expect_refusal(
        o,
        [&](ModelDocument &d) {
          Json &layers = d.document["layers"];
          for (size_t k = layers.size(); k-- > 0;)
            if (layers[k]["type"] == "convolution") {
              layers[k][Json::json_pointer(where)] = value;
              parts.push_back("layers[" + std::to_string(k) + "]");
              return;
            }
        },
        parts);
  };
  expect_refused("/radial/sender/block", 1, {"radial.sender.block", "a 0e block", "5x1o"});
  expect_refused("/paths/0/r_power", 2, {"paths", "r_power"});
  o.connected_channels = 13;
  expect_refusal(make_tiny_model(o).bytes(), {"paths", "uvu paths"});
}

TEST(ModelFile, refuses_bad_density_normalizations) {
  expect_refused_in("density_normalization", "/irreps_out", "5x0e", {"irreps_out"});
  expect_refused_in("density_normalization", "/offset", 0.0, {"offset", "other than zero"});
  expect_refused_in("density_normalization", "/factor", "b", {"factor", "a number"});
  expect_refused_in("density_normalization", "/radial/weights/2", "radial0.w2", {"radial.weights[2]", "[8, 1]"});
  expect_refused_in("density_normalization", "/power", 2, {"\"power\""});
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
  refused("/epsilon", 0.0, {"epsilon", "a positive number"});
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
  refused("/epsilon", 0.0, {"shares.epsilon", "a positive number"});
  refused("/power", 2, {"\"power\""});
  const Model model = make_tiny_model(o).model();
  const auto balance = std::find_if(model.layers.begin(), model.layers.end(),
                                    [](const Layer &l) { return std::holds_alternative<ChannelBalance>(l); });
  ASSERT_NE(balance, model.layers.end());
  EXPECT_EQ(std::get<ChannelBalance>(*balance).share_first, 3);
  EXPECT_EQ(std::get<ChannelBalance>(*balance).epsilon, 0.05);
}

TEST(ModelFile, refuses_bad_coulomb_energies) {
  TinyModelOptions o;
  o.coulomb_cutoff = 7.5;
  o.permittivity = 2.0;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "coulomb"))[Json::json_pointer(field)] = value; }, parts);
  };
  refused("/input", "x1", {"irreps_in", "x1"});
  refused("/weights", "scale", {"weights", "[8]"});
  refused("/prefactor", "one", {"prefactor"});
  refused("/cutoff", 0.0, {"cutoff"});
  refused("/cutoff", 51.0, {"cutoff", "50"});
  refused("/damping", 0.0, {"damping"});
  refused("/permittivity", 0.5, {"permittivity"});
  refused("/charges", 1, {"\"charges\""});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &layers = d.document["layers"];
                   layers.insert(layers.end() - 1, layers[find_layer(d, "coulomb")]);
                 },
                 {"one layer of type coulomb"});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &layers = d.document["layers"];
                   const Json coulomb = layers[find_layer(d, "coulomb")];
                   layers.erase(find_layer(d, "coulomb"));
                   layers.push_back(coulomb);
                 },
                 {"after scale_shift"});
  // Nothing but scalars.
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &coulomb = layer(d, find_layer(d, "coulomb"));
                   coulomb["input"] = "x1";
                   coulomb["irreps_in"] = layer(d, find_layer(d, "gate"))["irreps_out"];
                 },
                 {"irreps_in", "0e blocks alone"});
  const Model model = make_tiny_model(o).model();
  EXPECT_EQ(model.cutoff, 4.0);
  EXPECT_EQ(model.reach(), 7.5);
  const Coulomb *coulomb = find_coulomb(model.layers);
  ASSERT_TRUE(coulomb);
  EXPECT_FALSE(coulomb->is_over_all_pairs);
  o.permittivity = 0.0;
  const Model of_pairs = make_tiny_model(o).model();
  EXPECT_TRUE(find_coulomb(of_pairs.layers)->is_over_all_pairs);
}

// The interaction of the model file's page, with its limits; derivatives by differences of the next lower one.
TEST(CoulombFunction, is_damped_and_vanishes_at_the_cutoff) {
  TinyModelOptions o;
  o.coulomb_cutoff = 7.5;
  o.permittivity = 78.3;
  const Model model = make_tiny_model(o).model();
  const CoulombFunction f = find_coulomb(model.layers)->function;
  EXPECT_NEAR(f(7.5).value(), 0.0, 1e-15);
  for (const double r : {0.3, 1.7, 4.1, 4.5, 4.6, 6.2}) {
    const double p = 78.3, R = 7.5, u = r / 4.6, h = u < 1.0 ? 1.0 - std::exp(1.0 - 1.0 / (1.0 - u * u)) : 1.0;
    const double k = (p - 1.0) / ((2.0 * p + 1.0) * R * R * R), c = 3.0 * p / ((2.0 * p + 1.0) * R);
    EXPECT_NEAR(f(r).value(), 0.6 * h * (1.0 / r + k * r * r - c), 1e-14) << r;
    constexpr double STEP = 1e-4;
    for (int order = 0; order < 2; ++order) {
      const auto slope = [&](double step) { return (f(r + step).d[order] - f(r - step).d[order]) / (2.0 * step); };
      EXPECT_NEAR(f(r).d[order + 1], (4.0 * slope(0.5 * STEP) - slope(STEP)) / 3.0, 1e-9) << r << ", order " << order;
    }
  }
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

TEST(ModelFile, refuses_bad_exponentials_and_factors_of_pairs) {
  TinyModelOptions o;
  o.basis = "exp_normal";
  o.cosine = true;
  o.radial_hidden = {};
  o.pair_factor = true;
  const auto refused = [&](const char *pointer, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { d.document[Json::json_pointer(pointer)] = value; }, parts);
  };
  refused("/radial_basis/means", "scale", {"radial_basis.factors", "[2]"});
  refused("/radial_basis/factors", "scale", {"radial_basis.factors", "[4]"});
  refused("/radial_basis/decay", -0.1, {"radial_basis.decay", "0"});
  refused("/radial_basis/width", 1.0, {"\"width\""});
  refused("/radial_basis/cutoff_function/p", 6, {"\"p\""});
  expect_refusal(o, [](ModelDocument &d) { d.tensors["factors"].values[1] = -1.0; }, {"factors", "from 0", "-1"});
  const int k = find_layer(make_tiny_model(o), "convolution");
  const std::string radial = "/layers/" + std::to_string(k) + "/radial";
  refused((radial + "/pair_factor/receiver").c_str(), "scale", {"pair_factor.receiver", "[2, "});
  refused((radial + "/pair_factor/pairs").c_str(), "scale", {"\"pairs\""});
  refused((radial + "/activate_last").c_str(), true, {"pair_factor", "activate_last"});
  TinyModelOptions density = o;
  density.pair_factor = false;
  density.density = true;
  expect_refusal(
      density,
      [](ModelDocument &d) { layer(d, find_layer(d, "density_normalization"))["radial"]["activate_last"] = true; },
      {"\"activate_last\""});
  TinyModelOptions features = o;
  features.radial_hidden = {5};
  features.sender_scalars = 3;
  expect_refusal(make_tiny_model(features).bytes(), {"pair_factor", "block of the input"});
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
  refused_in("norm_scale", "/offset", 0.0, {"offset", "a positive number"});
  refused_in("norm_scale", "/factor", -0.1, {"factor", "no negative number"});
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
  refused("/groups/1/weights/0", -0.1, {"groups[1].weights[0]", "no negative number"});
  refused("/groups/1/center", true, {"groups[1].center", "no 0e block"});
  refused("/groups/1/scale", 1.0, {"\"scale\""});
  refused("/epsilon", 0.0, {"epsilon", "a positive number"});
  refused("/scale", "scale", {"scale", "[3, 5]"});
  refused("/bias", "scale", {"bias", "[5]"});
  refused("/affine", true, {"\"affine\""});
  TinyModelOptions uneven = o;
  uneven.hidden = {"5x0e+4x1e", "5x0e"};
  expect_refusal(make_tiny_model(uneven).bytes(), {"irreps_in", "blocks of 5 channels", "4x1e"});
  TinyModelOptions two = o;
  two.hidden = {"5x0e+5x0e+5x1e", "5x0e"};
  expect_refusal(make_tiny_model(two).bytes(), {"bias", "one 0e block"});
}

TEST(ModelFile, refuses_bad_so2_convolutions) {
  TinyModelOptions o;
  o.so2_lmax = 2;
  o.so2_mmax = 1;
  o.biases = true;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "so2_convolution"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const auto weights_of = [&](const char *name) {
    ModelDocument d = make_tiny_model(o);
    return d.tensors.at(name);
  };
  const Model m = make_tiny_model(o).model();
  const auto &c = first_layer<So2Convolution>(m);
  EXPECT_EQ(c.lmax, 2);
  EXPECT_EQ(c.mmax, 1);
  ASSERT_EQ(c.linears.size(), 2u);
  EXPECT_EQ(c.linears[0].channels_in, 10);
  EXPECT_TRUE(c.linears[0].has_gate);
  EXPECT_FALSE(c.linears[1].has_gate);
  EXPECT_EQ(c.linears[0].bias.size(), (2u + 3u) * 4u);
  EXPECT_EQ(c.radial.num_outputs(), (3 + 2) * 10);
  const DocumentTensor pair = weights_of("so2_1.0.m1");    // both halves, one after the other
  ASSERT_EQ(pair.shape, (std::vector<int64_t>{2, 20, 8}));
  EXPECT_EQ(c.linears[0].weights[1][0].data, std::vector<double>(pair.values.begin(), pair.values.begin() + 160));
  EXPECT_EQ(c.linears[0].weights[1][1].data, std::vector<double>(pair.values.begin() + 160, pair.values.end()));

  refused("/irreps_out", "3x0e+3x2e+3x1e", {"irreps_out", "3x0e+3x1e+3x2e"});
  refused("/irreps_out", "3x0e+3x1e", {"irreps_out", "3x0e+3x1e+3x2e"});
  refused("/irreps_out", "3x0e+3x1e+4x2e", {"irreps_out", "3x0e+3x1e+3x2e"});
  refused("/irreps_out", "4x0e+4x1e+4x2e", {"linears[1].channels", "4 channels", "output"});
  refused("/mmax", 3, {"mmax", "0 to 2"});
  refused("/mmax", 2, {"linears[0].weights", "3", "m from 0 to mmax"});
  refused("/linears", Json::array(), {"linears"});
  refused("/linears/0/channels", 5, {"linears[0].weights[0]", "[30, 25]"});
  refused("/linears/0/channels", 0, {"linears[0].channels"});
  refused("/linears/0/weights/1", "so2_1.1.m1", {"linears[0].weights[1]", "[2, 20, 8]"});
  refused("/linears/0/bias", "so2_1.1.bias", {"linears[0].bias", "[20]"});
  refused("/linears/0/gate/scalars", "gelu", {"linears[0].gate.scalars", "gelu"});
  refused("/linears/0/gate/gates", "gelu", {"linears[0].gate.gates", "gelu"});
  refused("/linears/0/gate/scale", 1.0, {"linears[0].gate", "\"scale\""});
  refused("/linears/1/gate", {{"scalars", "silu"}, {"gates", "silu"}}, {"linears[1].weights[0]", "[12, 15]"});
  refused("/linears/0/kind", "linear", {"linears[0]", "\"kind\""});
  refused("/radial/sender", {{"block", 0}}, {"radial.sender", "a string"});
  refused("/radial/activate_last", true, {"\"activate_last\""});
  refused("/residual", true, {"\"residual\""});
  TinyModelOptions parity = o;
  parity.parity = true;
  parity.hidden = {"5x0e", "5x0e"};
  expect_refusal(make_tiny_model(parity).bytes(), {"SO(2) convolution", "edge_parity"});
  TinyModelOptions scalars;
  scalars.so2_lmax = scalars.lmax_edge = 0;
  scalars.hidden = {"5x0e", "5x0e"};
  expect_refusal(make_tiny_model(scalars).bytes(), {"SO(2) convolution", "lmax_edge"});
  expect_refusal(o,
                 [](ModelDocument &d) { layer(d, find_layer(d, "so2_convolution"))["irreps_in"] = "5x0e+5x1e+5x2o"; },
                 {"irreps_in", "5x0e+5x1e+5x2e"});
}

TEST(ModelFile, refuses_bad_products_and_attention_of_so2_convolutions) {
  TinyModelOptions o;
  o.so2_lmax = o.so2_mmax = 2;
  o.so2_hidden = {5, 13};
  o.so2_product = o.biases = true;
  o.so2_heads = 3;
  o.so2_scores = 7;
  o.so2_out = 15;
  o.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  const Model m = make_tiny_model(o).model();
  const auto &c = first_layer<So2Convolution>(m);
  ASSERT_EQ(c.linears.size(), 3u);
  EXPECT_TRUE(c.linears[0].has_product());
  EXPECT_EQ(c.linears[0].channels_out, 10);
  EXPECT_EQ(c.linears[1].channels_in, 5);
  EXPECT_EQ(c.linears[0].num_score_rows, 3);    // 21 scores in rows of 10
  EXPECT_EQ(c.linears[0].bias.size(), (2u + 3u + 3u) * 10u);
  EXPECT_EQ(c.attention.heads, 3);
  EXPECT_EQ(c.attention.vector.size(), 21u);
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "so2_convolution"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const std::string product = "/linears/0/product";
  refused("/linears/0/gate", {{"scalars", "silu"}, {"gates", "silu"}}, {"a gate or a product, not both"});
  refused("/linears/0/channels", 9, {"linears[0].channels", "even"});
  refused((product + "/points").c_str(), 0, {"linears[0].product.points"});
  refused((product + "/points").c_str(), 3, {"linears[0].product.to", "[3, 9]"});
  refused((product + "/scalars").c_str(), "gelu", {"linears[0].product.scalars", "gelu"});
  refused((product + "/kind").c_str(), 1, {"linears[0].product", "\"kind\""});
  refused("/attention/heads", 4, {"attention.vector", "[4, 7]"});
  refused("/attention/channels", 6, {"attention.weight", "[6]"});
  refused("/attention/epsilon", 0.0, {"attention.epsilon", "positive"});
  refused("/attention/softcap", 1.0, {"attention", "\"softcap\""});
  const auto changed = [&](const char *name, const auto &change, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { change(d.tensors.at(name).values); }, parts);
  };
  changed("so2_1.0.to", [](std::vector<double> &v) { std::fill(v.begin(), v.end(), 0.0); }, {"product.to", "vanish"});
  changed("so2_1.0.to", [](std::vector<double> &v) { v[11] += 1e-3; }, {"product.to", "turns the product"});
  TinyModelOptions odd = o;
  odd.so2_out = 14;
  expect_refusal(make_tiny_model(odd).bytes(), {"attention.heads", "divisor of the 14 channels"});
  odd.so2_out = 3;
  expect_refusal(make_tiny_model(odd).bytes(), {"attention.heads", "two channels or more"});
  odd = o;
  odd.so2_gate_last = true;
  expect_refusal(make_tiny_model(odd).bytes(), {"attention", "neither gate nor product"});
  odd = o;
  odd.so2_product = false;
  expect_refusal(make_tiny_model(odd).bytes(), {"linears[0]", "scores of attention"});
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

TEST(ModelFile, refuses_bad_pair_repulsions) {
  expect_refused_in("pair_repulsion", "/prefactor", "scale", {"prefactor", "[3, 3]", "[3]"});
  expect_refused_in("pair_repulsion", "/p", 1.0, {".p", "2 to 1000"});
  expect_refused_in("pair_repulsion", "/coefficients", Json::array(), {"coefficients", "1 to 64"});
  expect_refused_in("pair_repulsion", "/coefficients", {1.0}, {"exponents", "1 exponents"});
  expect_refused_in("pair_repulsion", "/exponents/1", -0.1, {"exponents[1]", "a number from 0"});
  expect_refused_in("pair_repulsion", "/exponents/1", "x", {"exponents[1]", "a number"});
  expect_refused_in("pair_repulsion", "/scale", 1.0, {"\"scale\""});
  for (const char *name : {"inside.length", "inside.cutoff"})
    expect_refusal(family_options(), [&](ModelDocument &d) { d.tensors[name].values[4] = 0.0; },
                   {"numbers from", name});
  // Nothing else follows scale_shift.
  expect_refusal(family_options(),
                 [](ModelDocument &d) {
                   Json &layers = d.document["layers"];
                   layers.push_back(layers[find_layer(d, "scale_shift")]);
                 },
                 {"after scale_shift"});
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

TEST(ModelFile, refuses_bad_convolutions) {
  const std::string path = at(CONVOLUTION) + "/paths/1";
  expect_refused_value(path + "/in", 1, {"layers[3].paths[1].in"});
  expect_refused_value(path + "/l", 3, {"layers[3].paths[1].l", "0 to 2"});
  expect_refused_value(path + "/l", 0, {"layers[3].paths"});
  expect_refused_value(path + "/out", 3, {"layers[3].paths[1].out", "0 to 2"});
  expect_refused_value(path + "/out", 0, {"layers[3].paths[1]", "parity"});
  expect_refused_value(path + "/connection", "uvv", {"layers[3].paths[1].connection", "uvu or uvw", "uvv"});
  expect_refused_value(path + "/connection", 1, {"layers[3].paths[1].connection"});
  expect_refused_value(path + "/connection", "uvw", {"layers[3].radial.weights[2]", "[8, 195]"});
  expect_refused_value(path + "/r_power", -1, {"layers[3].paths[1].r_power"});
  expect_refused_value(path + "/r_power", 17, {"layers[3].paths[1].r_power"});
  expect_refused_value(path + "/scale", Json::array(), {"layers[3].paths[1].scale", "an array"});
  expect_refusal([](ModelDocument &d) { layer(d, CONVOLUTION)["paths"].erase(0); }, {"layers[3].paths"});
  expect_refusal([](ModelDocument &d) { d.document["edge_parity"] = false; }, {"layers[3].paths[1]", "parity"});
  // Multiplicity and triangle rule, through TensorProduct::validate.
  expect_refused_value(at(CONVOLUTION) + "/irreps_out", "13x0e+12x1o+13x2e",
                       {"layers[3].paths", "path 1", "13 channels"});
  expect_refused_value(at(CONVOLUTION) + "/irreps_out", "13x0e+13x3o+13x2e", {"layers[3].paths", "path 1", "couple"});
}

TEST(ModelFile, refuses_bad_networks) {
  const std::string net = at(CONVOLUTION) + "/radial";
  expect_refused_value(net + "/activation", "swish", {"layers[3].radial.activation", "swish", "silu"});
  expect_refused_value(net + "/activation_scale", "big", {"layers[3].radial.activation_scale"});
  expect_refused_value(net + "/weights", Json::array(), {"layers[3].radial.weights", "1 to"});
  expect_refused_value(net + "/weights/0", "scale", {"layers[3].radial.weights[0]", "[4, n]", "[3]"});
  expect_refused_value(net + "/scales", {1.0}, {"layers[3].radial.scales", "3 scales"});
  expect_refused_value(net + "/biases", {nullptr}, {"layers[3].radial.biases", "3 biases"});
  expect_refused_value(net + "/biases/0", 3.0, {"layers[3].radial.biases[0]"});
  expect_refused_value(net + "/dropout", 0.1, {"layers[3].radial", "dropout"});
  expect_refusal([](ModelDocument &d) { std::swap(d.tensors["radial0.w0"], d.tensors["radial0.w2"]); },
                 {"layers[3].radial.weights[0]", "radial0.w0"});
  expect_refused_value(at(READOUT) + "/block", 1, {"layers[16].block"});
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
