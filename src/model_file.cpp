// From the container's document to a Model. Every number is checked before it is used as an index or a size.
#include "model_file.h"

#include "json_field.h"
#include "safetensors.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace equi {

namespace {

constexpr int LMAX_SUPPORTED = 8;    // up to here the couplings are accurate (coupling.h)
constexpr int MAX_POWER = 16;
constexpr int MAX_POLYNOMIALS = 64;    // T_n grows as (2x)^n / 2
constexpr int MAX_EXPONENTIALS = 64;
constexpr double MAX_TRANSFORM_POWER = 32.0;
// Bounds of what a small file can make the reader allocate, through tensors used many times or products of matrices.
constexpr size_t MAX_NUMBERS = size_t(1) << 28;

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

class Reader {
 public:
  Reader(const SafetensorsFile &container, const std::string &path) : container_(container) { model_.file = path; }

  Model read(const JsonField &document) {
    read_head(document);
    const JsonField layers = document["layers"];
    if (layers.size() == 0) layers.fail("at least one layer");
    for (size_t i = 0; i < layers.size(); ++i) {
      if (has_scale_shift_ && layers[i]["type"].text() != "pair_repulsion")
        layers[i].fail("no layer but pair_repulsion after scale_shift", layers[i]["type"].describe());
      read_layer(layers[i]);
    }
    if (!has_readout_) layers.fail("a readout layer", "none");
    for (const auto &[name, tensor] : container_.tensors)
      if (!used_.count(name))
        throw ModelFileError(model_.file + ": tensor " + name +
                             ": expected only tensors that a layer uses, found this one");
    if (document.has("self_check")) read_self_check(document["self_check"]);
    return std::move(model_);
  }

 private:
  const SafetensorsFile &container_;
  Model model_;
  RadialBasis basis_;
  bool edge_parity_ = false, has_readout_ = false, has_scale_shift_ = false;
  std::set<std::string> used_;         // tensors
  size_t num_numbers_ = 0;             // read so far, with repetition
  std::vector<bool> has_been_read_;    // per feature

  // ---- head ----

  void read_head(const JsonField &d) {
    d.object();
    if (d["format"].text() != "equi") d["format"].fail("\"equi\"");
    const JsonField version = d["format_version"];
    if (version.integer(1, INT32_MAX) > MODEL_FORMAT_VERSION)
      version.fail("at most " + std::to_string(MODEL_FORMAT_VERSION),
                   version.describe() + ": the file is newer than this program");
    model_.framework = d["framework"]["name"].text();
    model_.framework_version = d["framework"]["version"].text();
    model_.architecture = d["architecture"].text();

    const JsonField elements = d["elements"];
    if (elements.size() == 0) elements.fail("at least one chemical symbol");
    for (size_t i = 0; i < elements.size(); ++i) {
      const std::string &symbol = elements[i].text();
      if (!is_chemical_symbol(symbol)) elements[i].fail("a chemical symbol");
      if (model_.species(symbol) >= 0) elements[i].fail("each element once", symbol + " again");
      model_.elements.push_back(symbol);
    }

    model_.cutoff = d["cutoff"].number();
    if (!(model_.cutoff > 0.0)) d["cutoff"].fail("a positive length");
    model_.lmax_edge = d["lmax_edge"].integer(0, LMAX_SUPPORTED);
    edge_parity_ = d["edge_parity"].boolean();

    const JsonField units = d["units"];
    if (units["energy"].text() != "eV") units["energy"].fail("\"eV\"");
    if (units["length"].text() != "Angstrom") units["length"].fail("\"Angstrom\"");

    const JsonField provenance = d["provenance"];
    provenance.object();
    for (const auto &item : provenance.json().items())
      model_.provenance[item.key()] = JsonField(item.value(), model_.file, "provenance." + item.key()).text();

    read_radial_basis(d["radial_basis"]);
  }

  void read_radial_basis(const JsonField &b) {
    const std::string &kind = b["kind"].text();
    const auto several = [&](const char *key, std::vector<double> &values) {
      values = tensor(b[key], {-1}, 1.0);
      if (values.empty()) b[key].fail("at least one number", "none");
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
      basis_.width = positive(b["width"]);
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
    if (!b.has("cutoffs")) return;
    const JsonField cutoffs = b["cutoffs"];
    if (b.has("transform")) cutoffs.fail("no cutoffs of pairs together with a transform", "both");
    if (basis_.cutoff_kind == RadialBasis::Cutoff::xplor)
      cutoffs.fail("no cutoffs of pairs together with xplor", "both");
    basis_.pair_cutoff = positive_pairs(cutoffs);
    for (double c : basis_.pair_cutoff.data)
      if (c > model_.cutoff) cutoffs.fail("cutoffs of at most " + std::to_string(model_.cutoff), std::to_string(c));
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
      basis_.soft_alpha = t["alpha"].number();
    } else {
      t["kind"].fail("\"agnesi\" or \"soft\"");
    }
    basis_.pair_r0 = positive_pairs(t["r0"]);
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
    const size_t num = field.size();
    if (num < 1 || num > MAX_EXPONENTIALS) field.fail("an array of 1 to " + std::to_string(MAX_EXPONENTIALS));
    std::vector<double> values;
    for (size_t k = 0; k < num; ++k) values.push_back(field[k].number());
    return values;
  }

