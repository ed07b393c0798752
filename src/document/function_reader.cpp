// SPDX-License-Identifier: MIT
// Reads the radial basis, networks and radial functions from a document.
#include "src/document/function_reader.h"

#include "src/base/model_limits.h"

#include <cmath>
#include <string>
#include <vector>

namespace equi {

namespace {

constexpr int MAX_POLYNOMIALS = 64;    // T_n grows as (2x)^n / 2
constexpr int MAX_BUMPS = 1024;
constexpr double MAX_TRANSFORM_POWER = 32.0;
constexpr double MAX_FACTOR = 1e6;         // limit of the exponents of exp_normal, which are narrow peaks above it
constexpr double MIN_STEEPNESS = 1e-3;     // of bernstein, whose functions would hardly change below it
constexpr double MAX_LOGARITHM = 200.0;    // of factors of bernstein: more than for 256 functions

double positive(const JsonField &field) {
  const double v = field.number();
  if (!(v > 0.0)) field.fail("a positive number");
  return v;
}

double transform_power(const JsonField &field) {
  const double v = positive(field);
  if (v > MAX_TRANSFORM_POWER) field.fail("at most " + std::to_string(MAX_TRANSFORM_POWER));
  return v;
}

void read_functions(const JsonField &b, RadialBasis &basis, TensorReader &tensors) {
  const std::string kind = b["kind"].text();
  const auto several = [&](const char *key, std::vector<double> &values) {
    values = tensors.values(b[key], {ANY_LENGTH});
    if (values.size() > MAX_FUNCTIONS)
      b[key].fail("at most " + std::to_string(MAX_FUNCTIONS) + " numbers", std::to_string(values.size()));
  };
  if (kind == "bessel") {
    b.only_keys({"kind", "wave_numbers", "prefactor", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
    basis.kind = RadialBasis::Kind::bessel;
    several("wave_numbers", basis.wave_numbers);
    basis.prefactor = b["prefactor"].number();
  } else if (kind == "gaussian") {
    b.only_keys({"kind", "centres", "width", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
    basis.kind = RadialBasis::Kind::gaussian;
    several("centres", basis.centers);
    basis.width = b["width"].number(MIN_LENGTH, MAX_LENGTH);
  } else if (kind == "chebyshev") {
    b.only_keys({"kind", "size", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
    basis.kind = RadialBasis::Kind::chebyshev;
    basis.num_polynomials = b["size"].integer(1, MAX_POLYNOMIALS);
  } else if (kind == "exp_normal") {
    b.only_keys({"kind", "means", "factors", "decay", "cutoff_function", "apply_cutoff", "transform", "cutoffs"});
    basis.kind = RadialBasis::Kind::exp_normal;
    several("means", basis.exponentials);
    const std::vector<double> factors = tensors.values(b["factors"], {static_cast<int64_t>(basis.exponentials.size())});
    for (const double f : factors)
      if (!(f >= 0.0 && f <= MAX_FACTOR)) b["factors"].fail("numbers from 0 to " + text_of(MAX_FACTOR), text_of(f));
    basis.exponentials.insert(basis.exponentials.end(), factors.begin(), factors.end());
    basis.decay = b["decay"].number(0.0, MAX_STEEPNESS);
  } else if (kind == "cosine_bump") {
    b.only_keys({"kind", "size", "span", "cutoff_function", "apply_cutoff", "cutoffs"});
    basis.kind = RadialBasis::Kind::cosine_bump;
    basis.num_polynomials = b["size"].integer(1, MAX_BUMPS);
    basis.span = b["span"].integer(1, basis.num_polynomials);
  } else if (kind == "bernstein") {
    b.only_keys({"kind", "gamma", "log_coefficients", "cutoff_function", "apply_cutoff"});
    basis.kind = RadialBasis::Kind::bernstein;
    basis.decay = b["gamma"].number(MIN_STEEPNESS, MAX_STEEPNESS);
    several("log_coefficients", basis.binomials);
    for (double &v : basis.binomials) {
      if (!(std::fabs(v) <= MAX_LOGARITHM))
        b["log_coefficients"].fail("magnitudes of at most " + text_of(MAX_LOGARITHM), text_of(v));
      v = std::exp(v);
    }
  } else {
    b["kind"].fail("\"bessel\", \"gaussian\", \"chebyshev\", \"exp_normal\", \"bernstein\" or \"cosine_bump\"");
  }
}

void read_cutoff_function(const JsonField &f, RadialBasis &basis) {
  const std::string kind = f["kind"].text();
  if (kind == "polynomial") {
    f.only_keys({"kind", "p"});
    basis.cutoff_kind = RadialBasis::Cutoff::polynomial;
    basis.p = f["p"].number(MIN_CUTOFF_POWER, MAX_CUTOFF_POWER);
  } else if (kind == "xplor") {
    f.only_keys({"kind", "r_on"});
    basis.cutoff_kind = RadialBasis::Cutoff::xplor;
    basis.r_on = f["r_on"].number();
    if (!(basis.r_on >= 0.0 && basis.r_on < basis.cutoff)) f["r_on"].fail("a distance from 0 to below the cutoff");
  } else if (kind == "cosine") {
    f.only_keys({"kind"});
    basis.cutoff_kind = RadialBasis::Cutoff::cosine;
  } else if (kind == "none") {
    f.only_keys({"kind"});
    basis.cutoff_kind = RadialBasis::Cutoff::none;
  } else {
    f["kind"].fail("\"polynomial\", \"xplor\", \"cosine\" or \"none\"");
  }
}

void read_transform(const JsonField &t, RadialBasis &basis, TensorReader &tensors) {
  const std::string kind = t["kind"].text();
  if (kind == "agnesi") {
    t.only_keys({"kind", "r0", "q", "p", "a"});
    basis.transform = RadialBasis::Transform::agnesi;
    basis.agnesi_q = transform_power(t["q"]);
    basis.agnesi_p = transform_power(t["p"]);
    basis.agnesi_a = positive(t["a"]);
  } else if (kind == "soft") {
    t.only_keys({"kind", "r0", "alpha"});
    basis.transform = RadialBasis::Transform::soft;
    basis.soft_alpha = t["alpha"].number(-MAX_STEEPNESS, MAX_STEEPNESS);
  } else {
    t["kind"].fail("\"agnesi\" or \"soft\"");
  }
  basis.pair_r0 = tensors.pairs_between(t["r0"], MIN_LENGTH, MAX_LENGTH);
}

// A length of a tensor that is the width of a network's layer.
int width_of(const JsonField &field, const TensorReader &tensors) {
  const int64_t width = tensors.length(field, 1);
  if (width > MAX_WIDTH)
    field.fail("a tensor with at most " + std::to_string(MAX_WIDTH) + " columns", std::to_string(width));
  return static_cast<int>(width);
}

// The query is the last of the receiver's inputs.
void read_gate(const JsonField &n, int64_t num_outputs, const Irreps *input, TensorReader &tensors, RadialFunction &f) {
  const JsonField gate = n["gate"], norm = gate["norm"];
  const int64_t width = f.receiver_block >= 0 ? (*input)[f.receiver_block].mul : f.receiver.cols;
  if (width < num_outputs)
    gate.fail("at least " + std::to_string(num_outputs) + " inputs of the receiver, the last ones for the query",
              std::to_string(width));
  f.gate = RadialGate{gate["scale"].number(),
                      {tensors.values(norm["weight"], {num_outputs}), tensors.values(norm["bias"], {num_outputs}),
                       norm["epsilon"].number()},
                      {}};
}

// A network whose first matrix has no rows for the query in the file.
Network network_before_gate(const JsonField &n, int num_inputs, int64_t num_outputs, TensorReader &tensors) {
  Network network = read_network(n, num_inputs - static_cast<int>(num_outputs), 2 * num_outputs, tensors);
  Matrix &first = network.weights.front();
  tensors.lay_out(n["weights"], num_outputs * first.cols);
  first.rows = num_inputs;
  first.data.resize(static_cast<size_t>(first.rows) * first.cols, 0.0);
  return network;
}

}    // namespace

Activation read_activation(const JsonField &field) {
  return field.checked([&] { return parse_activation(field.text()); });
}

FieldSpecs network_fields() {
  using namespace field;
  return {
      list("weights", "weights", 1, MAX_MATRICES, tensor("", "[inputs, outputs]", ""), "matrices, one after another"),
      list("scales", "scales", 0, MAX_MATRICES, number("", ""), "factors of the matrices"),
      optional(list(
          "biases", "biases", 0, MAX_MATRICES,
          any_of(
              "",
              {null(),
               object("", {tensor("tensor", "[outputs]", "what is added"), number("scale", "factor of the bias")}, "")},
              ""),
          "what is added behind each matrix")),
      activation("activation", "between matrices"), number("activation_scale", "factor of the activation")};
}

FieldSpecs radial_fields(bool has_input, bool may_activate_last) {
  using namespace field;
  const auto inputs = [&](const char *name, const char *meaning) {
    if (!has_input) return optional(tensor(name, "[species, n]", meaning));
    return optional(any_of(name,
                           {object("", {integer("block", "number of a 0e block of the input of the layer")}, ""),
                            tensor("", "[species, n]", "")},
                           meaning));
  };
  FieldSpecs fields = joined(
      network_fields(), {inputs("sender", "inputs of the sender"), inputs("receiver", "inputs of the receiver"),
                         optional(list("norms", "norms", 0, MAX_MATRICES,
                                       any_of("",
                                              {null(), object("",
                                                              {tensor("weight", "[outputs]", "factors"),
                                                               tensor("bias", "[outputs]", "what is added"),
                                                               divisor("epsilon", "is added to the variance")},
                                                              "")},
                                              ""),
                                       "normalize what a matrix gives")),
                         optional(boolean("times_cutoff", "whether outputs are multiplied by the cutoff function"))});
  if (may_activate_last) fields.push_back(optional(boolean("activate_last", "whether outputs are activated")));
  if (has_input)
    fields.push_back(
        optional(object("gate",
                        {number("scale", "factor of products of queries and keys"),
                         object("norm",
                                {tensor("weight", "[outputs]", "factors"), tensor("bias", "[outputs]", "what is added"),
                                 divisor("epsilon", "is added to the variance")},
                                "normalizes these products")},
                        "gates the outputs, by keys of the network and a query of the receiver")));
  if (has_input)
    fields.push_back(optional(object("pair_factor",
                                     {tensor("receiver", "[species, outputs]", "of the receiver"),
                                      tensor("sender", "[species, outputs]", "of the sender")},
                                     "rows whose sum multiplies outputs")));
  if (has_input)
    fields.push_back(
        optional(object("charge_potential",
                        {tensor("widths", "[species, species]", "widths of charges in Angstrom"),
                         number("p", "power of the polynomial cutoff function", MIN_CUTOFF_POWER, MAX_CUTOFF_POWER)},
                        "multiplies outputs by the potential of a Gaussian charge")));
  return fields;
}

int read_scalar_block(const JsonField &field, const Irreps &irreps) {
  const int block = field.integer(0, irreps.size() - 1);
  if (irreps[block].irrep != Irrep{0, 1}) field.fail("a 0e block", Irreps({irreps[block]}).to_string());
  return block;
}

RadialBasis read_radial_basis(const JsonField &b, double cutoff, TensorReader &tensors) {
  RadialBasis basis;
  read_functions(b, basis, tensors);
  basis.cutoff = cutoff;
  basis.apply_cutoff = !b.has("apply_cutoff") || b["apply_cutoff"].boolean();
  read_cutoff_function(b["cutoff_function"], basis);
  if (b.has("transform")) read_transform(b["transform"], basis, tensors);
  // The transform "agnesi" maps the distance to numbers from 0 to 1; otherwise it is hardly changed.
  const double largest = basis.transform == RadialBasis::Transform::agnesi ? 1.0 : cutoff;
  for (double k : basis.wave_numbers)
    if (!(std::fabs(k) * largest <= MAX_PHASE))
      b["wave_numbers"].fail("magnitudes of at most " + text_of(MAX_PHASE / largest), text_of(k));
  if (!b.has("cutoffs")) return basis;
  const JsonField cutoffs = b["cutoffs"];
  if (b.has("transform")) cutoffs.fail("no cutoffs of pairs together with a transform", "both");
  if (basis.cutoff_kind == RadialBasis::Cutoff::xplor) cutoffs.fail("no cutoffs of pairs together with xplor", "both");
  basis.pair_cutoff = tensors.pairs_between(cutoffs, MIN_CUTOFF, cutoff);
  return basis;
}

RadialFunction read_radial_function(const JsonField &n, const RadialBasis &basis, int64_t num_outputs,
                                    TensorReader &tensors, const Irreps *input) {
  RadialFunction f;
  f.basis = basis;
  int num_inputs = basis.size();
  const auto read_inputs = [&](const char *key, Matrix &rows, int &block) {
    if (!n.has(key)) return;
    if (input && n[key].json().is_object()) {
      const JsonField field = n[key]["block"];
      block = read_scalar_block(field, *input);
      num_inputs += (*input)[block].mul;
    } else {
      rows = tensors.matrix(n[key], tensors.num_species, ANY_LENGTH);
      num_inputs += width_of(n[key], tensors);
    }
  };
  read_inputs("sender", f.sender, f.sender_block);
  read_inputs("receiver", f.receiver, f.receiver_block);
  f.times_cutoff = n.has("times_cutoff") && n["times_cutoff"].boolean();
  if (n.has("gate")) read_gate(n, num_outputs, input, tensors, f);
  f.network = f.gate ? network_before_gate(n, num_inputs, num_outputs, tensors)
                     : read_network(n, num_inputs, num_outputs, tensors);
  if (n.has("activate_last") && n["activate_last"].boolean()) f.output = RadialFunction::Output::activated;
  if (n.has("pair_factor")) {
    const JsonField factor = n["pair_factor"];
    f.receiver_factor = tensors.matrix(factor["receiver"], tensors.num_species, num_outputs);
    f.sender_factor = tensors.matrix(factor["sender"], tensors.num_species, num_outputs);
    if (f.output != RadialFunction::Output::weights)
      factor.fail("no factors of pairs together with activate_last", "both");
  }
  if (f.gate && (f.output != RadialFunction::Output::weights || f.times_cutoff || f.has_pair_factor()))
    n["gate"].fail("no gate together with activate_last, times_cutoff or pair_factor", "both");
  if (n.has("charge_potential")) {
    const JsonField potential = n["charge_potential"];
    if (f.gate || f.reads_features())
      potential.fail("no potential of charges together with a gate or inputs from a block", "both");
    f.charge_potential =
        ChargePotential{tensors.pairs_between(potential["widths"], MIN_LENGTH, MAX_LENGTH), potential["p"].number()};
  }
  if (f.reads_features() && f.has_pair_factor())
    n.fail("no pair_factor where the network reads a block of the input", "one");
  return f;
}

Network read_network(const JsonField &n, int num_inputs, int64_t num_outputs, TensorReader &tensors) {
  if (num_inputs > MAX_WIDTH)
    n.fail("a network with at most " + std::to_string(MAX_WIDTH) + " inputs", std::to_string(num_inputs));
  Network net;
  net.activation = read_activation(n["activation"]);
  const JsonField weights = n["weights"], scales = n["scales"];
  const size_t num = weights.size();
  scales.size(num, "scales, one per weight");
  if (n.has("biases")) n["biases"].size(num, "biases, one per weight");
  if (n.has("norms")) n["norms"].size(num, "norms, one per weight");
  net.biases.resize(num);
  int width = num_inputs;
  for (size_t k = 0; k < num; ++k) {
    const bool is_last = k + 1 == num;
    net.weights.push_back(tensors.matrix(weights[k], width, is_last ? num_outputs : ANY_LENGTH, scales[k].number()));
    width = is_last ? static_cast<int>(num_outputs) : width_of(weights[k], tensors);
    // Matrices without an activation between them are multiplied into one.
    if (net.activation == Activation::identity) tensors.lay_out(weights[k], int64_t(num_inputs) * width);
    if (n.has("biases") && !n["biases"][k].is_null()) {
      const JsonField bias = n["biases"][k];
      net.biases[k] = tensors.values(bias["tensor"], {width}, bias["scale"].number());
    }
    if (n.has("norms") && !n["norms"][k].is_null()) {
      const JsonField norm = n["norms"][k];
      if (is_last) norm.fail("null for the last weight");
      net.norms.resize(num);
      net.norms[k] = {tensors.values(norm["weight"], {width}), tensors.values(norm["bias"], {width}),
                      norm["epsilon"].number()};
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

}    // namespace equi
