// SPDX-License-Identifier: MIT
// The layers of tiny random models, each with tensors of its own, as `equi convert` would write them.
#ifndef EQUI_TEST_LAYER_MAKER_H
#define EQUI_TEST_LAYER_MAKER_H

#include "src/algebra/irreps.h"
#include "src/algebra/spherical_harmonics.h"
#include "unittest/support/contraction_builder.h"
#include "unittest/support/editable_document.h"
#include "unittest/support/tiny_model_options.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

namespace equi {
namespace testing {

class LayerMaker {
 public:
  explicit LayerMaker(const TinyModelOptions &o) : o_(o), random_(o.seed) {}

 protected:
  TinyModelOptions o_;
  std::mt19937_64 random_;
  ModelDocument d_;

  int num_species() const { return static_cast<int>(o_.elements.size()); }
  void add(const Json &layer) { d_.document["layers"].push_back(layer); }

  // Normal numbers that float32 holds exactly, so that the file is the same model in F32 and F64.
  std::string tensor(const std::string &name, const std::vector<int64_t> &shape, double width) {
    DocumentTensor t{shape, {}, o_.is_double};
    int64_t size = 1;
    for (int64_t n : shape) size *= n;
    std::normal_distribution<double> normal(0.0, width);
    for (int64_t i = 0; i < size; ++i) t.values.push_back(static_cast<float>(normal(random_)));
    d_.tensors[name] = t;
    return name;
  }
  std::string tensor(const std::string &name, std::initializer_list<int> shape, double width) {
    return tensor(name, std::vector<int64_t>(shape.begin(), shape.end()), width);
  }

  // Numbers that are not at random, in float64.
  std::string stated(const std::string &name, const std::vector<int64_t> &shape, const std::vector<double> &values) {
    d_.tensors[name] = {shape, values, true};
    return name;
  }

  // The same for numbers that are evenly spread between two bounds.
  std::string uniform(const std::string &name, const std::vector<int64_t> &shape, double low, double high) {
    tensor(name, shape, 1.0);
    std::uniform_real_distribution<double> between(low, high);
    for (double &v : d_.tensors[name].values) v = static_cast<float>(between(random_));
    return name;
  }
  std::string pairs(const std::string &name, double low, double high) {
    return uniform(name, {num_species(), num_species()}, low, high);
  }

  // Names r0 of the transform of distances.
  std::string pairs_r0() {
    const std::string name = pairs("r0", 1.2, 2.4);
    std::vector<double> &r0 = d_.tensors[name].values;
    for (int i = 0; o_.symmetric_r0 && i < num_species(); ++i)
      for (int j = 0; j < i; ++j) r0[i * num_species() + j] = r0[j * num_species() + i];
    return name;
  }

  Json radial_basis() {
    Json basis = {{"kind", o_.basis}};
    DocumentTensor grid{{o_.num_basis}, {}, o_.is_double};
    if (o_.basis == "bessel") {
      for (int n = 1; n <= o_.num_basis; ++n) grid.values.push_back(n * 3.14159265358979 / o_.cutoff);
      d_.tensors["wave_numbers"] = grid;
      basis.update({{"wave_numbers", "wave_numbers"}, {"prefactor", 2.0 / o_.cutoff}});
    } else if (o_.basis == "gaussian") {
      const double longest = o_.transform == "agnesi" ? 1.0 : o_.cutoff, step = longest / (o_.num_basis - 1);
      for (int n = 0; n < o_.num_basis; ++n) grid.values.push_back(n * step);
      d_.tensors["centres"] = grid;
      basis.update({{"centres", "centres"}, {"width", step}});
    } else if (o_.basis == "exp_normal") {
      for (int n = 0; n < o_.num_basis; ++n) grid.values.push_back((n + 0.5) / o_.num_basis);
      d_.tensors["means"] = grid;
      basis.update({{"means", "means"}, {"factors", uniform("factors", {o_.num_basis}, 4.0, 9.0)}, {"decay", 0.6}});
    } else if (o_.basis == "bernstein") {
      for (int n = 0; n < o_.num_basis; ++n)
        grid.values.push_back(std::lgamma(o_.num_basis) - std::lgamma(n + 1) - std::lgamma(o_.num_basis - n));
      grid.is_double = true;
      d_.tensors["log_coefficients"] = grid;
      basis.update({{"gamma", o_.gamma}, {"log_coefficients", "log_coefficients"}});
    } else if (o_.basis == "cosine_bump") {
      basis.update({{"size", o_.num_basis}, {"span", o_.span}});
    } else {
      basis["size"] = o_.num_basis;
    }
    basis["cutoff_function"] = {{"kind", "polynomial"}, {"p", o_.p}};
    if (o_.xplor) basis["cutoff_function"] = {{"kind", "xplor"}, {"r_on", o_.r_on}};
    if (o_.cosine) basis["cutoff_function"] = {{"kind", "cosine"}};
    if (o_.without_cutoff) basis["cutoff_function"] = {{"kind", "none"}};
    if (o_.late_cutoff) basis["apply_cutoff"] = false;
    if (o_.transform == "agnesi")
      basis["transform"] = {{"kind", "agnesi"}, {"r0", pairs_r0()}, {"q", 0.9183}, {"p", 4.5791}, {"a", 1.0805}};
    if (o_.transform == "soft") basis["transform"] = {{"kind", "soft"}, {"r0", pairs_r0()}, {"alpha", 4.0}};
    if (o_.pair_cutoffs) basis["cutoffs"] = pairs("cutoffs", 0.7 * o_.cutoff, o_.cutoff);
    return basis;
  }

