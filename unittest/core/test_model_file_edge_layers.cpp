// SPDX-License-Identifier: MIT
// The reader of .equi files: layers that sum over edges.
#include "src/functions/coulomb_function.h"
#include "src/functions/dispersion_function.h"
#include "src/model/model_file.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/model_documents.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace equi;
using namespace equi::testing;

TEST(ModelFile, refuses_bad_density_normalizations) {
  expect_refused_in("density_normalization", "/irreps_out", "5x0e", {"irreps_out"});
  for (const double offset : {0.0, 1e-31, -1e-31})
    expect_refused_in("density_normalization", "/offset", offset, {"offset", "a magnitude of at least 1e-30"});
  expect_refused_in("density_normalization", "/factor", "b", {"factor", "a number"});
  expect_refused_in("density_normalization", "/radial/weights/2", "radial0.w2", {"radial.weights[2]", "[8, 1]"});
  expect_refused_in("density_normalization", "/power", 2, {"\"power\""});
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
  // Only scalars.
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
  const Coulomb *coulomb = find_layer<Coulomb>(model.layers);
  ASSERT_TRUE(coulomb);
  EXPECT_FALSE(coulomb->is_over_all_pairs);
  o.permittivity = 0.0;
  const Model of_pairs = make_tiny_model(o).model();
  EXPECT_TRUE(find_layer<Coulomb>(of_pairs.layers)->is_over_all_pairs);
}

