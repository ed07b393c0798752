// SPDX-License-Identifier: MIT
// Tiny random models, made on the spot: a document and tensors as `equi convert` would write them, open to change
// before they become the bytes of an .equi file. Header-only, for all levels of tests.
//
//   TinyModelOptions options;
//   options.hidden = {"13x0e+5x1e", "5x0e"};
//   ModelDocument d = make_tiny_model(options);
//   d.document["cutoff"] = -1.0;                      // break it, where a test wants that
//   Model model = parse_model(d.bytes(), "tiny.equi");
#ifndef EQUI_TEST_MODEL_BUILDER_H
#define EQUI_TEST_MODEL_BUILDER_H

#include "src/algebra/irreps.h"
#include "src/algebra/spherical_harmonics.h"
#include "src/base/data_hash.h"
#include "src/model/model_file.h"
#include "unittest/support/contraction_builder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

using Json = nlohmann::json;

struct DocumentTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
  bool is_double = true;
};

// A model file in the making.
struct ModelDocument {
  Json document;
  std::map<std::string, DocumentTensor> tensors;

  // The safetensors container. Public pieces, so that tests can put together damaged ones. The document gets the hash
  // of the data unless a test has put one there or taken the version back to one without.
  Json header() const {
    Json h, stamped = document;
    const Json version = document.value("format_version", Json());
    if (!document.contains("data_hash") && version.is_number() && version >= FIRST_VERSION_WITH_HASH) {
      const std::string bytes = data();
      stamped["data_hash"] = data_hash(bytes.data(), bytes.size());
    }
    h["__metadata__"] = {{"equi", stamped.dump()}};
    int64_t at = 0;
    for (const auto &[name, t] : tensors) {
      const int64_t end = at + static_cast<int64_t>(t.values.size()) * (t.is_double ? 8 : 4);
      h[name] = {{"dtype", t.is_double ? "F64" : "F32"}, {"shape", t.shape}, {"data_offsets", {at, end}}};
      at = end;
    }
    return h;
  }
  std::string data() const {
    std::string bytes;
    for (const auto &item : tensors)
      for (double v : item.second.values) {
        const float f = static_cast<float>(v);
        if (item.second.is_double)
          bytes.append(reinterpret_cast<const char *>(&v), 8);
        else
          bytes.append(reinterpret_cast<const char *>(&f), 4);
      }
    return bytes;
  }
  static std::string container(const std::string &header_text, const std::string &data) {
    const uint64_t length = header_text.size();
    return std::string(reinterpret_cast<const char *>(&length), 8) + header_text + data;
  }
  std::string bytes() const { return container(header().dump(), data()); }
  void write(const std::string &path) const {
    const std::string b = bytes();
    std::ofstream(path, std::ios::binary).write(b.data(), static_cast<std::streamsize>(b.size()));
  }
  Model model() const { return parse_model(bytes(), "tiny.equi"); }
};

