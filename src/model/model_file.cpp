// SPDX-License-Identifier: MIT
// From the container's document to a Model. Every number is checked before it is used as an index or a size.
#include "src/model/model_file.h"

#include "src/base/data_hash.h"
#include "src/base/model_limits.h"
#include "src/geometry/neighbor_graph.h"
#include "src/model/json_field.h"
#include "src/model/safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <set>
#include <utility>

namespace equi {

namespace {

constexpr int LMAX_SUPPORTED = 8;    // up to here the couplings are accurate (coupling.h)
constexpr int MAX_POWER = 16;
constexpr int MAX_POLYNOMIALS = 64;    // T_n grows as (2x)^n / 2
constexpr int MAX_EXPONENTIALS = 64;
constexpr double MAX_TRANSFORM_POWER = 32.0;
constexpr int64_t ANY = -1;      // in the expected shape of a tensor: any positive length
constexpr size_t SHOWN = 40;     // characters of a name in a message
constexpr size_t KEPT = 1000;    // of a text that describes the model

const char *const SYMBOLS =
    " H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo "
    "Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg "
    "Tl "
    "Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og ";

bool is_chemical_symbol(const std::string &s) {
  return !s.empty() && s.size() <= 2 && s.find(' ') == std::string::npos &&
         std::strstr(SYMBOLS, (" " + s + " ").c_str()) != nullptr;
}

// Whether a(x) is an even or odd function, which activations of odd scalars must be.
bool has_parity(Activation a) {
  return a == Activation::identity || a == Activation::tanh || a == Activation::abs;
}

// Channels of a run of blocks of one irrep, which lie side by side in memory
// (kokkos/kernel_interface/feature_layout.h).
struct BlockRun {
  Irrep irrep;
  int64_t channels = 0;
};

int64_t padded_channels(const IrrepBlock &block) {
  return (int64_t(block.mul) + PADDED_CHANNELS - 1) / PADDED_CHANNELS * PADDED_CHANNELS;
}

// The runs, and for each block the number of its run.
std::vector<BlockRun> block_runs(const Irreps &irreps, std::vector<int> &run_of_block) {
  std::vector<BlockRun> runs;
  for (const IrrepBlock &block : irreps) {
    if (runs.empty() || runs.back().irrep != block.irrep) runs.push_back({block.irrep, 0});
    runs.back().channels += padded_channels(block);
    run_of_block.push_back(static_cast<int>(runs.size()) - 1);
  }
  return runs;
}

class Reader {
 public:
  Reader(const SafetensorsFile &container, const std::string &path)
      : container_(container),
        most_read_(TENSOR_BASE + TENSOR_MULTIPLE * static_cast<int64_t>(container.data_bytes / sizeof(float))),
        most_laid_out_(LAYOUT_BASE + LAYOUT_MULTIPLE * static_cast<int64_t>(container.data_bytes / sizeof(float))) {
    model_.file = printable(path, KEPT);
  }

  Model read(const JsonField &document) {
    read_head(document);
    const JsonField layers = document["layers"];
    layers.size_between(1, MAX_LAYERS, "layers");
    for (size_t i = 0; i < layers.size(); ++i) {
      if (has_scale_shift_ && layers[i]["type"].text() != "pair_repulsion")
        layers[i].fail("no layer but pair_repulsion after scale_shift", layers[i]["type"].describe());
      read_layer(layers[i]);
    }
    if (!has_readout_) layers.fail("a readout layer", "none");
    for (const auto &[name, tensor] : container_.tensors)
      if (!used_.count(name))
        throw ModelFileError(model_.file + ": tensor " + printable(name, SHOWN) +
                             ": expected only tensors that a layer uses, found this one");
    if (document.has("self_check")) read_self_check(document["self_check"]);
    return std::move(model_);
  }

 private:
  const SafetensorsFile &container_;
  Model model_;
  RadialBasis basis_;
  bool edge_parity_ = false, has_readout_ = false, has_scale_shift_ = false;
  std::set<std::string> used_;            // tensors
  std::map<std::string, int> feature_;    // by name
  std::vector<bool> has_been_read_;       // per feature
  // What has been taken so far of what is bounded, with repetition.
  int64_t num_read_ = 0, num_laid_out_ = 0;    // numbers of tensors; of matrices in the layout of kernels
  const int64_t most_read_, most_laid_out_;
  int64_t num_components_ = 0, num_weights_ = 0;    // of all features, of all convolutions
  double num_structure_pairs_ = 0.0;

  // ---- head ----