// The interaction of the model file's page, with its limits; derivatives by differences of the next lower one.
TEST(CoulombFunction, is_damped_and_vanishes_at_the_cutoff) {
  TinyModelOptions o;
  o.coulomb_cutoff = 7.5;
  o.permittivity = 78.3;
  const Model model = make_tiny_model(o).model();
  const CoulombFunction f = find_layer<Coulomb>(model.layers)->function;
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

TEST(ModelFile, refuses_bad_pair_attentions) {
  TinyModelOptions o;
  o.parity = o.biases = true;
  o.attention_heads = 3;
  o.attention_begin = 1;
  o.hidden = {"5x0e+2x1o", "5x0e"};
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "pair_attention"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const Model m = make_tiny_model(o).model();
  const auto &a = first_layer<PairAttention>(m);
  EXPECT_EQ(a.channels, 15);
  EXPECT_EQ(a.heads, 3);
  EXPECT_EQ(a.group_channels(), 14);
  EXPECT_EQ(a.groups[1].l, 2);
  EXPECT_TRUE(a.has_tensors);
  EXPECT_EQ(a.radial.num_outputs(), 29);
  ASSERT_EQ(a.difference.size(), 2u);
  EXPECT_EQ(a.difference[1].num_outputs(), 14);

  refused("/heads", 4, {"heads", "15 channels"});
  refused("/heads", 0, {"heads"});
  refused("/groups", Json::array(), {"groups"});
  refused("/groups/0/l", 3, {"groups[0].l", "0 to 2"});
  refused("/groups/0/l", 2, {"irreps_out", "15x0e+1x2e+1x2e"});
  refused("/groups/0/channels", 8, {"irreps_in", "15x0e+15x0e+15x0e+15x0e+15x0e+1x1o+1x2e"});
  refused("/groups/0/degree", 1, {"groups[0]", "\"degree\""});
  refused("/irreps_out", "15x0e+1x1e+1x2e", {"irreps_out", "15x0e+1x1o+1x2e"});
  refused("/irreps_out", "15x0e+2x1o+1x2e", {"irreps_out", "15x0e+1x1o+1x2e"});
  refused("/radial/times_cutoff", false, {"radial", "times_cutoff"});
  refused("/radial/sender", {{"block", 0}}, {"radial.sender", "a string"});
  refused("/radial/activate_last", true, {"\"activate_last\""});
  refused("/difference_networks", Json::array(), {"difference_networks", "2"});
  refused("/difference_networks/0/weights/0", "attention_1.difference0.w1",
          {"difference_networks[0].weights[0]", "[2, "});
  expect_refusal(o, [](ModelDocument &d) { layer(d, find_layer(d, "pair_attention")).erase("difference_networks"); },
                 {"irreps_in", "difference_networks"});
}

TEST(ModelFile, refuses_bad_local_networks) {
  const TinyModelOptions o = case_named("local_with_more_steps").options;
  const auto refused = [&](const std::string &field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "local_network"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const Model m = make_tiny_model(o).model();
  const auto &network = first_layer<LocalNetwork>(m);
  EXPECT_EQ(network.features.size(), 16u);
  EXPECT_TRUE(m.features.empty());
  const std::vector<bool> is_radial = network.radial_features();
  for (size_t f = 0; f < is_radial.size(); ++f) EXPECT_EQ(is_radial[f], f < 4) << f;

  // Steps in order: scalars, three networks, tensors, factors of the environment and its sum, a product, a network.
  refused("/features/0", "6x1o", {"steps[0].output", "0e blocks only"});
  refused("/features/0", "3x0e+3x0e", {"steps[0].output", "one block"});
  refused("/features/0", "6x0e+", {"features[0]"});
  refused("/features/0", "65000x0e", {"at most 65536 components"});
  refused("/features/2", "14x0e", {"steps[2]", "[7, 14]"});
  refused("/features/3", "7x0e+14x0e", {"steps[3]", "[7, 21]"});
  refused("/features/4", "5x0e+5x1o+5x3o", {"steps[4].output", "harmonics", "5x3o"});
  refused("/features/4", "5x0e+5x1e+5x2e", {"steps[4].output", "harmonics", "5x1e"});
  refused("/features/4", "5x0e+4x1o+5x2e", {"steps[4].output", "equally many channels"});
  refused("/features/6", "5x0e+5x2e+5x1o", {"steps[6].output", "5x0e+5x1o+5x2e"});
  refused("/features/16", "1x0e", {"features[16]", "a step writes"});
  refused("/steps/0/step", "sum_up", {"steps[0].step", "scalars or dense or tensor or sum or product or readout"});
  refused("/steps/0/output", 99, {"steps[0].output", "0 to 15"});
  refused("/steps/0/input", 0, {"\"input\""});
  refused("/steps/0/pair_weights", "local.basis", {"steps[0].weights", "next to pair_weights"});
  refused("/steps/0/sender", "local.receiver", {"steps[0]", "6 columns together", "4"});
  refused("/steps/1/output", 0, {"steps[1].output", "no earlier step writes"});
  refused("/steps/1/inputs/0", {4, 0}, {"steps[1].inputs[0][0]", "a feature of edges"});
  refused("/steps/1/inputs/0", {0, 1}, {"steps[1].inputs[0][1]"});
  refused("/steps/1/inputs/0", {0}, {"steps[1].inputs[0]", "2 numbers"});
  refused("/steps/1/network/activation", "sigmoid", {"steps[1].network.activation", "0 at 0"});
  refused("/steps/1/network/biases", {nullptr, nullptr}, {"steps[1].network.biases", "no biases"});
  refused("/steps/4/shared", true, {"steps[4].input", "a block of 5 channels", "15"});
  refused("/steps/6/input", 6, {"steps[6].input", "a feature of edges"});
  refused("/steps/6/scale", "embedding", {"steps[6].scale", "tensor"});
  refused("/steps/7/environment", 4, {"steps[7].environment", "a feature of receivers"});
  refused("/steps/7/paths/0/output", 1, {"steps[7].paths[0]", "an output block"});
  refused("/steps/7/paths/0/environment", 1, {"steps[7].paths[0]", "an output block"});
  refused("/steps/7/paths/0/weights", "local.receiver", {"steps[7].paths[0].weights", "[n]"});
  refused("/steps/7/paths", Json::array(), {"steps[7].paths"});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &steps = layer(d, find_layer(d, "local_network"))["steps"];
                   steps.erase(steps.size() - 1);
                 },
                 {"a feature that a step reads"});
  expect_refusal(o,
                 [](ModelDocument &d) {
                   Json &basis = d.document["radial_basis"];
                   basis["apply_cutoff"] = false;
                 },
                 {"steps[0]", "end at the cutoff"});
}