  // ---- tensors ----

  // Values of the tensor that `field` names, times scale. -1 in shape: any length.
  std::vector<double> tensor(const JsonField &field, const std::vector<int> &shape, double scale) {
    const std::string &name = field.text();
    const auto it = container_.tensors.find(name);
    if (it == container_.tensors.end()) field.fail("the name of a tensor in the file", field.describe());
    const StoredTensor &t = it->second;
    bool fits = t.shape.size() == shape.size();
    std::string expected;
    for (size_t d = 0; d < shape.size(); ++d) {
      expected += (d ? ", " : "") + (shape[d] < 0 ? std::string("n") : std::to_string(shape[d]));
      fits = fits && (shape[d] < 0 || t.shape[d] == shape[d]);
    }
    if (!fits) field.fail("tensor " + name + " of shape [" + expected + "]", t.shape_text());
    num_numbers_ += static_cast<size_t>(t.size());
    if (num_numbers_ > MAX_NUMBERS)
      field.fail("a model of at most " + std::to_string(MAX_NUMBERS) + " numbers", "more");
    used_.insert(name);
    std::vector<double> values = t.values();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale;
      if (!std::isfinite(values[i]))
        field.fail("finite numbers in tensor " + name, std::to_string(values[i]) + " at index " + std::to_string(i));
    }
    return values;
  }

  Matrix matrix(const JsonField &field, int rows, int cols, double scale) {
    return Matrix{rows, cols, tensor(field, {rows, cols}, scale)};
  }

  // [species of the receiver, species of the sender].
  Matrix pairs(const JsonField &field) { return matrix(field, model_.num_species(), model_.num_species(), 1.0); }