  void read_head(const JsonField &d) {
    d.object();
    if (d["format"].text() != "equi") d["format"].fail("\"equi\"");
    const JsonField version = d["format_version"];
    if (version.integer(1, INT32_MAX) > MODEL_FORMAT_VERSION)
      version.fail("at most " + std::to_string(MODEL_FORMAT_VERSION),
                   version.describe() + ": the file is newer than this program");
    const bool has_hash = version.integer(1, MODEL_FORMAT_VERSION) >= FIRST_VERSION_WITH_HASH;
    std::vector<const char *> keys = {"format",     "format_version", "framework",   "architecture", "elements",
                                      "cutoff",     "lmax_edge",      "edge_parity", "radial_basis", "layers",
                                      "provenance", "units",          "self_check"};
    if (has_hash) keys.push_back("data_hash");
    d.only_keys(keys);
    if (has_hash)
      check_hash(d["data_hash"]);
    else
      model_.notes.push_back("the model file is of format version " + version.describe() +
                             ", without a hash of its data: a damaged number would not be noticed");
    const JsonField framework = d["framework"];
    framework.only_keys({"name", "version"});
    model_.framework = shown_text(framework["name"]);
    model_.framework_version = shown_text(framework["version"]);
    model_.architecture = shown_text(d["architecture"]);

    const JsonField elements = d["elements"];
    elements.size_between(1, MAX_ELEMENTS, "chemical symbols");
    for (size_t i = 0; i < elements.size(); ++i) {
      const std::string &symbol = elements[i].text();
      if (!is_chemical_symbol(symbol)) elements[i].fail("a chemical symbol");
      if (model_.species(symbol) >= 0) elements[i].fail("each element once", symbol + " again");
      model_.elements.push_back(symbol);
    }

    model_.cutoff = d["cutoff"].number(MIN_CUTOFF, MAX_CUTOFF);
    model_.lmax_edge = d["lmax_edge"].integer(0, LMAX_SUPPORTED);
    edge_parity_ = d["edge_parity"].boolean();

    const JsonField units = d["units"];
    units.only_keys({"energy", "length"});
    if (units["energy"].text() != "eV") units["energy"].fail("\"eV\"");
    if (units["length"].text() != "Angstrom") units["length"].fail("\"Angstrom\"");

    const JsonField provenance = d["provenance"];
    provenance.object();
    if (provenance.json().size() > MAX_PROVENANCE)
      provenance.fail("at most " + std::to_string(MAX_PROVENANCE) + " entries",
                      std::to_string(provenance.json().size()));
    for (const auto &item : provenance.json().items()) {
      const std::string key = printable(item.key(), SHOWN);
      model_.provenance[key] = shown_text(JsonField(item.value(), model_.file, "provenance." + key));
    }

    read_radial_basis(d["radial_basis"]);
  }

  void check_hash(const JsonField &field) {
    const std::string found = data_hash(container_.data, container_.data_bytes);
    if (field.text() != found)
      field.fail("data with the hash that the file states, " + field.describe(),
                 "data with \"" + found + "\" (a damaged file)");
  }

  static std::string shown_text(const JsonField &field) { return printable(field.text(), KEPT); }