TEST(ModelFile, local_networks_are_restricted_to_species) {
  for (const char *name : {"local_of_2_layers", "local_of_1_layer"}) {
    TinyModelOptions o = case_named(name).options;
    o.elements = {"O", "H", "Si"};
    const Model model = make_tiny_model(o).model();
    const Model two = model.restricted_to({"Si", "O"});
    const auto &all = first_layer<LocalNetwork>(model), &some = first_layer<LocalNetwork>(two);
    const std::vector<int> kept = {2, 0};
    const auto &scalars = std::get<EdgeScalars>(all.steps[0]), &of_two = std::get<EdgeScalars>(some.steps[0]);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        EXPECT_EQ(of_two.weights_of(i, j).data, scalars.weights_of(kept[i], kept[j]).data) << name;
    const auto &readout = std::get<EdgeReadout>(all.steps.back()),
               &readout_of_two = std::get<EdgeReadout>(some.steps.back());
    EXPECT_EQ(readout_of_two.scale, (std::vector<double>{readout.scale[2], readout.scale[0]}));
  }
}

// Differences are then 0, and their networks are constants.
TEST(ModelFile, pair_attention_without_tensors_has_difference_networks_in_its_bias) {
  TinyModelOptions o;
  o.biases = true;
  o.attention_heads = 2;
  o.attention_tensors = 9;
  ModelDocument d = make_tiny_model(o);
  const Model with_networks = d.model();
  const auto &with = first_layer<PairAttention>(with_networks);
  Json &layer_of = layer(d, find_layer(d, "pair_attention"));
  const Json networks = layer_of["difference_networks"];
  layer_of.erase("difference_networks");
  std::map<std::string, DocumentTensor> tensors = d.tensors;
  for (const Json &network : networks)    // a document has no tensors that no layer uses
    for (const Json &name : {network["weights"][0], network["weights"][1], network["biases"][0]["tensor"]})
      d.tensors.erase(name.get<std::string>());
  const Model without_networks = d.model();
  const auto &without = first_layer<PairAttention>(without_networks);
  EXPECT_TRUE(with.difference.empty() && without.difference.empty());
  const auto at_zero = [&](int n) {    // silu of the first bias, times the second matrix
    const auto &b = tensors.at(networks[n]["biases"][0]["tensor"].get<std::string>());
    const auto &w = tensors.at(networks[n]["weights"][1].get<std::string>());
    std::vector<double> value(w.shape[1], 0.0);
    for (int64_t k = 0; k < w.shape[0]; ++k) {
      const double z = networks[n]["biases"][0]["scale"].get<double>() * b.values[k];
      const double h = networks[n]["activation_scale"].get<double>() * z / (1.0 + std::exp(-z));
      for (int64_t j = 0; j < w.shape[1]; ++j)
        value[j] += h * networks[n]["scales"][1].get<double>() * w.values[k * w.shape[1] + j];
    }
    return value;
  };
  std::vector<double> expected = at_zero(0);
  for (const double v : at_zero(1)) expected.push_back(v);
  ASSERT_EQ(expected.size(), 24u);
  double one[24], other[24];
  with.radial.network.derivatives(0, std::vector<double>(4, 0.3).data(), one);
  without.radial.network.derivatives(0, std::vector<double>(4, 0.3).data(), other);
  for (int j = 0; j < 24; ++j) EXPECT_NEAR(one[j] - other[j], expected[j], 1e-13) << j;
}