  // The name of the normalized feature.
  std::string layer_norm(const std::string &input, const Irreps &irreps) {
    int channels = 0;
    for (int b = 0; b < irreps.size(); ++b) channels += irreps[b].mul;
    add({{"type", "layer_norm"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", input + "_norm"},
         {"irreps_out", irreps.to_string()},
         {"weight", uniform(input + "_norm.weight", {channels}, 0.5, 1.5)},
         {"bias", tensor(input + "_norm.bias", {channels}, 0.3)},
         {"epsilon", 1e-5}});
    return input + "_norm";
  }

  // u_t -> x_t
  void balance(int t, const Irreps &irreps) {
    const std::string n = std::to_string(t);
    int block = 0;
    while (irreps[block].irrep != Irrep{0, 1}) ++block;
    const int first_share = irreps[block].mul - o_.balanced_channels;
    if (o_.balance_hardness) add_to_channels("u" + n, irreps, "h" + n, block, first_share, 2.0);
    add({{"type", "channel_balance"},
         {"input", (o_.balance_hardness ? "h" : "u") + n},
         {"irreps_in", irreps.to_string()},
         {"output", "x" + n},
         {"irreps_out", irreps.to_string()},
         {"block", block},
         {"first", std::min(1, first_share)},
         {"target", tensor("balance" + n, {o_.balanced_channels}, 1.0)}});
    Json &layer = d_.document["layers"].back();
    if (o_.balance_hardness) layer["hardness"] = {{"block", block}, {"first", first_share}};
    if (o_.balance_shares) layer["shares"] = {{"block", block}, {"first", first_share}, {"epsilon", 0.05}};
  }

  // A copy of a feature, with a number added to the channels of a 0e block from `first` on.
  void add_to_channels(const std::string &input, const Irreps &irreps, const std::string &output, int block, int first,
                       double number) {
    Json blocks = Json::array();
    for (int b = 0; b < irreps.size(); ++b) {
      const int64_t mul = irreps[b].mul;
      std::vector<double> unit(mul * mul, 0.0);
      for (int64_t u = 0; u < mul; ++u) unit[u * mul + u] = 1.0;
      const std::string name = output + ".unit" + std::to_string(b);
      blocks.push_back({{"in", b}, {"out", b}, {"weight", stated(name, {mul, mul}, unit)}, {"scale", 1.0}});
    }
    std::vector<double> bias(irreps[block].mul, 0.0);
    std::fill(bias.begin() + first, bias.end(), number);
    add({{"type", "linear"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"blocks", blocks},
         {"biases",
          {{{"out", block}, {"tensor", stated(output + ".bias", {irreps[block].mul}, bias)}, {"scale", 1.0}}}},
         {"per_species", false},
         {"accumulate", false}});
  }

  // A repulsion with lengths that matter to atoms some Angstrom apart.
  void repulsion(const std::string &name) {
    add({{"type", "pair_repulsion"},
         {"prefactor", pairs(name + ".prefactor", 5.0, 15.0)},
         {"length", pairs(name + ".length", 0.6, 1.2)},
         {"cutoff", pairs(name + ".cutoff", 0.5 * o_.cutoff, o_.cutoff)},
         {"p", o_.p},
         {"coefficients", {0.18, 0.51, 0.28, 0.03}},
         {"exponents", {3.2, 0.94, 0.4, 0.2}}});
    Json &layer = d_.document["layers"].back();
    if (o_.repulsion_switch) layer["switch"] = {{"on", 0.3 * o_.cutoff}, {"off", 0.85 * o_.cutoff}};
    if (!o_.cosine_repulsion) return;
    layer.erase("p");
    layer["cutoff_function"] = "cosine";
  }

  // The energy of charges that are linear in the scalars of a feature, in two blocks.
  void coulomb(const std::string &input, const Irreps &irreps) {
    const Irreps charges = Irreps::parse("3x0e+5x0e");
    add(linear("charges", input, irreps, "charges", charges, false, false));
    coulomb("charges", charges, uniform("coulomb.weights", {8}, 0.2, 1.0));
  }
  void coulomb(const std::string &charges, const Irreps &irreps, const std::string &weights) {
    add({{"type", "coulomb"},
         {"input", charges},
         {"irreps_in", irreps.to_string()},
         {"weights", weights},
         {"prefactor", 0.6},
         {"cutoff", o_.coulomb_cutoff}});
    Json &layer = d_.document["layers"].back();
    if (o_.coulomb_width > 0.0)
      layer["kernel"] = {{"kind", "erf_shifted"}, {"sigma", o_.coulomb_width}, {"on", 0.45 * o_.coulomb_cutoff}};
    else
      layer["damping"] = 4.6;
    if (o_.permittivity > 0.0) layer["permittivity"] = o_.permittivity;
  }

  // The Ewald energy of charges that are linear in the scalars of a feature, in two blocks.
  void ewald(const std::string &input, const Irreps &irreps) {
    const Irreps charges = Irreps::parse("1x0e+2x0e");
    add(linear("latent", input, irreps, "latent", charges, false, false));
    add({{"type", "ewald"},
         {"input", "latent"},
         {"irreps_in", charges.to_string()},
         {"weights", uniform("ewald.weights", {3}, 0.4, 0.9)},
         {"prefactor", 30.0},
         {"width", o_.ewald_width},
         {"k_cutoff", o_.ewald_cutoff},
         {"k_set", o_.ewald_set},
         {"removes_self", o_.ewald_removes_self}});
  }

  // Potentials of the multipoles that a feature has, and the energy of these multipoles in them.
  void potential(const std::string &input, const Irreps &in, const std::string &output, const Irreps &out) {
    const int n = out[0].mul / in[0].mul, degrees = out.size();
    std::vector<double> widths;
    for (int w = 0; w < n; ++w) widths.push_back(o_.potential_width * (1.0 + 0.4 * w));
    std::vector<double> added;
    for (int k = 0; k < degrees * n; ++k) added.push_back(0.1 + 0.07 * k);
    add({{"type", "potential"},
         {"input", input},
         {"irreps_in", in.to_string()},
         {"output", output},
         {"irreps_out", out.to_string()},
         {"prefactor", 12.0},
         {"width", 0.9 * o_.potential_width},
         {"widths", stated(output + ".widths", {n}, widths)},
         {"factors", uniform(output + ".factors", {degrees, n}, 0.3, 0.8)},
         {"own", uniform(output + ".own", {degrees, n}, 0.1, 0.4)},
         {"k_cutoff", o_.ewald_cutoff},
         {"k_set", o_.ewald_set},
         {"open", {{"offset", 0.1}, {"softening", 1e-3}, {"added", stated(output + ".added", {degrees, n}, added)}}},
         {"field", {{"share", 0.7}, {"origin", output == "felt" ? "zero" : "mean"}}}});
  }
  // Multipoles with given sums of charges, which change in their potentials, and their energy.
  void potentials(const std::string &input, const Irreps &irreps) {
    const Irreps multipoles = Irreps::parse(o_.potential_dipoles ? "2x0e+2x1o" : "2x0e"),
                 with_shares = Irreps::parse(o_.potential_dipoles ? "2x0e+2x0e+2x1o" : "2x0e+2x0e"),
                 felt = Irreps::parse(o_.potential_gradients ? "6x0e+6x1o" : "6x0e"),
                 own = Irreps::parse(o_.potential_gradients ? "2x0e+2x1o" : "2x0e"), energy = Irreps::parse("2x0e");
    for (int n = 0; n <= o_.potential_updates; ++n) {
      const std::string k = std::to_string(n), charges = "charges" + k, balanced = "charges" + k + "_balanced";
      Json first = linear(charges, input, irreps, charges, with_shares, false, false);
      // Shares of either sign, whose sum is not near 0.
      for (const Json &bias : first["biases"]) d_.tensors.erase(bias["tensor"].get<std::string>());
      first["biases"] = {{{"out", 1}, {"tensor", stated(charges + ".shares", {2}, {2.5, 3.5})}, {"scale", 1.0}}};
      add(first);
      if (n > 0) {
        const std::string before = std::to_string(n - 1);
        add(linear(charges + "_kept", "charges" + before + "_balanced", with_shares, charges, with_shares, false,
                   true));
        add(linear(charges + "_felt", "felt" + before, felt, charges, with_shares, false, true));
      }
      add({{"type", "channel_balance"},
           {"input", charges},
           {"irreps_in", with_shares.to_string()},
           {"output", balanced},
           {"irreps_out", with_shares.to_string()},
           {"block", 0},
           {"first", 0},
           {"target", stated(balanced + ".target", {2}, {1.0, -0.5})},
           {"shares", {{"block", 1}, {"first", 0}, {"power", 1}}}});
      const bool is_last = n == o_.potential_updates;
      const std::string sources = is_last ? "multipoles" : "multipoles" + k;
      add(linear(sources, balanced, with_shares, sources, multipoles, false, false));
      potential(sources, multipoles, is_last ? "felt" : "felt" + k, is_last ? own : felt);
    }
    Json paths = Json::array();
    for (int l = 0; l < std::min(multipoles.size(), own.size()); ++l)
      paths.push_back({{"in", {l, multipoles.size() + l}}, {"out", 0}, {"scale", 0.5}});
    add({{"type", "node_product"},
         {"inputs", {"multipoles", "felt"}},
         {"irreps_in", {multipoles.to_string(), own.to_string()}},
         {"output", "multipole_energy"},
         {"irreps_out", energy.to_string()},
         {"paths", paths}});
    add({{"type", "readout"},
         {"input", "multipole_energy"},
         {"irreps_in", energy.to_string()},
         {"block", 0},
         {"network", network("multipole_energy", {2, 1})}});
  }

  // The energies of balanced charges and of the magnitudes of ratios, both linear in the scalars of a feature. They are
  // blocks of one feature or, with far_features, of two.
  void coulomb_and_dispersion(const std::string &input, const Irreps &irreps) {
    const Irreps both = Irreps::parse("2x0e+1x0e+3x0e");
    add(linear("far_in", input, irreps, "far_in", both, false, false));
    Json terms = Json::array();
    for (int b = 0; b < both.size(); ++b)
      terms.push_back(
          {{"out", b}, {"in", b}, {"offset", 0}, {"activation", b == 1 ? "abs" : "identity"}, {"scale", 1.0}});
    add({{"type", "gate"},
         {"input", "far_in"},
         {"irreps_in", both.to_string()},
         {"output", "far"},
         {"irreps_out", both.to_string()},
         {"terms", terms}});
    add({{"type", "channel_balance"},
         {"input", "far"},
         {"irreps_in", both.to_string()},
         {"output", "balanced"},
         {"irreps_out", both.to_string()},
         {"block", 2},
         {"first", 1},
         {"target", stated("charge", {2}, {1.0, -0.5})}});
    coulomb("balanced", both, stated("coulomb.weights", {6}, {0.3, 0.9, 0.0, 0.4, 0.7, 0.5}));
    const Irreps alone = Irreps::parse("1x0e");
    if (o_.far_features)
      add({{"type", "linear"},
           {"input", "balanced"},
           {"irreps_in", both.to_string()},
           {"output", "ratios"},
           {"irreps_out", alone.to_string()},
           {"blocks", {{{"in", 1}, {"out", 0}, {"weight", stated("ratios.weight", {1, 1}, {0.9})}, {"scale", 1.0}}}},
           {"biases", Json::array()},
           {"per_species", false},
           {"accumulate", false}});
    add({{"type", "dispersion"},
         {"input", o_.far_features ? "ratios" : "balanced"},
         {"irreps_in", (o_.far_features ? alone : both).to_string()},
         {"polarizability", uniform("polarizability", {num_species()}, 4.0, 15.0)},
         {"c6", uniform("c6", {num_species()}, 10.0, 90.0)},
         {"scale", 0.6},
         {"cutoff", o_.dispersion_cutoff},
         {"damping", 1.7}});
    if (!o_.far_features) d_.document["layers"].back()["block"] = 1;
  }

  // From feature `input` to feature `output` of equal irreps.
  void contraction(const std::string &name, const std::string &input, const std::string &output, const Irreps &irreps) {
    const int num = o_.contraction_per_species ? num_species() : 0;
    const ContractionProduct product =
        random_contraction(irreps, irreps, o_.contraction_degree, o_.contraction_paths, num, random_);
    std::vector<Json> terms(irreps.size(), Json::array());
    for (const ContractionTerm &t : product.terms) {
      const std::string n = name + "." + std::to_string(t.out) + "." + std::to_string(t.degree);
      DocumentTensor coupling{{static_cast<int64_t>(t.entries.size()), t.degree + 3}, {}, true};
      for (const ContractionEntry &e : t.entries) {
        coupling.values.insert(coupling.values.end(), {double(e.component), double(e.path)});
        coupling.values.insert(coupling.values.end(), e.factor.begin(), e.factor.begin() + t.degree);
        coupling.values.push_back(e.coefficient);
      }
      d_.tensors[n + ".coupling"] = coupling;
      std::vector<int64_t> shape = {t.num_paths, irreps[t.out].mul};
      if (num > 0) shape.insert(shape.begin(), num);
      // Components of features are a few at the most: their powers stay of order one.
      terms[t.out].push_back({{"degree", t.degree},
                              {"weight", tensor(n + ".weight", shape, 0.5 * std::pow(0.4, t.degree - 1))},
                              {"coupling", n + ".coupling"}});
    }
    Json blocks = Json::array();
    for (int b = 0; b < irreps.size(); ++b) blocks.push_back({{"out", b}, {"terms", terms[b]}});
    add({{"type", "symmetric_contraction"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"per_species", o_.contraction_per_species},
         {"blocks", blocks}});
  }

  void norm_scale(const std::string &input, const std::string &output, const Irreps &irreps) {
    add({{"type", "norm_scale"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"offset", 0.75},
         {"factor", 0.25}});
  }

  void spherical_norm(const std::string &input, const std::string &output, const Irreps &irreps) {
    Json groups = Json::array();
    const auto weight = [&](int b) -> Json {
      const double mean = (0.5 + 0.25 * b) / (irreps[b].mul * irreps[b].irrep.dim());
      if (!o_.channel_weights) return mean;
      return uniform(output + "_norm.weights" + std::to_string(b), {irreps[b].mul}, 0.0, 2.0 * mean);
    };
    for (int b = 0; b < irreps.size(); ++b) {
      // The order within a group is descending, so that a mix-up shows.
      const bool is_new = b == 0 || o_.spherical_norm == "each" || (o_.spherical_norm == "first_alone" && b == 1);
      if (is_new) groups.push_back({{"blocks", Json::array()}, {"weights", Json::array()}, {"center", b == 0}});
      Json &group = groups.back();
      group["blocks"].insert(group["blocks"].begin(), b);
      group["weights"].insert(group["weights"].begin(), weight(b));
    }
    const std::string scale_name = output + "_norm.scale";
    Json scale = Json::array();
    const auto has_first_mul = [&](const IrrepBlock &block) { return block.mul == irreps[0].mul; };
    if (std::all_of(irreps.begin(), irreps.end(), has_first_mul))
      scale = uniform(scale_name, {irreps.size(), irreps[0].mul}, 0.5, 1.5);
    else
      for (int b = 0; b < irreps.size(); ++b)
        scale.push_back(uniform(scale_name + std::to_string(b), {irreps[b].mul}, 0.5, 1.5));
    add({{"type", "spherical_norm"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"groups", groups},
         {"epsilon", 1e-5},
         {"scale", scale}});
    if (o_.biases) d_.document["layers"].back()["bias"] = tensor(output + "_norm.bias", {irreps[0].mul}, 0.3);
  }

  // All products of two blocks that couple to one of the output, some with their factors in descending order, and the
  // blocks themselves; or the Gaunt product of the first and the last input.
  void node_product(const std::vector<std::string> &inputs, const std::vector<Irreps> &of_inputs,
                    const std::string &output, const Irreps &out) {
    std::vector<IrrepBlock> in;
    Json names = Json::array(), paths = Json::array();
    for (const Irreps &irreps : of_inputs) {
      in.insert(in.end(), irreps.begin(), irreps.end());
      names.push_back(irreps.to_string());
    }
    Json layer = {{"type", "node_product"},
                  {"inputs", inputs},
                  {"irreps_in", names},
                  {"output", output},
                  {"irreps_out", out.to_string()}};
    if (o_.gaunt) {
      Json first = Json::array(), second = Json::array();
      for (int i = 0; i < of_inputs.front().size(); ++i) first.push_back(i);
      for (int i = 0; i < of_inputs.back().size(); ++i)
        second.push_back(static_cast<int>(in.size()) - of_inputs.back().size() + i);
      layer["gaunt"] = {first, second};
      return add(layer);
    }
    std::normal_distribution<double> normal(0.0, 0.45);
    for (int k = 0; k < out.size(); ++k)
      for (int i = 0; i < static_cast<int>(in.size()); ++i) {
        const Irrep a = in[i].irrep, c = out[k].irrep;
        if (a == c) paths.push_back({{"in", {i}}, {"out", k}, {"scale", normal(random_)}});
        for (int j = i; j < static_cast<int>(in.size()); ++j) {
          const Irrep b = in[j].irrep;
          if (c.l < std::abs(a.l - b.l) || c.l > a.l + b.l || a.p * b.p != c.p) continue;
          const Json pair = (i + j + k) % 3 == 0 ? Json{j, i} : Json{i, j};
          paths.push_back({{"in", pair}, {"out", k}, {"scale", normal(random_)}});
        }
      }
    layer["paths"] = paths;
    add(layer);
  }

  // A network on the radial basis with the options of such networks. scalars: for a convolution, the number of the
  // first block of scalars in its input.
  Json radial_network(const std::string &name, int num_outputs, int scalars = -1) {
    const bool is_convolution = scalars >= 0, reads_sender = is_convolution && o_.sender_scalars > 0;
    const bool reads_receiver = scalars >= 0 && o_.receiver_scalars > 0;
    const int sender_inputs = reads_sender ? o_.sender_scalars : o_.sender_columns;
    const int receiver_inputs = reads_receiver ? o_.receiver_scalars : o_.receiver_columns;
    const bool is_gated = is_convolution && o_.gates;
    std::vector<int> widths = {o_.num_basis + sender_inputs + receiver_inputs};
    widths.insert(widths.end(), o_.radial_hidden.begin(), o_.radial_hidden.end());
    widths.push_back(is_gated ? 2 * num_outputs : num_outputs);
    Json n = network(name, widths);
    if (is_gated)
      n["gate"] = {{"scale", 0.8},
                   {"norm",
                    {{"weight", uniform(name + ".gate_norm.weight", {num_outputs}, 0.5, 1.5)},
                     {"bias", tensor(name + ".gate_norm.bias", {num_outputs}, 0.3)},
                     {"epsilon", 1e-3}}}};
    if (reads_sender)
      n["sender"] = {{"block", scalars++}};
    else if (o_.sender_columns > 0)
      n["sender"] = tensor(name + ".sender", {num_species(), o_.sender_columns}, 1.0);
    if (reads_receiver)
      n["receiver"] = {{"block", scalars}};
    else if (o_.receiver_columns > 0)
      n["receiver"] =
          tensor(name + ".receiver", {num_species(), o_.receiver_columns + (is_gated ? num_outputs : 0)}, 1.0);
    if (o_.late_cutoff) n["times_cutoff"] = true;
    if (is_convolution && o_.charge_potentials)
      n["charge_potential"] = {{"widths", pairs(name + ".charge_widths", 0.6, 1.8)}, {"p", 6}};
    if (is_convolution && o_.activate_last) n["activate_last"] = true;
    if (is_convolution && o_.pair_factor)
      n["pair_factor"] = {{"receiver", uniform(name + ".of_receiver", {num_species(), num_outputs}, 0.2, 1.2)},
                          {"sender", uniform(name + ".of_sender", {num_species(), num_outputs}, 0.2, 1.2)}};
    if (o_.norms) {
      n["norms"] = Json::array();
      for (size_t k = 0; k < o_.radial_hidden.size(); ++k) {
        const std::string norm = name + ".norm" + std::to_string(k);
        n["norms"].push_back({{"weight", uniform(norm + ".weight", {o_.radial_hidden[k]}, 0.5, 1.5)},
                              {"bias", tensor(norm + ".bias", {o_.radial_hidden[k]}, 0.3)},
                              {"epsilon", 1e-5}});
      }
      n["norms"].push_back(nullptr);
    }
    return n;
  }

  Json network(const std::string &name, const std::vector<int> &widths) {
    Json n = {
        {"weights", Json::array()}, {"scales", Json::array()}, {"activation", "silu"}, {"activation_scale", 1.68}};
    if (widths.size() == 2) n["activation"] = "identity";
    if (o_.biases) n["biases"] = Json::array();
    for (size_t k = 0; k + 1 < widths.size(); ++k) {
      n["weights"].push_back(tensor(name + ".w" + std::to_string(k), {widths[k], widths[k + 1]}, 1.0));
      n["scales"].push_back(1.0 / std::sqrt(widths[k]));
      if (!o_.biases) continue;
      if (k == 0)    // one null among them
        n["biases"].push_back(
            {{"tensor", tensor(name + ".b" + std::to_string(k), {widths[k + 1]}, 0.3)}, {"scale", 0.7}});
      else
        n["biases"].push_back(nullptr);
    }
    return n;
  }

  Json linear(const std::string &name, const std::string &input, const Irreps &in, const std::string &output,
              const Irreps &out, bool per_species, bool accumulate) {
    Json blocks = Json::array(), biases = Json::array();
    for (int j = 0; j < out.size(); ++j) {
      int fan_in = 0;
      for (const IrrepBlock &b : in) fan_in += b.irrep == out[j].irrep ? b.mul : 0;
      for (int i = 0; i < in.size(); ++i) {
        if (in[i].irrep != out[j].irrep) continue;
        const std::string w = name + "." + std::to_string(i) + "." + std::to_string(j);
        std::vector<int64_t> shape = {in[i].mul, out[j].mul};
        if (per_species) shape.insert(shape.begin(), num_species());
        blocks.push_back(
            {{"in", i}, {"out", j}, {"weight", tensor(w, shape, 1.0)}, {"scale", 1.0 / std::sqrt(fan_in)}});
      }
      if (o_.biases && out[j].irrep == Irrep{0, 1})
        biases.push_back(
            {{"out", j}, {"tensor", tensor(name + ".bias" + std::to_string(j), {out[j].mul}, 0.3)}, {"scale", 0.9}});
    }
    return {{"type", "linear"},
            {"input", input},
            {"irreps_in", in.to_string()},
            {"output", output},
            {"irreps_out", out.to_string()},
            {"blocks", blocks},
            {"biases", biases},
            {"per_species", per_species},
            {"accumulate", accumulate}};
  }

  // A block of so many channels for each l.
  Irreps spherical_irreps(int channels) const {
    std::vector<IrrepBlock> blocks;
    for (int l = 0; l <= o_.so2_lmax; ++l) blocks.push_back({channels, {l, 1}});
    return Irreps(blocks);
  }

  void so2_convolution(const std::string &name, const std::string &input, const std::string &output) {
    const int lmax = o_.so2_lmax;
    Json linears = Json::array();
    std::vector<int> widths = o_.so2_hidden;
    widths.push_back(o_.so2_out);
    int channels = 2 * o_.so2_in, num_factors = 0;
    for (size_t k = 0; k < widths.size(); ++k) {
      const std::string n = name + "." + std::to_string(k);
      const int number = static_cast<int>(k);
      for (int m = 0; number == o_.so2_radial && m <= o_.so2_mmax; ++m) num_factors += (lmax + 1 - m) * channels;
      const bool has_product = k == 0 && o_.so2_product, has_points = number == o_.so2_points;
      const bool has_gate =
          !has_product && !has_points && number >= o_.so2_radial && (k + 1 < widths.size() || o_.so2_gate_last);
      const int after = widths[k];
      if (has_product) widths[k] *= 2;
      // Rows before the orders of m = 0.
      int gates = has_gate ? lmax : 0;
      const int score_rows = k == 0 ? (o_.so2_heads * o_.so2_scores + widths[k] - 1) / widths[k] : 0;
      if (has_product) gates = 2 + score_rows;
      if (has_points) gates = o_.so2_point_scalars + score_rows;
      Json linear = {{"channels", widths[k]}, {"weights", Json::array()}};
      if (has_gate) linear["gate"] = {{"scalars", o_.so2_scalars}, {"gates", o_.so2_gates}};
      if (has_product) linear["product"] = product_of_functions(n);
      if (has_points) linear["at_points"] = activation_at_points(n);
      for (int m = 0; m <= o_.so2_mmax; ++m) {
        const int orders = lmax + 1 - m, in = orders * channels;
        const int out = (orders + (m == 0 ? gates : 0)) * widths[k];
        const double width = o_.so2_gain / std::sqrt(m == 0 ? in : 2 * in);
        const std::string w = n + ".m" + std::to_string(m);
        linear["weights"].push_back(m == 0 ? tensor(w, {in, out}, width) : tensor(w, {2, in, out}, width));
        if (m == 0 && o_.biases) linear["bias"] = tensor(n + ".bias", {out}, 0.3);
      }
      linears.push_back(linear);
      channels = after;
    }
    Json attention;
    if (o_.so2_heads > 0)
      attention = {{"heads", o_.so2_heads},
                   {"channels", o_.so2_scores},
                   {"weight", tensor(name + ".scores.weight", {o_.so2_scores}, 1.0)},
                   {"bias", tensor(name + ".scores.bias", {o_.so2_scores}, o_.so2_score_bias)},
                   {"vector", tensor(name + ".scores.vector", {o_.so2_heads, o_.so2_scores}, o_.so2_vector)},
                   {"epsilon", 1e-3}};
    Json layer = {{"type", "so2_convolution"},
                  {"input", input},
                  {"irreps_in", spherical_irreps(o_.so2_in).to_string()},
                  {"output", output},
                  {"irreps_out", spherical_irreps(o_.so2_out).to_string()},
                  {"mmax", o_.so2_mmax},
                  {"radial", radial_network(name, num_factors)},
                  {"linears", linears}};
    if (o_.so2_radial > 0) layer["radial_linear"] = o_.so2_radial;
    if (o_.so2_radial > 0) layer["radial"]["activate_last"] = true;
    if (o_.so2_heads > 0) layer["attention"] = attention;
    add(layer);
  }

  // The features between which a pair attention of an interaction is.
  Irreps attention_irreps(bool is_input, int t) const {
    const int of_heads = o_.attention_heads * o_.attention_channels;
    const int of_groups = static_cast<int>(o_.attention_degrees.size()) * o_.attention_group_channels;
    std::vector<IrrepBlock> blocks(is_input ? 3 : 1, {of_heads, {0, 1}});
    if (is_input) blocks.insert(blocks.end(), 2, {of_groups, {0, 1}});
    for (const int l : o_.attention_degrees)
      if (!is_input || t >= o_.attention_tensors) blocks.push_back({1, {l, o_.parity && l % 2 ? -1 : 1}});
    return Irreps(blocks);
  }

  void pair_attention(int t, const std::string &input, const std::string &output) {
    const std::string name = "attention_" + std::to_string(t);
    const int of_heads = o_.attention_heads * o_.attention_channels,
              num = static_cast<int>(o_.attention_degrees.size());
    const int of_groups = num * o_.attention_group_channels;
    Json groups = Json::array(), networks = Json::array();
    for (const int l : o_.attention_degrees)
      groups.push_back({{"channels", o_.attention_group_channels},
                        {"l", l},
                        {"scale", (0.7 + 0.1 * l) / (o_.denominator * std::sqrt(o_.attention_group_channels))}});
    for (const int num_outputs : {of_heads, of_groups}) {
      std::vector<int> widths = {num, num_outputs};
      widths.insert(widths.begin() + 1, o_.attention_hidden.begin(), o_.attention_hidden.end());
      networks.push_back(network(name + ".difference" + std::to_string(networks.size()), widths));
    }
    Json radial = radial_network(name, of_heads + of_groups);
    radial["times_cutoff"] = true;
    add({{"type", "pair_attention"},
         {"input", input},
         {"irreps_in", attention_irreps(true, t).to_string()},
         {"output", output},
         {"irreps_out", attention_irreps(false, t).to_string()},
         {"heads", o_.attention_heads},
         {"scale", 1.1 / (o_.denominator * std::sqrt(o_.attention_channels))},
         {"groups", groups},
         {"radial", radial},
         {"difference_networks", networks}});
  }

  // A local network as in Allegro. Edges have scalars from distances and species, which weight harmonics. In each layer
  // tensors of edges are multiplied by an environment, and a network of all scalars so far makes further scalars and
  // the factors of the next environment.
  void local_network() {
    const int num_tensors = o_.local_channels, num_scalars = o_.local_scalars, embedding = o_.local_embedding;
    Json features = Json::array(), steps = Json::array();
    const auto feature = [&](const std::string &irreps) {
      features.push_back(irreps);
      return static_cast<int>(features.size()) - 1;
    };
    const auto scalars = [](int channels) { return std::to_string(channels) + "x0e"; };
    const auto tensors = [&](const std::string &irreps) {
      std::vector<IrrepBlock> blocks;
      for (const IrrepBlock &b : Irreps::parse(irreps)) blocks.push_back({num_tensors, b.irrep});
      return Irreps(blocks);
    };
    const auto local_mlp = [&](const std::string &name, int in, const std::vector<int> &hidden, int out) {
      std::vector<int> widths = {in, out};
      widths.insert(widths.begin() + 1, hidden.begin(), hidden.end());
      Json n = network(name, widths);
      if (!hidden.empty()) n["activation"] = o_.local_activation;
      return n;
    };
    const auto dense = [&](const Json &inputs, int output, const Json &net) {
      steps.push_back({{"step", "dense"}, {"inputs", inputs}, {"output", output}, {"network", net}});
    };
    const Irreps harmonics = tensors(o_.local_irreps[0]);
    const int num_factors = num_tensors * (o_.local_shared ? 1 : harmonics.size());
    const auto tensor_of = [&](int scalars_of, int block) {
      const int x = feature(harmonics.to_string());
      steps.push_back({{"step", "tensor"}, {"input", {scalars_of, block}}, {"output", x}, {"shared", o_.local_shared}});
      return x;
    };
    const auto sum_of = [&](int x) {
      const int sums = feature(features[x]);
      steps.push_back({{"step", "sum"}, {"input", x}, {"output", sums}, {"scale", 0.5}});
      return sums;
    };
    const auto product_of = [&](int x, int environment, const std::string &irreps, const std::string &name) {
      const Irreps in = Irreps::parse(features[x]), second = Irreps::parse(features[environment]),
                   out = tensors(irreps);
      const int y = feature(out.to_string());
      Json paths = Json::array();
      for (int c = 0; c < out.size(); ++c)
        for (int a = 0; a < in.size(); ++a)
          for (int b = 0; b < second.size(); ++b) {
            const int l1 = in[a].irrep.l, l2 = second[b].irrep.l, l3 = out[c].irrep.l;
            if (l3 < std::abs(l1 - l2) || l3 > l1 + l2 || in[a].irrep.p * second[b].irrep.p != out[c].irrep.p) continue;
            paths.push_back({{"input", a},
                             {"environment", b},
                             {"output", c},
                             {"scale", std::sqrt(2.0 * l3 + 1.0)},
                             {"weights", tensor(name + "." + std::to_string(paths.size()),
                                                {o_.local_channelwise ? num_tensors : 1}, 0.5)}});
          }
      steps.push_back(
          {{"step", "product"}, {"input", x}, {"environment", environment}, {"output", y}, {"paths", paths}});
      return y;
    };

    const int e0 = feature(scalars(embedding)), e = feature(scalars(num_scalars)), a = feature(scalars(num_factors)),
              first = feature(scalars(num_scalars) + "+" + scalars(num_factors));
    Json step = {{"step", "scalars"}, {"output", e0}, {"scale", o_.local_gain}};
    if (o_.local_pairs)
      step["pair_weights"] = tensor("local.pairs", {num_species(), num_species(), o_.num_basis, embedding}, 1.0);
    else
      step.update({{"weights", tensor("local.basis", {o_.num_basis, embedding}, 1.0)},
                   {"receiver", tensor("local.receiver", {num_species(), embedding / 3}, 1.0)},
                   {"sender", tensor("local.sender", {num_species(), embedding - embedding / 3}, 1.0)}});
    steps.push_back(step);
    dense({{e0, 0}}, e, local_mlp("local.e", embedding, o_.local_first_hidden, num_scalars));
    dense({{e, 0}}, a, local_mlp("local.a", num_scalars, {}, num_factors));
    dense({{e, 0}}, first, local_mlp("local.w", num_scalars, {}, num_scalars + num_factors));
    int x = tensor_of(a, 0), second = -1, factors = first;
    Json inputs = {{first, 0}};
    for (int t = 0; t < o_.local_layers; ++t) {
      const std::string name = "local." + std::to_string(t);
      const int environment = sum_of(tensor_of(factors, 1));
      x = product_of(x, environment, o_.local_irreps[t + 1], name + ".product");
      if (t == 0) second = x;
      const bool is_last = t + 1 == o_.local_layers;
      factors = feature(scalars(num_scalars) + (is_last ? "" : "+" + scalars(num_factors)));
      Json all = inputs;
      all.push_back({x, 0});
      dense(all, factors,
            local_mlp(name + ".network", (t + 1) * num_scalars + num_tensors, o_.local_hidden,
                      num_scalars + (is_last ? 0 : num_factors)));
      inputs.push_back({factors, 0});
    }
    if (o_.local_more) {
      // An environment that is a sum of products, in two products, and a readout of a part of the tensors.
      const int environment = sum_of(second);
      inputs.push_back({product_of(second, environment, "0e", "local.more"), 0});
      inputs.push_back({product_of(second, environment, "0e", "local.again"), 0});
      steps.push_back({{"step", "readout"},
                       {"inputs", {{second, 0}}},
                       {"network", local_mlp("local.part", num_tensors, {}, 1)},
                       {"scale", 0.3}});
    }
    const int width = (o_.local_layers + 1) * num_scalars + (o_.local_more ? 2 * num_tensors : 0);
    steps.push_back({{"step", "readout"},
                     {"inputs", inputs},
                     {"network", local_mlp("local.readout", width, o_.local_hidden, 1)},
                     {"scale", tensor("local.scale", {num_species()}, 1.0)}});
    add({{"type", "local_network"}, {"features", features}, {"steps", steps}});
  }

  // f(point, weight): equal angles about the y axis, and along it the nodes of Gauss. The weights have the sum 1.
  template <class F>
  static void for_sphere_points(int rings, int on_ring, const F &f) {
    for (int ring = 0; ring < rings; ++ring) {
      double x = std::cos(M_PI * (ring + 0.75) / (rings + 0.5)), slope = 1.0;
      for (int step = 0; step < 50; ++step) {    // Newton's for the zeros of Legendre's polynomial
        double before = 1.0, p = x;
        for (int l = 2; l <= rings; ++l) {
          const double next = ((2 * l - 1) * x * p - (l - 1) * before) / l;
          before = p;
          p = next;
        }
        slope = rings * (before - x * p) / (1.0 - x * x);
        x -= p / slope;
      }
      const double weight = 1.0 / ((1.0 - x * x) * slope * slope * on_ring);
      for (int k = 0; k < on_ring; ++k) {
        const double angle = 2.0 * M_PI * (k + 0.3) / on_ring, across = std::sqrt(1.0 - x * x);
        const double point[3] = {across * std::sin(angle), x, across * std::cos(angle)};
        f(point, weight);
      }
    }
  }

  // From feature `input` to feature `output` of equal irreps.
  void grid_network(const std::string &name, const std::string &input, const std::string &output,
                    const Irreps &irreps) {
    const int lmax = irreps.lmax(), rings = o_.grid_rings, on_ring = 2 * rings - 1;
    std::vector<double> to, from, y((lmax + 1) * (lmax + 1));
    for_sphere_points(rings, on_ring, [&](const double *point, double weight) {
      spherical_harmonics(lmax, point, y.data(), nullptr);
      for (const IrrepBlock &b : irreps)
        for (int c = b.irrep.l * b.irrep.l; c < (b.irrep.l + 1) * (b.irrep.l + 1); ++c) {
          to.push_back(y[c] / (2 * b.irrep.l + 1.0));
          from.push_back(weight * y[c]);
        }
    });
    const int points = rings * on_ring, size = static_cast<int>(to.size()) / points;
    std::vector<int> widths = {irreps[0].mul, irreps[0].mul};
    widths.insert(widths.begin() + 1, o_.grid_hidden.begin(), o_.grid_hidden.end());
    add({{"type", "grid_network"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"points", points},
         {"to", stated(name + ".to", {points, size}, to)},
         {"from", stated(name + ".from", {points, size}, from)},
         {"network", network(name, widths)}});
    if (!o_.biases) return;
    Json &last = d_.document["layers"].back()["network"]["biases"].back();
    last = {{"tensor", tensor(name + ".last", {widths.back()}, 0.3)}, {"scale", 1.0}};
  }

  Json activation_at_points(const std::string &name) {
    Json made = functions_at_points(name, o_.so2_rings, 2 * o_.so2_rings - 1);
    made["activation"] = "silu";
    if (o_.so2_point_scalars) made["scalars"] = o_.so2_scalars;
    return made;
  }

  // Points at which products of components up to so2_lmax and so2_mmax are exact.
  Json product_of_functions(const std::string &name) {
    Json made = functions_at_points(name, (3 * o_.so2_lmax) / 2 + 1, 3 * o_.so2_mmax + 1);
    made["scalars"] = o_.so2_scalars;
    made["gates"] = o_.so2_gates;
    return made;
  }

  // Matrices from components up to so2_lmax and so2_mmax to points, and back.
  Json functions_at_points(const std::string &name, int rings, int on_ring) {
    const int lmax = o_.so2_lmax, mmax = o_.so2_mmax;
    std::vector<double> to, from, y((lmax + 1) * (lmax + 1));
    for_sphere_points(rings, on_ring, [&](const double *point, double weight) {
      spherical_harmonics(lmax, point, y.data(), nullptr);
      for (int l = 0; l <= lmax; ++l)
        for (int m = -std::min(l, mmax); m <= std::min(l, mmax); ++m) {
          const double value = y[l * l + l + m] / (2 * l + 1.0);
          to.push_back((1.0 + 0.2 * l) * value);
          from.push_back(weight * (2 * l + 1.0) * value);
        }
    });
    const int points = rings * on_ring, size = static_cast<int>(to.size()) / points;
    return {{"points", points},
            {"to", stated(name + ".to", {points, size}, to)},
            {"from", stated(name + ".from", {points, size}, from)}};
  }
};

}    // namespace testing
}    // namespace equi

#endif