  void read_radial_basis(const JsonField &b) {
    const std::string &kind = b["kind"].text();
    const auto several = [&](const char *key, std::vector<double> &values) {
      values = tensor(b[key], {ANY}, 1.0);
      if (values.size() > MAX_FUNCTIONS)
        b[key].fail("at most " + std::to_string(MAX_FUNCTIONS) + " numbers", std::to_string(values.size()));
    };
    if (kind == "bessel") {
      b.only_keys({"kind", "wave_numbers", "prefactor", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
      basis_.kind = RadialBasis::Kind::bessel;
      several("wave_numbers", basis_.wave_numbers);
      basis_.prefactor = b["prefactor"].number();
    } else if (kind == "gaussian") {
      b.only_keys({"kind", "centres", "width", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
      basis_.kind = RadialBasis::Kind::gaussian;
      several("centres", basis_.centres);
      basis_.width = b["width"].number(MIN_LENGTH, MAX_LENGTH);
    } else if (kind == "chebyshev") {
      b.only_keys({"kind", "size", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
      basis_.kind = RadialBasis::Kind::chebyshev;
      basis_.num_polynomials = b["size"].integer(1, MAX_POLYNOMIALS);
    } else {
      b["kind"].fail("\"bessel\", \"gaussian\" or \"chebyshev\"");
    }
    basis_.cutoff = model_.cutoff;
    basis_.apply_cutoff = !b.has("apply_cutoff") || b["apply_cutoff"].boolean();
    read_cutoff_function(b["cutoff_function"]);
    if (b.has("transform")) read_transform(b["transform"]);
    // The distance is mapped to numbers from 0 to 1 by the transform "agnesi", else to about itself.
    const double largest = basis_.transform == RadialBasis::Transform::agnesi ? 1.0 : model_.cutoff;
    for (double k : basis_.wave_numbers)
      if (!(std::fabs(k) * largest <= MAX_PHASE))
        b["wave_numbers"].fail("magnitudes of at most " + text_of(MAX_PHASE / largest), text_of(k));
    if (!b.has("cutoffs")) return;
    const JsonField cutoffs = b["cutoffs"];
    if (b.has("transform")) cutoffs.fail("no cutoffs of pairs together with a transform", "both");
    if (basis_.cutoff_kind == RadialBasis::Cutoff::xplor)
      cutoffs.fail("no cutoffs of pairs together with xplor", "both");
    basis_.pair_cutoff = pairs_between(cutoffs, MIN_CUTOFF, model_.cutoff);
    model_.pair_cutoff = basis_.pair_cutoff;
  }

  void read_cutoff_function(const JsonField &f) {
    const std::string &kind = f["kind"].text();
    if (kind == "polynomial") {
      f.only_keys({"kind", "p"});
      basis_.cutoff_kind = RadialBasis::Cutoff::polynomial;
      basis_.p = cutoff_power(f["p"]);
    } else if (kind == "xplor") {
      f.only_keys({"kind", "r_on"});
      basis_.cutoff_kind = RadialBasis::Cutoff::xplor;
      basis_.r_on = f["r_on"].number();
      if (!(basis_.r_on >= 0.0 && basis_.r_on < model_.cutoff)) f["r_on"].fail("a distance from 0 to below the cutoff");
    } else {
      f["kind"].fail("\"polynomial\" or \"xplor\"");
    }
  }

  void read_transform(const JsonField &t) {
    const std::string &kind = t["kind"].text();
    if (kind == "agnesi") {
      t.only_keys({"kind", "r0", "q", "p", "a"});
      basis_.transform = RadialBasis::Transform::agnesi;
      basis_.agnesi_q = transform_power(t["q"]);
      basis_.agnesi_p = transform_power(t["p"]);
      basis_.agnesi_a = positive(t["a"]);
    } else if (kind == "soft") {
      t.only_keys({"kind", "r0", "alpha"});
      basis_.transform = RadialBasis::Transform::soft;
      basis_.soft_alpha = t["alpha"].number(-MAX_STEEPNESS, MAX_STEEPNESS);
    } else {
      t["kind"].fail("\"agnesi\" or \"soft\"");
    }
    basis_.pair_r0 = pairs_between(t["r0"], MIN_LENGTH, MAX_LENGTH);
  }

  // ---- numbers ----

  static double positive(const JsonField &field) {
    const double v = field.number();
    if (!(v > 0.0)) field.fail("a positive number");
    return v;
  }

  static double cutoff_power(const JsonField &field) {
    const double p = field.number();
    // Below 2 the second derivative is infinite at r = 0, far above it the cutoff function is a step.
    if (!(p >= 2.0 && p <= 1000.0)) field.fail("a number from 2 to 1000");
    return p;
  }

  static double transform_power(const JsonField &field) {
    const double v = positive(field);
    if (v > MAX_TRANSFORM_POWER) field.fail("at most " + std::to_string(MAX_TRANSFORM_POWER));
    return v;
  }

  static std::vector<double> numbers(const JsonField &field) {
    const size_t num = field.size_between(1, MAX_EXPONENTIALS, "numbers");
    std::vector<double> values;
    for (size_t k = 0; k < num; ++k) values.push_back(field[k].number());
    return values;
  }

  // ---- tensors ----

  // Values of the tensor that `field` names, times scale.
  std::vector<double> tensor(const JsonField &field, const std::vector<int64_t> &shape, double scale) {
    const std::string &name = field.text();
    const auto it = container_.tensors.find(name);
    if (it == container_.tensors.end()) field.fail("the name of a tensor in the file", field.describe());
    const StoredTensor &t = it->second;
    bool fits = t.shape.size() == shape.size();
    std::string expected;
    for (size_t d = 0; d < shape.size(); ++d) {
      expected += (d ? ", " : "") + (shape[d] == ANY ? std::string("n") : std::to_string(shape[d]));
      fits = fits && (shape[d] == ANY ? t.shape[d] > 0 : t.shape[d] == shape[d]);
    }
    if (!fits) field.fail("tensor " + printable(name, SHOWN) + " of shape [" + expected + "]", t.shape_text());
    num_read_ += t.size();
    if (num_read_ > most_read_)
      field.fail("tensors that the model reads a few times at most, " + std::to_string(most_read_) + " numbers in all",
                 "more");
    used_.insert(name);
    std::vector<double> values = t.values();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale;
      if (!(std::fabs(values[i]) <= MAX_MAGNITUDE))
        field.fail(
            "finite numbers of magnitudes up to " + text_of(MAX_MAGNITUDE) + " in tensor " + printable(name, SHOWN),
            text_of(values[i]) + " at index " + std::to_string(i));
    }
    return values;
  }
  int64_t length(const JsonField &field, size_t dimension) const {
    return container_.tensors.at(field.text()).shape[dimension];
  }

  // Counts numbers that an evaluation will hold for a field beside those that are read.
  void lay_out(const JsonField &field, int64_t numbers) {
    num_laid_out_ += numbers;
    if (num_laid_out_ > most_laid_out_)
      field.fail("a model whose matrices have at most " + std::to_string(most_laid_out_) +
                     " numbers in the layout of the kernels",
                 "more");
  }

  static std::string text_of(double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", v);
    return text;
  }

  Matrix matrix(const JsonField &field, int rows, int cols, double scale) {
    return Matrix{rows, cols, tensor(field, {rows, cols}, scale)};
  }

  // [species of the receiver, species of the sender].
  Matrix pairs(const JsonField &field) { return matrix(field, model_.num_species(), model_.num_species(), 1.0); }

  Matrix pairs_between(const JsonField &field, double lowest, double highest) {
    Matrix m = pairs(field);
    for (double v : m.data)
      if (!(v >= lowest && v <= highest))
        field.fail("numbers from " + text_of(lowest) + " to " + text_of(highest) + " in tensor " +
                       printable(field.text(), SHOWN),
                   text_of(v));
    return m;
  }

  // ---- features ----

  Irreps irreps(const JsonField &field) {
    try {
      const Irreps parsed = Irreps::parse(field.text());
      if (parsed.size() == 0) field.fail("at least one block of irreps", "none");
      if (parsed.lmax() > LMAX_SUPPORTED) field.fail("l up to " + std::to_string(LMAX_SUPPORTED));
      return parsed;
    } catch (const std::invalid_argument &e) {
      field.refuse(e.what());
    }
  }

  int find_feature(const std::string &name) const {
    const auto found = feature_.find(name);
    return found == feature_.end() ? -1 : found->second;
  }

  int input_feature(const JsonField &layer) {
    const JsonField name = layer["input"];
    const int f = find_feature(name.text());
    if (f < 0) name.fail("a feature that an earlier layer writes");
    check_irreps(layer["irreps_in"], f);
    has_been_read_[f] = true;
    return f;
  }

  void check_irreps(const JsonField &field, int feature) {
    const Irreps found = irreps(field);
    if (found != model_.features[feature])
      field.fail(
          model_.features[feature].to_string() + ", as feature \"" + model_.feature_names[feature] + "\" was written",
          found.to_string());
  }

  int output_feature(const JsonField &layer, const char *irreps_key) {
    const JsonField name = layer["output"];
    if (name.text().empty()) name.fail("the name of a feature");
    if (find_feature(name.text()) >= 0) name.fail("a feature that no earlier layer writes");
    const JsonField text = layer[irreps_key];
    model_.features.push_back(irreps(text));
    for (const IrrepBlock &block : model_.features.back())
      num_components_ += padded_channels(block) * block.irrep.dim();
    if (num_components_ > MAX_ALL_COMPONENTS)
      text.fail("features of at most " + std::to_string(MAX_ALL_COMPONENTS) + " components in all", "more");
    const int number = static_cast<int>(feature_.size());
    feature_[name.text()] = number;
    model_.feature_names.push_back(printable(name.text(), SHOWN));
    has_been_read_.push_back(false);
    return number;
  }

  int accumulated_feature(const JsonField &layer) {
    const JsonField name = layer["output"];
    const int f = find_feature(name.text());
    if (f < 0) name.fail("a feature that an earlier layer writes, to accumulate into");
    if (has_been_read_[f]) name.fail("a feature that no layer has read yet, to accumulate into");
    check_irreps(layer["irreps_out"], f);
    return f;
  }

  // ---- layers ----

  void read_layer(const JsonField &layer) {
    const std::string &type = layer["type"].text();
    if (type == "species_embedding")
      read_species_embedding(layer);
    else if (type == "linear")
      read_linear(layer);
    else if (type == "convolution")
      read_convolution(layer);
    else if (type == "gate")
      read_gate(layer);
    else if (type == "density_normalization")
      read_density_normalization(layer);
    else if (type == "symmetric_contraction")
      read_symmetric_contraction(layer);
    else if (type == "readout")
      read_readout(layer);
    else if (type == "pair_repulsion")
      read_pair_repulsion(layer);
    else if (type == "scale_shift")
      read_scale_shift(layer);
    else
      layer["type"].fail(
          "species_embedding, linear, convolution, gate, density_normalization, symmetric_contraction, readout, "
          "pair_repulsion or scale_shift");
  }

  void read_species_embedding(const JsonField &layer) {
    layer.only_keys({"type", "output", "irreps", "weight", "scale"});
    SpeciesEmbedding e;
    e.output = output_feature(layer, "irreps");
    const Irreps &out = model_.features[e.output];
    if (out.size() != 1 || out[0].irrep != Irrep{0, 1}) layer["irreps"].fail("one block of 0e");
    e.weight = matrix(layer["weight"], model_.num_species(), out[0].mul, layer["scale"].number());
    model_.layers.emplace_back(std::move(e));
  }

  void read_linear(const JsonField &layer) {
    layer.only_keys(
        {"type", "input", "irreps_in", "output", "irreps_out", "blocks", "biases", "per_species", "accumulate"});
    Linear linear;
    linear.per_species = layer.has("per_species") && layer["per_species"].boolean();
    linear.accumulate = layer.has("accumulate") && layer["accumulate"].boolean();
    linear.input = input_feature(layer);
    linear.output = linear.accumulate ? accumulated_feature(layer) : output_feature(layer, "irreps_out");
    const Irreps in = model_.features[linear.input], out = model_.features[linear.output];

    const JsonField blocks = layer["blocks"];
    std::set<std::pair<int, int>> pairs, run_pairs;
    std::vector<int> run_in, run_out;
    const std::vector<BlockRun> runs_in = block_runs(in, run_in), runs_out = block_runs(out, run_out);
    for (size_t k = 0; k < blocks.size(); ++k) {
      const JsonField b = blocks[k];
      b.only_keys({"in", "out", "weight", "scale"});
      LinearBlock block;
      block.in = b["in"].integer(0, in.size() - 1);
      block.out = b["out"].integer(0, out.size() - 1);
      const IrrepBlock &bi = in[block.in], &bo = out[block.out];
      if (bi.irrep != bo.irrep)
        b.fail("equal irreps in and out", Irreps({bi}).to_string() + " and " + Irreps({bo}).to_string());
      if (!pairs.emplace(block.in, block.out).second) b.fail("one entry per pair of blocks", "a second one");
      // A matrix and its transpose connect two runs, however few of their blocks are connected.
      const int from = run_in[block.in], to = run_out[block.out];
      if (run_pairs.emplace(from, to).second)
        lay_out(b,
                2 * (linear.per_species ? model_.num_species() : 1) * runs_in[from].channels * runs_out[to].channels);
      const double scale = b["scale"].number();
      if (linear.per_species) {
        const std::vector<double> all = tensor(b["weight"], {model_.num_species(), bi.mul, bo.mul}, scale);
        const size_t size = static_cast<size_t>(bi.mul) * bo.mul;
        for (int s = 0; s < model_.num_species(); ++s)
          block.weight.push_back(Matrix{bi.mul, bo.mul, {all.begin() + s * size, all.begin() + (s + 1) * size}});
      } else {
        block.weight.push_back(matrix(b["weight"], bi.mul, bo.mul, scale));
      }
      linear.blocks.push_back(std::move(block));
    }

    linear.bias.resize(out.size());
    if (layer.has("biases")) {
      const JsonField biases = layer["biases"];
      for (size_t k = 0; k < biases.size(); ++k) {
        const JsonField b = biases[k];
        b.only_keys({"out", "tensor", "scale"});
        const int j = b["out"].integer(0, out.size() - 1);
        if (out[j].irrep != Irrep{0, 1}) b["out"].fail("a 0e block", Irreps({out[j]}).to_string());
        if (!linear.bias[j].empty()) b["out"].fail("one bias per block", "a second one");
        linear.bias[j] = tensor(b["tensor"], {out[j].mul}, b["scale"].number());
      }
    }
    model_.layers.emplace_back(std::move(linear));
  }

  void read_convolution(const JsonField &layer) {
    layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "paths", "radial"});
    Convolution c;
    c.input = input_feature(layer);
    c.output = output_feature(layer, "irreps_out");
    TensorProduct &tp = c.product;
    tp.irreps_in = model_.features[c.input];
    tp.irreps_out = model_.features[c.output];
    tp.lmax_edge = model_.lmax_edge;

    const JsonField paths = layer["paths"];
    paths.size_between(1, MAX_PATHS, "paths");
    std::vector<int> powers;
    bool has_power = false;
    for (size_t q = 0; q < paths.size(); ++q) {
      const JsonField p = paths[q];
      p.only_keys({"in", "l", "out", "scale", "r_power", "connection"});
      TensorProductPath path;
      path.in = p["in"].integer(0, tp.irreps_in.size() - 1);
      path.l2 = p["l"].integer(0, model_.lmax_edge);
      path.out = p["out"].integer(0, tp.irreps_out.size() - 1);
      path.scale = p["scale"].number();
      if (p.has("connection")) path.connection = connection(p["connection"]);
      const int parity = tp.irreps_in[path.in].irrep.p * (edge_parity_ && path.l2 % 2 ? -1 : 1);
      if (parity != tp.irreps_out[path.out].irrep.p)
        p.fail(std::string("parity ") + (parity > 0 ? "e" : "o") + " of its output block",
               Irreps({tp.irreps_out[path.out]}).to_string());
      powers.push_back(p.has("r_power") ? p["r_power"].integer(0, MAX_POWER) : 0);
      has_power = has_power || powers.back() != 0;
      tp.paths.push_back(path);
    }
    try {
      tp.validate();
    } catch (const std::invalid_argument &e) {
      paths.refuse(e.what());
    }

    num_weights_ += tp.num_weights();
    if (num_weights_ > MAX_ALL_WEIGHTS)
      paths.fail("convolutions with at most " + std::to_string(MAX_ALL_WEIGHTS) + " weights in all",
                 std::to_string(num_weights_) + " up to this one");
    c.radial = radial_function(layer["radial"], tp.num_weights(), &tp.irreps_in);
    if (has_power && c.radial.reads_features())
      paths.fail("no r_power where the radial network reads a block of the input", "one");
    const bool has_uvw = std::any_of(tp.paths.begin(), tp.paths.end(),
                                     [](const TensorProductPath &p) { return p.connection == Connection::uvw; });
    if (has_uvw && c.radial.reads_features())
      paths.fail("uvu paths where the radial network reads a block of the input", "uvw");
    if (has_power)
      for (size_t q = 0; q < powers.size(); ++q)
        c.radial.r_power.insert(c.radial.r_power.end(), tp.num_weights(static_cast<int>(q)), powers[q]);
    model_.layers.emplace_back(std::move(c));
  }

  void read_gate(const JsonField &layer) {
    layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "terms"});
    Gate gate;
    gate.input = input_feature(layer);
    gate.output = output_feature(layer, "irreps_out");
    const Irreps in = model_.features[gate.input], out = model_.features[gate.output];
    const JsonField terms = layer["terms"];
    terms.size(out.size(), "terms, one per output block");
    std::vector<bool> is_written(out.size(), false);
    for (size_t k = 0; k < terms.size(); ++k) {
      const JsonField t = terms[k];
      t.only_keys({"out", "in", "offset", "gate_in", "gate_offset", "activation", "scale"});
      GateTerm term;
      term.out = t["out"].integer(0, out.size() - 1);
      if (is_written[term.out]) t["out"].fail("one term per output block", "a second one");
      is_written[term.out] = true;
      const IrrepBlock &bo = out[term.out];
      term.in = t["in"].integer(0, in.size() - 1);
      term.offset = channels(t["offset"], in[term.in], bo.mul);
      if (in[term.in].irrep.l != bo.irrep.l)
        t["in"].fail("a block with the l of " + Irreps({bo}).to_string(), Irreps({in[term.in]}).to_string());
      term.activation = activation(t["activation"]);
      term.scale = t["scale"].number();

      // The parity of the output block is not compared: frameworks keep an odd label where an even function such as abs
      // has acted on odd scalars, and the label, not the law of inversion, is what later layers go by.
      Irrep activated = in[term.in].irrep;
      if (t.has("gate_in")) {
        term.gate_in = t["gate_in"].integer(0, in.size() - 1);
        const IrrepBlock &bg = in[term.gate_in];
        if (bg.irrep.l != 0) t["gate_in"].fail("a block of scalars", Irreps({bg}).to_string());
        term.gate_offset = channels(t["gate_offset"], bg, bo.mul);
        activated = bg.irrep;
      } else {
        if (t.has("gate_offset")) t["gate_offset"].fail("no such field without gate_in");
        if (bo.irrep.l != 0) t.fail("gate_in for a block with l > 0", "none");
      }
      if (activated.p < 0 && !has_parity(term.activation))
        t["activation"].fail("an even or odd function for odd scalars");
      gate.terms.push_back(term);
    }
    model_.layers.emplace_back(std::move(gate));
  }

  // First of `num` channels inside a block.
  int channels(const JsonField &field, const IrrepBlock &block, int num) {
    const int offset = field.integer(0, INT32_MAX);
    if (offset > block.mul - num)
      field.fail(std::to_string(num) + " channels from the offset on within " + Irreps({block}).to_string());
    return offset;
  }

  void read_density_normalization(const JsonField &layer) {
    layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "radial", "offset", "factor"});
    DensityNormalization d;
    d.input = input_feature(layer);
    d.output = output_feature(layer, "irreps_out");
    check_irreps(layer["irreps_out"], d.input);
    d.density = radial_function(layer["radial"], 1);
    d.density.output = RadialFunction::Output::tanh_square;
    d.offset = layer["offset"].number();
    // An atom without neighbours would be divided by zero.
    if (d.offset == 0.0) layer["offset"].fail("a number other than zero");
    d.factor = layer["factor"].number();
    model_.layers.emplace_back(std::move(d));
  }