// The constants of SO3LR: charges of 4 Angstrom, shifted at 12.
TEST(CoulombFunction, of_charges_with_a_width_is_shifted_with_its_force) {
  constexpr double WIDTH = 4.0, R = 12.0, ON = 5.4;
  const CoulombFunction f = CoulombFunction::of_width(14.4, WIDTH, ON, R);
  const double end = std::erf(R / WIDTH) / R;
  const double slope = (2.0 / std::sqrt(std::acos(-1.0)) / WIDTH * std::exp(-R * R / (WIDTH * WIDTH)) - end) / R;
  for (const double r : {1e-9, 0.3, 1.7, 3.9, 4.1, 5.3, 5.5, 8.0, 11.0, 11.9}) {
    const double c = (r - ON) / (R - ON), inner = std::exp(-1.0 / (1.0 - c)),
                 outer = c > 0.0 ? std::exp(-1.0 / c) : 0.0;
    const double shifted = (1.0 - inner / (inner + outer + 1e-12)) * slope * (r - R);
    EXPECT_NEAR(f(r).value(), 14.4 * (std::erf(r / WIDTH) / r - end - shifted), 1e-14) << r;
    if (r < 0.1) continue;
    constexpr double STEP = 1e-3;
    for (int order = 0; order < 3; ++order) {
      const auto difference = [&](double step) { return (f(r + step).d[order] - f(r - step).d[order]) / (2.0 * step); };
      EXPECT_NEAR(f(r).d[order + 1], (4.0 * difference(0.5 * STEP) - difference(STEP)) / 3.0, 1e-8)
          << r << ", order " << order;
    }
  }
  for (int order = 0; order < 2; ++order) EXPECT_NEAR(f(R).d[order], 0.0, 1e-15);
  // At no distance: 2/(sqrt(pi) width), without a slope.
  EXPECT_NEAR(f(1e-9).d[0] / 14.4 + end - 1e-11 * slope * R, 2.0 / std::sqrt(std::acos(-1.0)) / WIDTH, 1e-10);
  EXPECT_NEAR(f(1e-9).d[1], 0.0, 1e-8);
}

TEST(ModelFile, refuses_bad_kernels_of_coulomb_energies) {
  TinyModelOptions o;
  o.coulomb_cutoff = 7.5;
  o.coulomb_width = 3.0;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "coulomb"))[Json::json_pointer(field)] = value; }, parts);
  };
  refused("/kernel/kind", "erfc", {"kernel.kind", "erf_shifted"});
  refused("/kernel/kind", "erf", {"kernel", "'on' beside erf_shifted alone"});
  refused("/kernel/sigma", 0.0, {"kernel.sigma"});
  refused("/kernel/on", 7.5, {"kernel.on", "below the cutoff"});
  refused("/kernel/off", 7.5, {"\"off\""});
  refused("/damping", 2.0, {"kernel", "damping"});
  refused("/permittivity", 2.0, {"kernel", "permittivity"});
  const Model model = make_tiny_model(o).model();
  EXPECT_FALSE(find_layer<Coulomb>(model.layers)->is_over_all_pairs);
  EXPECT_EQ(find_layer<Coulomb>(model.layers)->function.width, 3.0);
}