  Matrix positive_pairs(const JsonField &field) {
    Matrix m = pairs(field);
    for (double v : m.data)
      if (!(v > 0.0)) field.fail("positive numbers in tensor " + field.text(), std::to_string(v));
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
    for (size_t i = 0; i < model_.feature_names.size(); ++i)
      if (model_.feature_names[i] == name) return static_cast<int>(i);
    return -1;
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
    model_.feature_names.push_back(name.text());
    model_.features.push_back(irreps(layer[irreps_key]));
    has_been_read_.push_back(false);
    return static_cast<int>(model_.features.size()) - 1;
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
    std::set<std::pair<int, int>> pairs;
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
        product.per_species ? tensor(weight, {num_species, -1, mul}, 1.0) : tensor(weight, {-1, mul}, 1.0);
    const int num_matrices = product.per_species ? num_species : 1;
    term.num_paths = static_cast<int>(container_.tensors.at(weight.text()).shape[product.per_species ? 1 : 0]);
    if (term.num_paths == 0) weight.fail("at least one path", "none");
    const size_t size = static_cast<size_t>(term.num_paths) * mul;
    for (int s = 0; s < num_matrices; ++s)
      term.weight.push_back(Matrix{term.num_paths, mul, {all.begin() + s * size, all.begin() + (s + 1) * size}});

    std::vector<int> parity;    // of the components of one channel of the input
    for (const IrrepBlock &b : product.irreps_in) parity.insert(parity.end(), b.irrep.dim(), b.irrep.p);
    const IrrepBlock &block = product.irreps_out[out];
    const int columns = term.degree + 3;
    const std::vector<double> rows = tensor(coupling, {-1, columns}, 1.0);
    for (size_t first = 0; first < rows.size(); first += columns) {
      const std::string where = "in row " + std::to_string(first / columns) + " of tensor " + coupling.text();
      const auto index = [&](int column, const char *what, int num) {
        const double v = rows[first + column];
        if (!(v >= 0.0 && v < num && v == std::floor(v)))
          coupling.fail(std::string(what) + ", a whole number from 0 to " + std::to_string(num - 1) + ", " + where,
                        std::to_string(v));
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
    r.length = positive_pairs(layer["length"]);
    r.cutoff = positive_pairs(layer["cutoff"]);
    r.p = cutoff_power(layer["p"]);
    r.coefficients = numbers(layer["coefficients"]);
    r.exponents = numbers(layer["exponents"]);
    layer["exponents"].size(r.coefficients.size(), "exponents, one per coefficient");
    for (size_t k = 0; k < r.exponents.size(); ++k)
      if (r.exponents[k] < 0.0) layer["exponents"][k].fail("a number that is not negative");
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
    if (name != "uvu" && name != "uvw") field.fail("uvu or uvw", "'" + name + "'");
    return name == "uvw" ? Connection::uvw : Connection::uvu;
  }

  // A network on the radial basis and perhaps on rows of the two species or, if the layer has an input, on a block of
  // it at either atom.
  RadialFunction radial_function(const JsonField &n, int num_outputs, const Irreps *input = nullptr) {
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
      rows.data = tensor(n[key], {model_.num_species(), -1}, 1.0);
      if (rows.data.empty()) n[key].fail("at least one number per species", "none");
      rows.rows = model_.num_species();
      rows.cols = static_cast<int>(rows.data.size()) / rows.rows;
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

  // The keys that both kinds of networks have, and norms.
  Network network(const JsonField &n, int num_inputs, int num_outputs) {
    Network net;
    const JsonField weights = n["weights"], scales = n["scales"];
    const size_t num = weights.size();
    if (num == 0) weights.fail("at least one weight");
    scales.size(num, "scales, one per weight");
    if (n.has("biases")) n["biases"].size(num, "biases, one per weight");
    if (n.has("norms")) n["norms"].size(num, "norms, one per weight");
    net.biases.resize(num);
    int width = num_inputs;
    for (size_t k = 0; k < num; ++k) {
      const bool is_last = k + 1 == num;
      const std::vector<double> values = tensor(weights[k], {width, is_last ? num_outputs : -1}, scales[k].number());
      const int cols = static_cast<int>(container_.tensors.at(weights[k].text()).shape[1]);
      if (cols == 0) weights[k].fail("a matrix with columns", "none");
      if (size_t(num_inputs) * cols > MAX_NUMBERS) weights[k].fail("a network of moderate width", std::to_string(cols));
      net.weights.push_back(Matrix{width, cols, values});
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
    net.activation = activation(n["activation"]);
    net.activation_scale = n["activation_scale"].number();
    net.simplify();
    for (const Matrix &m : net.weights)
      for (double v : m.data)
        if (!std::isfinite(v)) n.fail("finite products of its matrices", "one that is not");
    return net;
  }

  // ---- self-check ----

  static void vectors(const JsonField &field, size_t num, const char *of_what,
                      std::vector<std::array<double, 3>> &out) {
    field.size(num, of_what);
    for (size_t i = 0; i < num; ++i) {
      field[i].size(3, "numbers");
      out.push_back({field[i][size_t(0)].number(), field[i][1].number(), field[i][2].number()});
    }
  }

  void read_self_check(const JsonField &list) {
    for (size_t k = 0; k < list.size(); ++k) {
      const JsonField f = list[k];
      ReferenceStructure r;
      r.name = f["name"].text();
      const JsonField symbols = f["symbols"];
      if (symbols.size() == 0) symbols.fail("at least one atom");
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (model_.species(symbols[i].text()) < 0) symbols[i].fail("an element of the model");
        r.symbols.push_back(symbols[i].text());
      }
      const JsonField pbc = f["pbc"];
      pbc.size(3, "values");
      for (size_t d = 0; d < 3; ++d) r.periodic[d] = pbc[d].boolean();
      const bool is_periodic = r.periodic[0] || r.periodic[1] || r.periodic[2];
      const bool has_cell = f.has("cell") && !f["cell"].is_null();
      if (is_periodic && !has_cell) f.fail("a cell for a periodic structure", "none");
      if (has_cell) {
        std::vector<std::array<double, 3>> rows;
        vectors(f["cell"], 3, "lattice vectors", rows);
        for (int a = 0; a < 3; ++a)
          for (int b = 0; b < 3; ++b) r.cell[a][b] = rows[a][b];
        check_cell(f["cell"], r);
      }
      vectors(f["positions"], r.symbols.size(), "positions, one per atom", r.positions);
      vectors(f["forces"], r.symbols.size(), "forces, one per atom", r.forces);
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
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw ModelFileError(path + ": expected a model file, found none that can be opened: " + std::strerror(errno));
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad() || bytes.bad())
    throw ModelFileError(path + ": expected a readable file, found an error while reading");
  return std::move(bytes).str();
}

Model parse_model(const std::string &bytes, const std::string &path) {
  const SafetensorsFile container = parse_safetensors(bytes, path);
  const auto it = container.metadata.find("equi");
  if (it == container.metadata.end())
    throw ModelFileError(path +
                         ": __metadata__.equi: expected the model's description, found none (not an .equi file?)");
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(it->second);
  } catch (const nlohmann::json::exception &e) {
    throw ModelFileError(path + ": __metadata__.equi: expected valid JSON, found: " + e.what());
  }
  return Reader(container, path).read(JsonField(document, path, ""));
}

}    // namespace equi