struct TinyModelOptions {
  std::vector<std::string> elements = {"Na", "Cl"};
  double cutoff = 4.0;
  int lmax_edge = 2;
  bool parity = false;    // harmonics with parity (-1)^l; then hidden may hold odd irreps
  int embedding_channels = 5;
  // What each interaction layer (convolution and gate) produces; the last must hold a 0e block. 0o scalars pass tanh,
  // everything else silu.
  std::vector<std::string> hidden = {"5x0e+3x1e+2x2e", "5x0e"};
  bool per_species_linear = false;    // self-connection with weights of the atom's species
  bool biases = false;                // on the 0e blocks of the linears, in the radial and readout networks
  bool xplor = true;                  // else the polynomial
  bool cosine = false;                // neither of the two
  double p = 6.0, r_on = 3.5;
  int num_basis = 4;
  std::vector<int> radial_hidden = {8, 8};
  std::vector<int> readout_hidden = {};    // empty: one matrix
  bool r_power = false;                    // weights times r^l2
  std::string basis = "bessel";            // or gaussian, chebyshev, exp_normal
  std::string transform = "";              // or agnesi, soft
  bool symmetric_r0 = false;               // of the transform
  bool pair_cutoffs = false;               // not with a transform or xplor
  bool late_cutoff = false;                // on the radial weights, not on the basis
  int sender_columns = 0;                  // rows of the species as further inputs of the radial networks
  int receiver_columns = 0;
  // Scalars of these numbers, appended to the input of each convolution, as further inputs of its radial network.
  int sender_scalars = 0;
  int receiver_scalars = 0;
  bool norms = false;            // in the radial networks
  bool activate_last = false;    // in the radial networks of convolutions
  bool pair_factor = false;      // on their outputs
  bool density = false;          // a density normalization behind each convolution
  int contraction_degree = 0;    // a contraction behind each gate up to this degree; then all blocks of an entry of
  int contraction_paths = 3;     // `hidden` have equal multiplicities. Paths per degree and block, at most.
  bool contraction_per_species = true;
  // Behind each gate products of its output ("square": after a scale by norms; "pair": with what a scale by norms makes
  // of it, or with the input of the convolution if that has as many channels and is not of the species alone). Then all
  // blocks of an entry of `hidden` have equal multiplicities.
  std::string node_product = "";
  bool gaunt = false;    // these are products of functions on the sphere; then orders of blocks differ in each entry
  // Behind each gate a spherical norm with the blocks in one group ("all"), with the first one in a group of its own
  // ("first_alone"), or with each in one of its own ("each"). Then all blocks of an entry of `hidden` have equal
  // multiplicities, and the first one is the only 0e block.
  std::string spherical_norm = "";
  // Behind each gate a network with hidden layers of these widths at points on so many rings of the sphere; not 0 only
  // where all blocks of an entry of `hidden` have equal multiplicities.
  int grid_rings = 0;
  std::vector<int> grid_hidden = {};
  bool layer_norm = false;          // of what the readout reads; then the last entry of `hidden` has scalars alone
  int balanced_channels = 0;        // of the first 0e block behind each interaction
  bool balance_shares = false;      // by shares that the last channels of the first 0e block say
  bool late_inputs = false;         // from the third interaction on, also a convolution of the one before the last
  bool repulsion_inside = false;    // before scale_shift
  bool repulsion_outside = false;
  double coulomb_cutoff = 0.0;    // not 0: a Coulomb energy of the scalars that the readout's input has
  double permittivity = 0.0;      // of its reaction field; 0: it is one of all pairs
  int connected_channels = 0;     // not 0: all paths but those of block 0 with l2 = 0 are uvw, to blocks of so many
  // Not -1: from interaction so2_begin on the convolutions are SO(2) convolutions up to this l and so2_mmax, between
  // features of so2_in and so2_out channels for each l, with linears of so2_hidden channels between them.
  int so2_lmax = -1;
  int so2_mmax = 0, so2_begin = 1, so2_in = 5, so2_out = 3;
  std::vector<int> so2_hidden = {4};
  std::string so2_scalars = "silu",
              so2_gates = "sigmoid";    // activations; of the last linear, too, with so2_gate_last
  bool so2_gate_last = false;
  // From interaction so2_begin on blocks are those of eSEN: messages of normalized features, then a network of each
  // atom, each added to what it begins with. All features have so2_in = so2_out channels of each l.
  bool so2_blocks = false;
  // The first linear has a product of functions in place of the gate, its channels twice so2_hidden[0]; with heads,
  // attention with so2_scores scores each.
  bool so2_product = false;
  int so2_heads = 0, so2_scores = 5;
  double denominator = 3.0;
  bool is_double = true;    // F64 tensors, else F32
  unsigned seed = 1;
};

class TinyModelMaker {
 public:
  explicit TinyModelMaker(const TinyModelOptions &o) : o_(o), random_(o.seed) {}