TEST(ModelFile, refuses_bad_dispersion_energies) {
  TinyModelOptions o;
  o.coulomb_cutoff = 6.0;
  o.permittivity = 2.0;
  o.dispersion_cutoff = 7.5;
  const auto refused = [&](const char *field, const Json &value, const std::vector<std::string> &parts) {
    expect_refusal(
        o, [&](ModelDocument &d) { layer(d, find_layer(d, "dispersion"))[field] = value; }, parts);
  };
  refused("block", 0, {"irreps_in", "a 0e block of one channel", "2x0e"});
  refused("block", 3, {"block", "0 to 2"});
  refused("polarizability", "coulomb.weights", {"polarizability", "[2]"});
  refused("c6", "charge", {"c6", "numbers from", "-0.5"});
  refused("scale", -1.0, {"scale"});
  refused("cutoff", 51.0, {"cutoff", "50"});
  refused("damping", 0.0, {"damping"});
  refused("damping", 7.6, {"damping", "at most the cutoff"});
  refused("prefactor", 1.0, {"\"prefactor\""});
  // All pairs of a cluster are those within the largest cutoff.
  expect_refusal(o, [](ModelDocument &d) { layer(d, find_layer(d, "coulomb")).erase("permittivity"); },
                 {"no larger cutoff than that of coulomb", "7.5"});
  const Model model = make_tiny_model(o).model();
  EXPECT_EQ(model.reach(), 7.5);
  const Dispersion *dispersion = find_layer<Dispersion>(model.layers);
  ASSERT_TRUE(dispersion);
  EXPECT_EQ(dispersion->block, 1);
  const Model one = model.restricted_to({"Cl"});
  EXPECT_EQ(find_layer<Dispersion>(one.layers)->c6, std::vector<double>{dispersion->c6[1]});
}

// Derivatives by differences, of plain numbers and of duals.
TEST(DispersionFunction, has_the_derivatives_of_its_energy) {
  const DispersionFunction f{5.08 * 1.2, 10.0, 12.0};
  for (const double r : {0.4, 2.1, 3.5, 7.7, 10.3, 11.2, 11.9})
    for (const double alpha : {0.7, 9.0, 130.0}) {
      const double c = 31.0, h = 1e-4;
      const auto at = [&](double x, double y, double z) { return f(x * r, y * alpha, z * c); };
      const PairDispersion<double> found = at(1, 1, 1);
      const auto slope = [&](auto along, auto of) {
        const auto difference = [&](double step) { return (of(along(1 + step)) - of(along(1 - step))) / (2 * step); };
        return (4.0 * difference(0.5 * h) - difference(h)) / 3.0;
      };
      const auto by_r = [&](double x) { return at(x, 1, 1); };
      const auto by_alpha = [&](double x) { return at(1, x, 1); };
      const auto by_c = [&](double x) { return at(1, 1, x); };
      const auto energy = [](const PairDispersion<double> &p) { return p.energy; };
      const double tolerance = 1e-9 * std::fabs(f(std::fmin(r, 10.0), alpha, c).energy);
      EXPECT_NEAR(found.by_distance * r, slope(by_r, energy), tolerance) << r << ", " << alpha;
      EXPECT_NEAR(found.by_polarizability * alpha, slope(by_alpha, energy), tolerance) << r << ", " << alpha;
      EXPECT_NEAR(found.by_coefficient * c, slope(by_c, energy), tolerance) << r << ", " << alpha;
      // The directional derivative of all of them.
      using D = Dual<double>;
      const PairDispersion<D> dual = f(D(r, 0.3 * r), D(alpha, -0.7 * alpha), D(c, 0.2 * c));
      const auto along = [&](double x) { return at(1 + 0.3 * (x - 1), 1 - 0.7 * (x - 1), 1 + 0.2 * (x - 1)); };
      const double size = std::fabs(f(std::fmin(r, 10.0), alpha, c).energy);
      const auto expect_tangent = [&](auto part, const D &of_dual, double unit) {
        EXPECT_EQ(of_dual.value, found.*part);
        const double expected = slope(along, [&](const PairDispersion<double> &p) { return p.*part; });
        EXPECT_NEAR(of_dual.tangent * unit, expected * unit, 1e-8 * size) << r << ", " << alpha;
      };
      expect_tangent(&PairDispersion<double>::energy, dual.energy, 1.0);
      expect_tangent(&PairDispersion<double>::by_distance, dual.by_distance, r);
      expect_tangent(&PairDispersion<double>::by_polarizability, dual.by_polarizability, alpha);
      expect_tangent(&PairDispersion<double>::by_coefficient, dual.by_coefficient, c);
    }
  // Nothing is infinite where the ratios vanish.
  const PairDispersion<Dual<double>> none = f(Dual<double>(3.0, 1.0), Dual<double>(0.0, 1.0), Dual<double>(0.0, 1.0));
  for (const Dual<double> &v : {none.energy, none.by_distance, none.by_polarizability, none.by_coefficient})
    EXPECT_TRUE(std::isfinite(v.value) && std::isfinite(v.tangent));
}

