// SPDX-License-Identifier: MIT
// Reads the layer pair_repulsion and computes its energies of pairs.
#include "src/layers/pair_repulsion.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

namespace equi {

namespace {

constexpr int MAX_EXPONENTIALS = 64;

std::vector<double> read_numbers(const JsonField &field) {
  std::vector<double> values;
  for (size_t k = 0; k < field.size(); ++k) values.push_back(field[k].number());
  return values;
}

}    // namespace

const FieldSpecs &PairRepulsion::fields() {
  using namespace field;
  static const FieldSpecs fields = {
      tensor("prefactor", "[species, species]", "product of the charges, eV Angstrom"),
      tensor("length", "[species, species]", "screening length, Angstrom"),
      tensor("cutoff", "[species, species]", "cutoff of the pair, Angstrom"),
      required_unless("cutoff_function",
                      number("p", "power of the polynomial cutoff function", MIN_CUTOFF_POWER, MAX_CUTOFF_POWER)),
      optional(word("cutoff_function", {"cosine"}, "stands in place of the polynomial")),
      optional(object("switch",
                      {number("on", "distance at which the energy begins to fall, Angstrom", 0.0, MAX_CUTOFF),
                       number("off", "distance from which it is 0, Angstrom", MIN_LENGTH, MAX_CUTOFF)},
                      "another factor of the energy")),
      list("coefficients", "numbers", 1, MAX_EXPONENTIALS, number("", ""), "coefficients of the exponentials"),
      list("exponents", "numbers", 1, MAX_EXPONENTIALS, number("", "", 0.0, MAX_STEEPNESS), "one per coefficient")};
  return fields;
}

PairRepulsion PairRepulsion::read(const JsonField &layer, LayerReader &reader) {
  PairRepulsion r;
  r.prefactor = reader.tensors.pairs(layer["prefactor"]);
  r.length = reader.tensors.pairs_between(layer["length"], MIN_LENGTH, MAX_LENGTH);
  r.cutoff = reader.tensors.pairs_between(layer["cutoff"], MIN_LENGTH, MAX_CUTOFF);
  r.p = 0.0;
  if (!layer.has("cutoff_function"))
    r.p = layer["p"].number();
  else if (layer.has("p"))
    layer["p"].fail("no power beside the cutoff function", "both");
  if (layer.has("switch")) {
    const JsonField range = layer["switch"];
    r.on = range["on"].number();
    r.off = range["off"].number();
    if (!(r.off - r.on >= MIN_LENGTH)) range["off"].fail("a distance beyond " + text_of(r.on), text_of(r.off));
  }
  r.coefficients = read_numbers(layer["coefficients"]);
  r.exponents = read_numbers(layer["exponents"]);
  layer["exponents"].size(r.coefficients.size(), "exponents, one per coefficient");
  return r;
}

void PairRepulsion::restrict_to(const KeptSpecies &kept) {
  kept.pairs(prefactor);
  kept.pairs(length);
  kept.pairs(cutoff);
}

double PairRepulsion::energy(int receiver, int sender, double r, double *derivative, double *second) const {
  if (derivative) *derivative = 0.0;
  if (second) *second = 0.0;
  if (r >= cutoff(receiver, sender)) return 0.0;    // a distance that is not a number passes
  const Jet e =
      function()(Jet::variable(r), prefactor(receiver, sender), length(receiver, sender), cutoff(receiver, sender));
  if (derivative) *derivative = e.d[1];
  if (second) *second = e.d[2];
  return e.value();
}

// Each exponential counts its argument, itself and a multiply-add, and another one for the derivative. The cutoff
// polynomial follows.
LayerOperations PairRepulsion::operations(const OperationContext &) const {
  const double n = static_cast<double>(coefficients.size());
  return {{}, {4.0 * n + 12.0, 2.0 * n + 12.0}};
}

}    // namespace equi