  void read_symmetric_contraction(const JsonField &layer) {
    layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "per_species", "blocks"});
    SymmetricContraction c;
    c.input = input_feature(layer);
    c.output = output_feature(layer, "irreps_out");
    ContractionProduct &product = c.product;
    product.irreps_in = model_.features[c.input];
    product.irreps_out = model_.features[c.output];
    product.per_species = layer["per_species"].boolean();
    for (const char *key : {"irreps_in", "irreps_out"})
      for (const IrrepBlock &b : irreps(layer[key]))
        if (b.mul != product.mul() || b.mul < 1)
          layer[key].fail("blocks of " + std::to_string(product.mul()) + " channels, as the first block of the input",
                          Irreps({b}).to_string());

    const JsonField blocks = layer["blocks"];
    std::vector<bool> is_written(product.irreps_out.size(), false);
    for (size_t k = 0; k < blocks.size(); ++k) {
      blocks[k].only_keys({"out", "terms"});
      const int out = blocks[k]["out"].integer(0, product.irreps_out.size() - 1);
      if (is_written[out]) blocks[k]["out"].fail("one entry per output block", "a second one");
      is_written[out] = true;
      const JsonField terms = blocks[k]["terms"];
      terms.size_between(0, MAX_CONTRACTION_DEGREE, "terms");
      for (size_t t = 0; t < terms.size(); ++t) product.terms.push_back(contraction_term(terms[t], product, out));
    }
    try {
      product.validate();
    } catch (const std::invalid_argument &e) {
      blocks.refuse(e.what());
    }
    model_.layers.emplace_back(std::move(c));
  }

  ContractionTerm contraction_term(const JsonField &field, const ContractionProduct &product, int out) {
    field.only_keys({"degree", "weight", "coupling"});
    ContractionTerm term;
    term.out = out;
    term.degree = field["degree"].integer(1, MAX_CONTRACTION_DEGREE);
    const JsonField weight = field["weight"], coupling = field["coupling"];

    const int num_species = model_.num_species(), mul = product.mul();
    const std::vector<double> all =
        product.per_species ? tensor(weight, {num_species, ANY, mul}, 1.0) : tensor(weight, {ANY, mul}, 1.0);
    const int num_matrices = product.per_species ? num_species : 1;
    term.num_paths = static_cast<int>(length(weight, product.per_species ? 1 : 0));
    const size_t size = static_cast<size_t>(term.num_paths) * mul;
    for (int s = 0; s < num_matrices; ++s)
      term.weight.push_back(Matrix{term.num_paths, mul, {all.begin() + s * size, all.begin() + (s + 1) * size}});

    std::vector<int> parity;    // of the components of one channel of the input
    for (const IrrepBlock &b : product.irreps_in) parity.insert(parity.end(), b.irrep.dim(), b.irrep.p);
    const IrrepBlock &block = product.irreps_out[out];
    const int columns = term.degree + 3;
    const std::vector<double> rows = tensor(coupling, {ANY, columns}, 1.0);
    // Coefficients of all channels of one species.
    lay_out(coupling, static_cast<int64_t>(rows.size() / columns) * padded_channels(product.irreps_in[0]));
    for (size_t first = 0; first < rows.size(); first += columns) {
      const std::string where =
          "in row " + std::to_string(first / columns) + " of tensor " + printable(coupling.text(), SHOWN);
      const auto index = [&](int column, const char *what, int num) {
        const double v = rows[first + column];
        if (!(v >= 0.0 && v < num && v == std::floor(v)))
          coupling.fail(std::string(what) + ", a whole number from 0 to " + std::to_string(num - 1) + ", " + where,
                        text_of(v));
        return static_cast<int>(v);
      };
      ContractionEntry e;
      e.component = index(0, "a component", block.irrep.dim());
      e.path = index(1, "a path", term.num_paths);
      e.coefficient = rows[first + columns - 1];
      int sign = 1;
      for (int n = 0; n < term.degree; ++n) {
        e.factor[n] = index(2 + n, "a factor", product.num_components());
        if (n > 0 && e.factor[n] < e.factor[n - 1])
          coupling.fail("factors in ascending order " + where, "another order");
        sign *= parity[e.factor[n]];
      }
      if (e.coefficient != 0.0 && sign != block.irrep.p)
        coupling.fail(std::string("factors of total parity ") + (block.irrep.p > 0 ? "e " : "o ") + where,
                      sign > 0 ? "e" : "o");
      term.entries.push_back(e);
    }
    return term;
  }

  void read_readout(const JsonField &layer) {
    layer.only_keys({"type", "input", "irreps_in", "block", "network"});
    Readout r;
    r.input = input_feature(layer);
    const Irreps in = model_.features[r.input];
    r.block = layer["block"].integer(0, in.size() - 1);
    if (in[r.block].irrep != Irrep{0, 1}) layer["block"].fail("a 0e block", Irreps({in[r.block]}).to_string());
    r.network = readout_network(layer["network"], in[r.block].mul);
    has_readout_ = true;
    model_.layers.emplace_back(std::move(r));
  }

  void read_pair_repulsion(const JsonField &layer) {
    layer.only_keys({"type", "prefactor", "length", "cutoff", "p", "coefficients", "exponents"});
    PairRepulsion r;
    r.prefactor = pairs(layer["prefactor"]);
    r.length = pairs_between(layer["length"], MIN_LENGTH, MAX_LENGTH);
    r.cutoff = pairs_between(layer["cutoff"], MIN_LENGTH, MAX_CUTOFF);
    r.p = cutoff_power(layer["p"]);
    r.coefficients = numbers(layer["coefficients"]);
    r.exponents = numbers(layer["exponents"]);
    layer["exponents"].size(r.coefficients.size(), "exponents, one per coefficient");
    for (size_t k = 0; k < r.exponents.size(); ++k) layer["exponents"][k].number(0.0, MAX_STEEPNESS);
    model_.layers.emplace_back(std::move(r));
  }

  void read_scale_shift(const JsonField &layer) {
    layer.only_keys({"type", "scale", "shift"});
    ScaleShift s;
    s.scale = tensor(layer["scale"], {model_.num_species()}, 1.0);
    s.shift = tensor(layer["shift"], {model_.num_species()}, 1.0);
    has_scale_shift_ = true;
    model_.layers.emplace_back(std::move(s));
  }

  // ---- networks ----

  Activation activation(const JsonField &field) {
    try {
      return parse_activation(field.text());
    } catch (const std::invalid_argument &e) {
      field.refuse(e.what());
    }
  }

  static Connection connection(const JsonField &field) {
    const std::string name = field.text();
    if (name != "uvu" && name != "uvw") field.fail("uvu or uvw", "'" + printable(name, SHOWN) + "'");
    return name == "uvw" ? Connection::uvw : Connection::uvu;
  }

  // A network on the radial basis and perhaps on rows of the two species or, if the layer has an input, on a block of
  // it at either atom.
  RadialFunction radial_function(const JsonField &n, int64_t num_outputs, const Irreps *input = nullptr) {
    n.only_keys({"weights", "scales", "biases", "activation", "activation_scale", "sender", "receiver", "norms",
                 "times_cutoff"});
    RadialFunction f;
    f.basis = basis_;
    int num_inputs = basis_.size();
    const auto read_inputs = [&](const char *key, Matrix &rows, int &block) {
      if (!n.has(key)) return;
      if (input && n[key].json().is_object()) {
        const JsonField field = n[key]["block"];
        n[key].only_keys({"block"});
        block = field.integer(0, input->size() - 1);
        const IrrepBlock &found = (*input)[block];
        if (found.irrep != Irrep{0, 1} || found.mul < 1) field.fail("a 0e block", Irreps({found}).to_string());
        num_inputs += found.mul;
        return;
      }
      rows.data = tensor(n[key], {model_.num_species(), ANY}, 1.0);
      rows.rows = model_.num_species();
      rows.cols = width_of(n[key], 1);
      num_inputs += rows.cols;
    };
    read_inputs("sender", f.sender, f.sender_block);
    read_inputs("receiver", f.receiver, f.receiver_block);
    f.times_cutoff = n.has("times_cutoff") && n["times_cutoff"].boolean();
    f.network = network(n, num_inputs, num_outputs);
    return f;
  }

  Network readout_network(const JsonField &n, int num_inputs) {
    n.only_keys({"weights", "scales", "biases", "activation", "activation_scale"});
    return network(n, num_inputs, 1);
  }

  // A length of a tensor that is the width of a layer of a network.
  int width_of(const JsonField &field, size_t dimension) const {
    const int64_t width = length(field, dimension);
    if (width > MAX_WIDTH)
      field.fail("a tensor with at most " + std::to_string(MAX_WIDTH) + " columns", std::to_string(width));
    return static_cast<int>(width);
  }

  // The keys that both kinds of networks have, and norms.
  Network network(const JsonField &n, int num_inputs, int64_t num_outputs) {
    if (num_inputs > MAX_WIDTH)
      n.fail("a network with at most " + std::to_string(MAX_WIDTH) + " inputs", std::to_string(num_inputs));
    Network net;
    net.activation = activation(n["activation"]);
    const JsonField weights = n["weights"], scales = n["scales"];
    const size_t num = weights.size_between(1, MAX_MATRICES, "weights");
    scales.size(num, "scales, one per weight");
    if (n.has("biases")) n["biases"].size(num, "biases, one per weight");
    if (n.has("norms")) n["norms"].size(num, "norms, one per weight");
    net.biases.resize(num);
    int width = num_inputs;
    for (size_t k = 0; k < num; ++k) {
      const bool is_last = k + 1 == num;
      std::vector<double> values = tensor(weights[k], {width, is_last ? num_outputs : ANY}, scales[k].number());
      const int cols = is_last ? static_cast<int>(num_outputs) : width_of(weights[k], 1);
      // Matrices without an activation between them are multiplied into one.
      if (net.activation == Activation::identity) lay_out(weights[k], int64_t(num_inputs) * cols);
      net.weights.push_back(Matrix{width, cols, std::move(values)});
      width = cols;
      if (n.has("biases") && !n["biases"][k].is_null()) {
        const JsonField bias = n["biases"][k];
        bias.only_keys({"tensor", "scale"});
        net.biases[k] = tensor(bias["tensor"], {cols}, bias["scale"].number());
      }
      if (n.has("norms") && !n["norms"][k].is_null()) {
        const JsonField norm = n["norms"][k];
        if (is_last) norm.fail("null for the last weight");
        norm.only_keys({"weight", "bias", "epsilon"});
        net.norms.resize(num);
        net.norms[k] = {tensor(norm["weight"], {cols}, 1.0), tensor(norm["bias"], {cols}, 1.0),
                        positive(norm["epsilon"])};
      }
    }
    net.activation_scale = n["activation_scale"].number();
    net.simplify();
    for (const Matrix &m : net.weights)
      for (double v : m.data)
        if (!(std::fabs(v) <= MAX_MAGNITUDE))
          n.fail("products of its matrices with magnitudes up to " + text_of(MAX_MAGNITUDE), text_of(v));
    return net;
  }

  // ---- self-check ----

  static void vectors(const JsonField &field, size_t num, const char *of_what, double largest,
                      std::vector<std::array<double, 3>> &out) {
    field.size(num, of_what);
    for (size_t i = 0; i < num; ++i) {
      field[i].size(3, "numbers");
      out.push_back({});
      for (size_t d = 0; d < 3; ++d) out.back()[d] = field[i][d].number(-largest, largest);
    }
  }

  void read_self_check(const JsonField &list) {
    list.size_between(0, MAX_STRUCTURES, "structures");
    for (size_t k = 0; k < list.size(); ++k) {
      const JsonField f = list[k];
      f.only_keys({"name", "symbols", "cell", "pbc", "positions", "energy", "forces", "stress"});
      ReferenceStructure r;
      r.name = printable(f["name"].text(), SHOWN);
      const JsonField symbols = f["symbols"];
      symbols.size_between(1, MAX_STRUCTURE_ATOMS, "chemical symbols");
      std::set<std::string> elements;
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (model_.species(symbols[i].text()) < 0) symbols[i].fail("an element of the model");
        r.symbols.push_back(symbols[i].text());
        elements.insert(r.symbols.back());
      }
      if (elements.size() > MAX_STRUCTURE_ELEMENTS)
        symbols.fail("at most " + std::to_string(MAX_STRUCTURE_ELEMENTS) + " elements",
                     std::to_string(elements.size()));
      if (static_cast<int64_t>(symbols.size()) * num_components_ > MAX_STRUCTURE_COMPONENTS)
        symbols.fail("at most " + std::to_string(MAX_STRUCTURE_COMPONENTS / num_components_) +
                         " atoms for a model with features of so many components",
                     std::to_string(symbols.size()));
      const JsonField pbc = f["pbc"];
      pbc.size(3, "values");
      for (size_t d = 0; d < 3; ++d) r.periodic[d] = pbc[d].boolean();
      const bool is_periodic = r.periodic[0] || r.periodic[1] || r.periodic[2];
      const bool has_cell = f.has("cell") && !f["cell"].is_null();
      if (is_periodic && !has_cell) f.fail("a cell for a periodic structure", "none");
      if (has_cell) {
        std::vector<std::array<double, 3>> rows;
        vectors(f["cell"], 3, "lattice vectors", MAX_POSITION, rows);
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 3; ++b) r.cell[a][b] = rows[a][b];
        check_cell(f["cell"], r);
      }
      vectors(f["positions"], r.symbols.size(), "positions, one per atom", MAX_POSITION, r.positions);
      check_images(f, r);
      vectors(f["forces"], r.symbols.size(), "forces, one per atom", MAX_MAGNITUDE, r.forces);
      r.energy = f["energy"].number();
      if (f.has("stress") && !f["stress"].is_null()) {
        if (!has_cell) f["stress"].fail("no stress without a cell");
        f["stress"].size(6, "numbers");
        for (size_t d = 0; d < 6; ++d) r.stress[d] = f["stress"][d].number();
        r.has_stress = true;
      }
      model_.self_check.push_back(std::move(r));
    }
  }

  void check_images(const JsonField &field, const ReferenceStructure &r) {
    try {
      num_structure_pairs_ += num_image_candidates(r.positions, r.cell, r.periodic, model_.cutoff);
    } catch (const std::invalid_argument &e) {
      field.refuse(e.what());
    }
    if (num_structure_pairs_ > MAX_STRUCTURE_PAIRS)
      field.fail("structures with at most " + text_of(MAX_STRUCTURE_PAIRS) +
                     " pairs of atoms within the cutoff, periodic images included",
                 text_of(num_structure_pairs_) + " up to this one");
  }

  static void check_cell(const JsonField &field, const ReferenceStructure &r) {
    const auto &c = r.cell;
    const double volume = c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
                          c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
                          c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]);
    // A box of a structure that is periodic in one or two directions may be flat in the others.
    if (r.periodic[0] && r.periodic[1] && r.periodic[2] && !(std::fabs(volume) > 0.0))
      field.fail("a cell with a volume", "none");
  }
};

}    // namespace