  ModelDocument make() {
    Json &doc = d_.document;
    doc["format"] = "equi";
    doc["format_version"] = MODEL_FORMAT_VERSION;
    doc["framework"] = {{"name", "test"}, {"version", "1"}};
    doc["architecture"] = "SevenNet";
    doc["elements"] = o_.elements;
    doc["cutoff"] = o_.cutoff;
    doc["lmax_edge"] = o_.lmax_edge;
    doc["edge_parity"] = o_.parity;
    doc["provenance"] = {{"source", "unittest/support/model_builder.h"}};
    doc["units"] = {{"energy", "eV"}, {"length", "Angstrom"}};
    doc["self_check"] = Json::array();

    doc["radial_basis"] = radial_basis();

    doc["layers"] = Json::array();
    Irreps x(std::vector<IrrepBlock>{{o_.embedding_channels, {0, 1}}});
    add({{"type", "species_embedding"},
         {"output", "x0"},
         {"irreps", x.to_string()},
         {"weight", tensor("embedding", {num_species(), o_.embedding_channels}, 1.0)},
         {"scale", 1.0}});
    for (size_t t = 0; t < o_.hidden.size(); ++t) {
      const Irreps next = Irreps::parse(o_.hidden[t]);
      interaction(static_cast<int>(t), x, next);
      if (o_.balanced_channels > 0) balance(static_cast<int>(t) + 1, next);
      x = next;
    }

    std::string last = "x" + std::to_string(o_.hidden.size());
    if (o_.layer_norm) last = layer_norm(last, x);
    int block = 0;
    while (x[block].irrep != Irrep{0, 1}) ++block;
    std::vector<int> widths = {x[block].mul};
    widths.insert(widths.end(), o_.readout_hidden.begin(), o_.readout_hidden.end());
    widths.push_back(1);
    add({{"type", "readout"},
         {"input", last},
         {"irreps_in", x.to_string()},
         {"block", block},
         {"network", network("readout", widths)}});
    if (o_.repulsion_inside) repulsion("inside");
    if (o_.coulomb_cutoff > 0.0) coulomb(last, x);
    add({{"type", "scale_shift"},
         {"scale", tensor("scale", {num_species()}, 1.0)},
         {"shift", tensor("shift", {num_species()}, 1.0)}});
    if (o_.repulsion_outside) repulsion("outside");
    return d_;
  }

 private:
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