TEST(SwitchFunction, falls_smoothly_from_one_to_zero) {
  const auto w = [](double r) { return switch_function(Jet::variable(r), 2.0, 5.0); };
  EXPECT_NEAR(w(0.0).value(), 1.0, 3e-12);
  EXPECT_NEAR(w(2.0).value(), 1.0, 3e-12);
  EXPECT_NEAR(w(3.5).value(), 0.5, 1e-11);
  EXPECT_EQ(w(5.0).value(), 0.0);
  EXPECT_EQ(w(6.0).value(), 0.0);
  for (const double r : {0.5, 2.0, 2.003, 2.1, 3.0, 3.5, 4.3, 4.9, 4.997, 5.0, 5.2})
    for (int order = 0; order < 3; ++order) {
      const auto difference = [&](double step) { return (w(r + step).d[order] - w(r - step).d[order]) / (2.0 * step); };
      EXPECT_NEAR(w(r).d[order + 1], (4.0 * difference(5e-5) - difference(1e-4)) / 3.0, 1e-7) << r << ", " << order;
    }
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
  refused("/linears/0/gate/scalars", "swish", {"linears[0].gate.scalars", "swish"});
  refused("/linears/0/gate/gates", "swish", {"linears[0].gate.gates", "swish"});
  refused("/linears/0/gate/scale", 1.0, {"linears[0].gate", "\"scale\""});
  refused("/linears/1/gate", {{"scalars", "silu"}, {"gates", "silu"}}, {"linears[1].weights[0]", "[12, 15]"});
  refused("/linears/0/kind", "linear", {"linears[0]", "\"kind\""});
  refused("/radial/sender", {{"block", 0}}, {"radial.sender", "a string"});
  refused("/radial/pair_factor", true, {"\"pair_factor\""});
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
  refused("/linears/0/gate", {{"scalars", "silu"}, {"gates", "silu"}}, {"one of gate, product and at_points"});
  refused("/linears/0/channels", 9, {"linears[0].channels", "even"});
  refused((product + "/points").c_str(), 0, {"linears[0].product.points"});
  refused((product + "/points").c_str(), 3, {"linears[0].product.to", "[3, 9]"});
  refused((product + "/scalars").c_str(), "swish", {"linears[0].product.scalars", "swish"});
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
  EXPECT_NO_THROW(make_tiny_model(odd).model());    // a channel for each head
  expect_refusal(
      o,
      [](ModelDocument &d) {
        const auto n = find_layer(d, "so2_convolution");
        Json more = {{"type", "linear"}, {"blocks", Json::array()}, {"biases", Json::array()}, {"accumulate", true}};
        for (const char *key : {"input", "irreps_in", "output", "irreps_out"}) more[key] = layer(d, n)[key];
        more["per_species"] = false;
        d.document["layers"].insert(d.document["layers"].begin() + static_cast<int>(n) + 1, more);
      },
      {"output", "writes alone"});
  odd = o;
  odd.so2_gate_last = true;
  expect_refusal(make_tiny_model(odd).bytes(), {"attention", "no gate, product or activation"});
  odd = o;
  odd.so2_product = false;
  expect_refusal(make_tiny_model(odd).bytes(), {"linears[0]", "scores of attention"});
}