std::string read_file_bytes(const std::string &path) {
  // Not from a folder, a pipe or a device, which have no length.
  std::error_code status;
  const auto size = std::filesystem::file_size(path, status);
  std::ifstream file(path, std::ios::binary);
  if (status || !std::filesystem::is_regular_file(path, status) || !file)
    throw ModelFileError(path + ": expected a model file, found none that can be opened: " +
                         (status ? status.message() : std::strerror(errno)));
  std::string bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception &) {
    throw ModelFileError(path + ": expected a file that fits into memory, found " + std::to_string(size) + " bytes");
  }
  file.read(&bytes[0], static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(file.gcount()) != size)
    throw ModelFileError(path + ": expected a readable file of " + std::to_string(size) +
                         " bytes, found an error after " + std::to_string(file.gcount()));
  return bytes;
}

Model parse_model(const std::string &bytes, const std::string &path) {
  try {
    const SafetensorsFile container = parse_safetensors(bytes, path);
    const auto it = container.metadata.find("equi");
    if (it == container.metadata.end())
      throw ModelFileError(path +
                           ": __metadata__.equi: expected the model's description, found none (not an .equi file?)");
    const nlohmann::json document = parse_json(it->second.data(), it->second.size(), path, "__metadata__.equi");
    return Reader(container, path).read(JsonField(document, path, ""));
  } catch (const std::bad_alloc &) {
    throw ModelFileError(path + ": expected a model that fits into memory, found a larger one");
  }
}

}    // namespace equi
