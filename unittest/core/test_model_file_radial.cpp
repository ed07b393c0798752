// SPDX-License-Identifier: MIT
// The reader of .equi files: networks and radial bases.
#include "src/model/model_file.h"
#include "unittest/support/model_documents.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>
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

TEST(ModelFile, refuses_bad_radial_networks) {
  const std::string net = "/radial";
  expect_refused_in("convolution", net + "/sender", "scale", {"radial.sender", "[3, n]", "[3]"});
  expect_refused_in("convolution", net + "/receiver", "radial0.sender", {"radial.weights[0]", "[8, n]", "[9, 8]"});
  expect_refused_in("convolution", net + "/norms", Json::array(), {"radial.norms", "3 norms"});
  expect_refused_in("convolution", net + "/norms/0/weight", "radial0.sender", {"radial.norms[0].weight", "[8]"});
  for (const double epsilon : {0.0, 1e-31})
    expect_refused_in("convolution", net + "/norms/0/epsilon", epsilon, {"radial.norms[0].epsilon", "at least 1e-30"});
  expect_refused_in("convolution", net + "/norms/0/mean", 0.0, {"radial.norms[0]", "\"mean\""});
  expect_refused_in("convolution", net + "/norms/2",
                    {{"weight", "radial0.norm0.weight"}, {"bias", "radial0.norm0.bias"}, {"epsilon", 1e-5}},
                    {"radial.norms[2]", "null for the last weight"});
  expect_refused_in("convolution", net + "/times_cutoff", 1, {"radial.times_cutoff", "true or false"});
  // A radial network of a convolution may read a block of its input: even scalars, as many channels as the network has
  // inputs.
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
  // Nothing evaluates such a function without the features.
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

TEST(ModelFile, reads_gates_of_radial_networks) {
  TinyModelOptions o;
  o.gates = true;
  o.sender_columns = 3;
  o.receiver_columns = 2;
  ModelDocument d = make_tiny_model(o);
  const Model m = d.model();
  const auto &c = first_layer<Convolution>(m);
  const int n = c.product.num_weights();
  ASSERT_TRUE(c.radial.gate);
  EXPECT_EQ(c.radial.num_outputs(), n);
  EXPECT_EQ(c.radial.network.num_outputs(), 2 * n);
  EXPECT_EQ(c.radial.network.num_inputs(), 4 + 3 + 2 + n);
  EXPECT_EQ(c.radial.gate->scale, 0.8);
  EXPECT_EQ(c.radial.gate->norm.weight, d.tensors["radial0.gate_norm.weight"].values);
  EXPECT_EQ(c.radial.gate->norm.epsilon, 1e-3);
  EXPECT_FALSE(c.radial.reads_features());

  const std::string radial = "/layers/" + std::to_string(find_layer(d, "convolution")) + "/radial";
  const auto refused = [&](const std::string &where, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &changed) { changed.document[Json::json_pointer(radial + where)] = value; }, parts);
  };
  refused("/gate/norm/weight", "scale", {"gate.norm.weight", "[" + std::to_string(n) + "]", "[2]"});
  refused("/gate/norm/epsilon", 0.0, {"gate.norm.epsilon", "at least"});
  refused("/gate/scale", "one", {"gate.scale", "a number"});
  refused("/gate/query", 1, {"gate", "\"query\""});
  refused("/activate_last", true, {"gate", "activate_last"});
  refused("/times_cutoff", true, {"gate", "times_cutoff"});
  refused("/receiver", "radial0.sender", {"gate", "at least " + std::to_string(n), "3"});
  o.pair_factor = true;
  expect_refusal(make_tiny_model(o).bytes(), {"gate", "pair_factor"});
}

TEST(ModelFile, reads_potentials_of_charges_in_radial_networks) {
  TinyModelOptions o;
  o.charge_potentials = true;
  ModelDocument d = make_tiny_model(o);
  const Model m = d.model();
  const auto &c = first_layer<Convolution>(m);
  ASSERT_TRUE(c.radial.charge_potential);
  EXPECT_EQ(c.radial.charge_potential->widths.data, d.tensors["radial0.charge_widths"].values);
  EXPECT_EQ(c.radial.charge_potential->p, 6.0);
  const std::string radial = "/layers/" + std::to_string(find_layer(d, "convolution")) + "/radial";
  const auto refused = [&](const std::string &where, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &changed) { changed.document[Json::json_pointer(radial + where)] = value; }, parts);
  };
  refused("/charge_potential/widths", "scale", {"charge_potential.widths", "[2, 2]"});
  refused("/charge_potential/p", 1.0, {"charge_potential.p", "from 2 to 1000"});
  refused("/charge_potential/width", 1.0, {"\"width\""});
  expect_refusal(o, [](ModelDocument &changed) { changed.tensors["radial0.charge_widths"].values[1] = 0.0; },
                 {"radial0.charge_widths"});
  o.sender_scalars = 3;
  expect_refusal(make_tiny_model(o).bytes(), {"charge_potential", "inputs from a block"});
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

TEST(ModelFile, refuses_bad_bernstein_functions) {
  TinyModelOptions o;
  o.basis = "bernstein";
  o.xplor = false;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { d.document["radial_basis"][field] = value; }, parts);
  };
  refused("gamma", 0.0, {"radial_basis.gamma", "0.001"});
  refused("gamma", "fast", {"radial_basis.gamma"});
  refused("log_coefficients", "embedding", {"radial_basis.log_coefficients"});
  refused("width", 1.0, {"\"width\""});
  refused("transform", {{"kind", "soft"}}, {"\"transform\""});
  refused("cutoffs", "cutoffs", {"\"cutoffs\""});
  expect_refusal(o, [](ModelDocument &d) { d.tensors["log_coefficients"].values[1] = -201.0; },
                 {"log_coefficients", "at most 200", "-201"});
  const Model model = make_tiny_model(o).model();
  const RadialBasis &basis = first_layer<Convolution>(model).radial.basis;
  ASSERT_EQ(basis.size(), 4);
  for (int k = 0; k < 4; ++k) EXPECT_NEAR(basis.binomials[k], k == 0 || k == 3 ? 1.0 : 3.0, 1e-14);
  EXPECT_EQ(basis.decay, 0.9);
}

TEST(ModelFile, refuses_bad_cosine_bumps) {
  TinyModelOptions o;
  o.basis = "cosine_bump";
  o.xplor = false;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { d.document["radial_basis"][field] = value; }, parts);
  };
  refused("size", 0, {"radial_basis.size", "1 to"});
  refused("span", 0, {"radial_basis.span", "1 to 4"});
  refused("span", 5, {"radial_basis.span", "1 to 4"});
  refused("width", 1.0, {"\"width\""});
  refused("transform", {{"kind", "soft"}}, {"\"transform\""});
  const Model model = make_tiny_model(o).model();
  const RadialBasis &basis = first_layer<Convolution>(model).radial.basis;
  EXPECT_EQ(basis.size(), 4);
  EXPECT_EQ(basis.span, 3);
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