TEST(ModelFile, reads_activations_at_points_and_factors_of_later_linears) {
  TinyModelOptions o;
  o.so2_lmax = 2;
  o.so2_mmax = 1;
  o.so2_hidden = {7};
  o.so2_points = 0;
  o.so2_heads = 2;
  o.so2_scores = 5;
  o.so2_out = 4;
  o.hidden = {"5x0e+3x1e+2x2e", "5x0e+3x1e+2x2e", "5x0e"};
  const Model m = make_tiny_model(o).model();
  const auto &c = first_layer<So2Convolution>(m);
  EXPECT_TRUE(c.depends_on_frame());
  EXPECT_TRUE(c.linears[0].has_points());
  EXPECT_EQ(c.linears[0].at_points.to_points.rows, 28);
  EXPECT_EQ(c.linears[0].at_points.to_points.cols, 7);    // 1 + 3 + 3 components
  EXPECT_EQ(c.linears[0].num_gates(2), 1 + 2);            // scalars, 10 scores in rows of 7
  EXPECT_FALSE(is_invariant(m.layers));
  const auto refused = [&](const TinyModelOptions &base, const char *field, const Json &value,
                           const std::vector<std::string> &parts) {
    expect_refusal(
        base, [&](ModelDocument &d) { layer(d, find_layer(d, "so2_convolution"))[Json::json_pointer(field)] = value; },
        parts);
  };
  const std::string points = "/linears/0/at_points";
  refused(o, "/linears/0/gate", {{"scalars", "silu"}, {"gates", "silu"}}, {"one of gate, product and at_points"});
  refused(o, (points + "/points").c_str(), 27, {"at_points.to", "[27, 7]"});
  refused(o, (points + "/activation").c_str(), "swish", {"at_points.activation", "swish"});
  refused(o, (points + "/scalars").c_str(), "swish", {"at_points.scalars", "swish"});
  refused(o, (points + "/gates").c_str(), "silu", {"at_points", "\"gates\""});
  refused(o, "/radial_linear", 2, {"radial_linear", "0 to 1"});
  refused(o, "/radial_linear", 1, {"radial_linear", "no gate, product or activation"});

  TinyModelOptions late = o;
  late.so2_heads = 0;
  late.so2_points = late.so2_radial = 1;
  late.so2_point_scalars = false;
  const Model of_late = make_tiny_model(late).model();
  const auto &d = first_layer<So2Convolution>(of_late);
  EXPECT_EQ(d.radial_linear, 1);
  EXPECT_EQ(d.radial.num_outputs(), (3 + 2) * 7);
  EXPECT_EQ(d.radial.output, RadialFunction::Output::activated);
  EXPECT_EQ(d.linears[1].num_gates(2), 0);
}

TEST(ModelFile, refuses_bad_pair_repulsions) {
  expect_refused_in("pair_repulsion", "/prefactor", "scale", {"prefactor", "[3, 3]", "[3]"});
  expect_refused_in("pair_repulsion", "/p", 1.0, {".p", "2 to 1000"});
  expect_refused_in("pair_repulsion", "/coefficients", Json::array(), {"coefficients", "1 to 64"});
  expect_refused_in("pair_repulsion", "/coefficients", {1.0}, {"exponents", "1 exponents"});
  expect_refused_in("pair_repulsion", "/exponents/1", -0.1, {"exponents[1]", "a number from 0"});
  expect_refused_in("pair_repulsion", "/exponents/1", "x", {"exponents[1]", "a number"});
  expect_refused_in("pair_repulsion", "/scale", 1.0, {"\"scale\""});
  expect_refused_in("pair_repulsion", "/cutoff_function", "cosine", {".p", "no power"});
  expect_refused_in("pair_repulsion", "/cutoff_function", "xplor", {"cutoff_function", "cosine"});
  expect_refused_in("pair_repulsion", "/switch", {{"on", 0.5}}, {"switch.off"});
  expect_refused_in("pair_repulsion", "/switch", {{"on", 1.5}, {"off", 1.5}}, {"switch.off", "beyond 1.5"});
  expect_refusal(family_options(), [](ModelDocument &d) { layer(d, find_layer(d, "pair_repulsion")).erase("p"); },
                 {".p"});
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