  // Of the transform of distances.
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
    } else {
      basis["size"] = o_.num_basis;
    }
    basis["cutoff_function"] = {{"kind", "polynomial"}, {"p", o_.p}};
    if (o_.xplor) basis["cutoff_function"] = {{"kind", "xplor"}, {"r_on", o_.r_on}};
    if (o_.cosine) basis["cutoff_function"] = {{"kind", "cosine"}};
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
    add({{"type", "channel_balance"},
         {"input", "u" + n},
         {"irreps_in", irreps.to_string()},
         {"output", "x" + n},
         {"irreps_out", irreps.to_string()},
         {"block", block},
         {"first", std::min(1, irreps[block].mul - o_.balanced_channels)},
         {"target", tensor("balance" + n, {o_.balanced_channels}, 1.0)}});
    if (!o_.balance_shares) return;
    Json &shares = d_.document["layers"].back()["shares"];
    shares = {{"block", block}, {"first", irreps[block].mul - o_.balanced_channels}, {"epsilon", 0.05}};
  }

  // Of a length that atoms some Angstrom apart feel.
  void repulsion(const std::string &name) {
    add({{"type", "pair_repulsion"},
         {"prefactor", pairs(name + ".prefactor", 5.0, 15.0)},
         {"length", pairs(name + ".length", 0.6, 1.2)},
         {"cutoff", pairs(name + ".cutoff", 0.5 * o_.cutoff, o_.cutoff)},
         {"p", o_.p},
         {"coefficients", {0.18, 0.51, 0.28, 0.03}},
         {"exponents", {3.2, 0.94, 0.4, 0.2}}});
  }

  // Of charges that are linear in the scalars of a feature, in two blocks.
  void coulomb(const std::string &input, const Irreps &irreps) {
    const Irreps charges = Irreps::parse("3x0e+5x0e");
    add(linear("charges", input, irreps, "charges", charges, false, false));
    add({{"type", "coulomb"},
         {"input", "charges"},
         {"irreps_in", charges.to_string()},
         {"weights", uniform("coulomb.weights", {8}, 0.2, 1.0)},
         {"prefactor", 0.6},
         {"cutoff", o_.coulomb_cutoff},
         {"damping", 4.6}});
    if (o_.permittivity > 0.0) d_.document["layers"].back()["permittivity"] = o_.permittivity;
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
    const auto weight = [&](int b) { return (0.5 + 0.25 * b) / (irreps[b].mul * irreps[b].irrep.dim()); };
    for (int b = 0; b < irreps.size(); ++b) {
      // The order within a group is descending, so that a mix-up shows.
      const bool is_new = b == 0 || o_.spherical_norm == "each" || (o_.spherical_norm == "first_alone" && b == 1);
      if (is_new) groups.push_back({{"blocks", Json::array()}, {"weights", Json::array()}, {"center", b == 0}});
      Json &group = groups.back();
      group["blocks"].insert(group["blocks"].begin(), b);
      group["weights"].insert(group["weights"].begin(), weight(b));
    }
    add({{"type", "spherical_norm"},
         {"input", input},
         {"irreps_in", irreps.to_string()},
         {"output", output},
         {"irreps_out", irreps.to_string()},
         {"groups", groups},
         {"epsilon", 1e-5},
         {"scale", uniform(output + "_norm.scale", {irreps.size(), irreps[0].mul}, 0.5, 1.5)}});
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

  // A network on the radial basis with the options of such networks.
  // Of a convolution: scalars is the number of the first block of scalars in its input.
  Json radial_network(const std::string &name, int num_outputs, int scalars = -1) {
    const bool is_convolution = scalars >= 0, reads_sender = is_convolution && o_.sender_scalars > 0;
    const bool reads_receiver = scalars >= 0 && o_.receiver_scalars > 0;
    const int sender_inputs = reads_sender ? o_.sender_scalars : o_.sender_columns;
    const int receiver_inputs = reads_receiver ? o_.receiver_scalars : o_.receiver_columns;
    std::vector<int> widths = {o_.num_basis + sender_inputs + receiver_inputs};
    widths.insert(widths.end(), o_.radial_hidden.begin(), o_.radial_hidden.end());
    widths.push_back(num_outputs);
    Json n = network(name, widths);
    if (reads_sender)
      n["sender"] = {{"block", scalars++}};
    else if (o_.sender_columns > 0)
      n["sender"] = tensor(name + ".sender", {num_species(), o_.sender_columns}, 1.0);
    if (reads_receiver)
      n["receiver"] = {{"block", scalars}};
    else if (o_.receiver_columns > 0)
      n["receiver"] = tensor(name + ".receiver", {num_species(), o_.receiver_columns}, 1.0);
    if (o_.late_cutoff) n["times_cutoff"] = true;
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
    for (int m = 0; m <= o_.so2_mmax; ++m) num_factors += (lmax + 1 - m) * channels;
    for (size_t k = 0; k < widths.size(); ++k) {
      const std::string n = name + "." + std::to_string(k);
      const bool has_product = k == 0 && o_.so2_product;
      const bool has_gate = !has_product && (k + 1 < widths.size() || o_.so2_gate_last);
      const int after = widths[k];
      if (has_product) widths[k] *= 2;
      // Rows before the orders of m = 0.
      int gates = has_gate ? lmax : 0;
      if (has_product) gates = 2 + (o_.so2_heads * o_.so2_scores + widths[k] - 1) / widths[k];
      Json linear = {{"channels", widths[k]}, {"weights", Json::array()}};
      if (has_gate) linear["gate"] = {{"scalars", o_.so2_scalars}, {"gates", o_.so2_gates}};
      if (has_product) linear["product"] = product_of_functions(n);
      for (int m = 0; m <= o_.so2_mmax; ++m) {
        const int orders = lmax + 1 - m, in = orders * channels;
        const int out = (orders + (m == 0 ? gates : 0)) * widths[k];
        const double width = 1.0 / std::sqrt(m == 0 ? in : 2 * in);
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
                   {"bias", tensor(name + ".scores.bias", {o_.so2_scores}, 0.3)},
                   {"vector", tensor(name + ".scores.vector", {o_.so2_heads, o_.so2_scores}, 0.4)},
                   {"epsilon", 1e-3}};
    Json layer = {{"type", "so2_convolution"},
                  {"input", input},
                  {"irreps_in", spherical_irreps(o_.so2_in).to_string()},
                  {"output", output},
                  {"irreps_out", spherical_irreps(o_.so2_out).to_string()},
                  {"mmax", o_.so2_mmax},
                  {"radial", radial_network(name, num_factors)},
                  {"linears", linears}};
    if (o_.so2_heads > 0) layer["attention"] = attention;
    add(layer);
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

  // Points at which products of components up to so2_lmax and so2_mmax are exact.
  Json product_of_functions(const std::string &name) {
    const int lmax = o_.so2_lmax, mmax = o_.so2_mmax, rings = (3 * lmax) / 2 + 1, on_ring = 3 * mmax + 1;
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
            {"from", stated(name + ".from", {points, size}, from)},
            {"scalars", o_.so2_scalars},
            {"gates", o_.so2_gates}};
  }

  // x_t -> z_t = x_t + SO(2) convolution of its norm -> x_{t+1} = z_t + network of its norm's scalars, as in eSEN.
  void so2_block(int t, const Irreps &x) {
    const std::string n = std::to_string(t), x_name = "x" + n, next_name = "x" + std::to_string(t + 1);
    const Irreps scalars = Irreps::parse("8x0e");
    spherical_norm(x_name, "y" + n, x);
    so2_convolution("so2_" + n, "y" + n, "m" + n);
    add(linear("copy_x" + n, x_name, x, "z" + n, x, false, false));
    add(linear("copy_m" + n, "m" + n, x, "z" + n, x, false, true));
    spherical_norm("z" + n, "v" + n, x);
    if (o_.grid_rings > 0) {
      grid_network("grid" + n, "v" + n, "h" + n, x);
      add(linear("copy_z" + n, "z" + n, x, next_name, x, false, false));
      add(linear("network_out" + n, "h" + n, x, next_name, x, false, true));
      return;
    }
    add(linear("network_in" + n, "v" + n, x, "u" + n, scalars, false, false));
    add({{"type", "gate"},
         {"input", "u" + n},
         {"irreps_in", scalars.to_string()},
         {"output", "h" + n},
         {"irreps_out", scalars.to_string()},
         {"terms", Json::array({{{"out", 0}, {"in", 0}, {"offset", 0}, {"activation", "silu"}, {"scale", 1.0}}})}});
    add(linear("copy_z" + n, "z" + n, x, next_name, x, false, false));
    add(linear("network_out" + n, "h" + n, scalars, next_name, x, false, true));
  }

  // x_t -> self-connection and convolution -> gate -> x_{t+1}, as in SevenNet.
  void interaction(int t, const Irreps &x, const Irreps &next) {
    if (o_.so2_blocks && t >= o_.so2_begin) return so2_block(t, x);
    const std::string n = std::to_string(t), x_name = "x" + n;

    // Gate input: scalars of each parity with the gates behind the even ones, then the gated blocks.
    int even = 0, odd = 0, gates = 0;
    std::vector<IrrepBlock> gated;
    for (const IrrepBlock &b : next) {
      if (b.irrep.l > 0) {
        gated.push_back(b);
        gates += b.mul;
      } else {
        (b.irrep.p > 0 ? even : odd) += b.mul;
      }
    }
    std::vector<IrrepBlock> gate_blocks;
    if (odd > 0) gate_blocks.push_back({odd, {0, -1}});
    const int even_block = static_cast<int>(gate_blocks.size());
    if (even + gates > 0) gate_blocks.push_back({even + gates, {0, 1}});
    const int first_gated = static_cast<int>(gate_blocks.size());
    gate_blocks.insert(gate_blocks.end(), gated.begin(), gated.end());
    const Irreps z(gate_blocks);

    // Paths to every irrep of the gate input, sorted by it.
    struct Path {
      int in, l2;
      IrrepBlock out;
    };
    std::vector<Path> paths;
    for (int i = 0; i < x.size(); ++i)
      for (int l2 = 0; l2 <= o_.lmax_edge; ++l2)
        for (int l3 = std::abs(x[i].irrep.l - l2); l3 <= x[i].irrep.l + l2; ++l3) {
          const Irrep r{l3, x[i].irrep.p * (o_.parity && l2 % 2 ? -1 : 1)};
          if (std::any_of(z.begin(), z.end(), [&](const IrrepBlock &b) { return b.irrep == r; }))
            paths.push_back({i, l2, {x[i].mul, r}});
        }
    std::stable_sort(paths.begin(), paths.end(), [](const Path &a, const Path &b) {
      return 2 * a.out.irrep.l + a.out.irrep.p < 2 * b.out.irrep.l + b.out.irrep.p;
    });
    std::vector<IrrepBlock> mid;
    Json path_list = Json::array();
    int num_weights = 0;
    std::map<std::pair<int, int>, int> connected;    // the block of an irrep that uvw paths share
    for (const Path &p : paths) {
      Json item = {
          {"in", p.in}, {"l", p.l2}, {"out", mid.size()}, {"scale", std::sqrt(p.out.irrep.dim()) / o_.denominator}};
      if (o_.r_power && p.l2 > 0) item["r_power"] = p.l2;
      if (o_.connected_channels > 0 && (p.in > 0 || p.l2 > 0)) {
        const auto [block, is_new] =
            connected.try_emplace({p.out.irrep.l, p.out.irrep.p}, static_cast<int>(mid.size()));
        if (is_new) mid.push_back({o_.connected_channels, p.out.irrep});
        item["out"] = block->second;
        item["connection"] = "uvw";
        num_weights += p.out.mul * o_.connected_channels;
      } else {
        mid.push_back(p.out);
        num_weights += p.out.mul;
      }
      path_list.push_back(item);
    }

    add(linear("sc" + n, x_name, x, "z" + n, z, o_.per_species_linear, false));
    if (o_.late_inputs && t > 0 && t + 1 < static_cast<int>(o_.hidden.size())) {
      const std::string later = std::to_string(t + 1);
      add(linear("late" + n, x_name, x, "w" + later, Irreps(std::vector<IrrepBlock>{{3, {0, 1}}}), false, false));
    }
    const bool is_so2 = o_.so2_lmax >= 0 && t >= o_.so2_begin;
    if (is_so2) {
      const Irreps messages = spherical_irreps(o_.so2_out);
      mid.assign(messages.begin(), messages.end());
    }
    const Irreps input = is_so2 ? spherical_irreps(o_.so2_in) : x;
    std::vector<IrrepBlock> y(input.begin(), input.end());
    for (const int num : {o_.sender_scalars, o_.receiver_scalars})
      if (num > 0) y.push_back({num, {0, 1}});
    add(linear("lin1_" + n, x_name, x, "y" + n, Irreps(y), false, false));
    if (is_so2)
      so2_convolution("so2_" + n, "y" + n, "m" + n);
    else
      add({{"type", "convolution"},
           {"input", "y" + n},
           {"irreps_in", Irreps(y).to_string()},
           {"output", "m" + n},
           {"irreps_out", Irreps(mid).to_string()},
           {"paths", path_list},
           {"radial", radial_network("radial" + n, num_weights, x.size())}});
    std::string messages = "m" + n;
    if (o_.density) {
      add({{"type", "density_normalization"},
           {"input", messages},
           {"irreps_in", Irreps(mid).to_string()},
           {"output", "d" + n},
           {"irreps_out", Irreps(mid).to_string()},
           {"radial", radial_network("density" + n, 1)},
           {"offset", 0.8},
           {"factor", 0.3}});
      messages = "d" + n;
    }
    add(linear("lin2_" + n, messages, Irreps(mid), "z" + n, z, false, true));
    if (o_.late_inputs && t > 1) {
      const std::string scalars = "3x0e";
      add({{"type", "convolution"},
           {"input", "w" + n},
           {"irreps_in", scalars},
           {"output", "v" + n},
           {"irreps_out", scalars},
           {"paths", {{{"in", 0}, {"l", 0}, {"out", 0}, {"scale", 1.0 / o_.denominator}}}},
           {"radial", radial_network("late_radial" + n, 3, 1)}});
      add(linear("late_out" + n, "v" + n, Irreps::parse(scalars), "z" + n, z, false, true));
    }

    Json terms = Json::array();
    int even_at = 0, odd_at = 0, gate_at = even, gated_at = first_gated;
    for (int k = 0; k < next.size(); ++k) {
      const IrrepBlock &b = next[k];
      Json term = {{"out", k}, {"activation", "silu"}, {"scale", 1.68}};
      if (b.irrep.l > 0) {
        term.update({{"in", gated_at++}, {"offset", 0}, {"gate_in", even_block}, {"gate_offset", gate_at}});
        gate_at += b.mul;
      } else if (b.irrep.p > 0) {
        term.update({{"in", even_block}, {"offset", even_at}});
        even_at += b.mul;
      } else {
        term.update({{"in", 0}, {"offset", odd_at}, {"activation", "tanh"}, {"scale", 1.59}});
        odd_at += b.mul;
      }
      terms.push_back(term);
    }
    const std::string next_name = (o_.balanced_channels > 0 ? "u" : "x") + std::to_string(t + 1);
    const bool is_contracted = o_.contraction_degree > 0, is_normed = !o_.spherical_norm.empty() && !o_.so2_blocks;
    const bool is_last = !is_contracted && !is_normed && o_.grid_rings == 0 && o_.node_product.empty();
    add({{"type", "gate"},
         {"input", "z" + n},
         {"irreps_in", z.to_string()},
         {"output", is_last ? next_name : "a" + n},
         {"irreps_out", next.to_string()},
         {"terms", terms}});
    if (is_contracted) contraction("contraction" + n, "a" + n, next_name, next);
    if (is_normed) spherical_norm("a" + n, next_name, next);
    if (o_.grid_rings > 0) grid_network("grid" + n, "a" + n, next_name, next);
    if (o_.node_product.empty()) return;
    const bool is_pair = o_.node_product == "pair", takes_input = is_pair && t > 0 && x[0].mul == next[0].mul;
    if (!takes_input) norm_scale("a" + n, "s" + n, next);
    if (takes_input)
      node_product({"a" + n, x_name}, {next, x}, next_name, next);
    else if (is_pair)
      node_product({"a" + n, "s" + n}, {next, next}, next_name, next);
    else
      node_product({"s" + n}, {next}, next_name, next);
  }
};

inline ModelDocument make_tiny_model(const TinyModelOptions &options = {}) {
  return TinyModelMaker(options).make();
}

}    // namespace testing
}    // namespace equi

#endif
