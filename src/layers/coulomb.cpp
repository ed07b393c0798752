// SPDX-License-Identifier: MIT
// Reads the layer coulomb and counts its operations.
#include "src/layers/coulomb.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

namespace {

constexpr double MAX_PERMITTIVITY = 1e6;

}    // namespace

const FieldSpecs &Coulomb::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_fields(),
      {tensor("weights", "[channels]", "weights of the products of charges"),
       number("prefactor", "energy of two unit charges, eV Angstrom"),
       number("cutoff", "cutoff of this layer, Angstrom", MIN_CUTOFF, MAX_CUTOFF),
       optional(number("damping", "distance below which the interaction is damped, Angstrom", MIN_LENGTH, MAX_LENGTH)),
       optional(number("permittivity", "of the medium beyond the cutoff; without it and a kernel all pairs interact",
                       1.0, MAX_PERMITTIVITY)),
       optional(object("kernel",
                       {word("kind", {"erf_shifted", "erf"},
                             "interaction of charges with a width: shifted, or bare and of all pairs"),
                        number("sigma", "width of the charges, Angstrom", MIN_LENGTH, MAX_LENGTH),
                        optional(number("on", "distance from which the force is shifted, Angstrom; of erf_shifted", 0.0,
                                        MAX_CUTOFF))},
                       "in place of damping and permittivity"))});
  return fields;
}

Coulomb Coulomb::read(const JsonField &layer, LayerReader &reader) {
  Coulomb c;
  c.input = reader.input(layer);
  int channels = 0;
  for (const IrrepBlock &block : reader.features()[c.input]) {
    if (block.irrep != Irrep{0, 1}) layer["irreps_in"].fail("0e blocks alone", Irreps({block}).to_string());
    channels += block.mul;
  }
  c.weights = reader.tensors.values(layer["weights"], {channels});
  c.cutoff = layer["cutoff"].number();
  c.function = {layer["prefactor"].number()};
  const auto note = [&](const char *what) {
    reader.notes.push_back("Coulomb energy of the model's charges within " + text_of(c.cutoff) + " Angstrom, " + what);
  };
  if (layer.has("kernel")) {
    const JsonField kernel = layer["kernel"];
    for (const char *other : {"damping", "permittivity"})
      if (layer.has(other)) kernel.fail(std::string("no kernel beside ") + other, "both");
    const bool is_shifted = kernel["kind"].text() == "erf_shifted";
    if (is_shifted != kernel.has("on")) kernel.fail("'on' beside erf_shifted alone", is_shifted ? "none" : "both");
    if (!is_shifted) {
      c.function.width = kernel["sigma"].number();
      c.function.cutoff = c.cutoff;
      c.is_over_all_pairs = true;
      note("of all pairs of atoms in a cluster");
      return c;
    }
    const double on = kernel["on"].number();
    if (!(c.cutoff - on >= MIN_LENGTH)) kernel["on"].fail("a distance below the cutoff", text_of(on));
    c.function = CoulombFunction::of_width(c.function.prefactor, kernel["sigma"].number(), on, c.cutoff);
    note("shifted to zero there");
    return c;
  }
  if (layer.has("damping")) c.function.damping = layer["damping"].number();
  c.is_over_all_pairs = !layer.has("permittivity");
  note(c.is_over_all_pairs ? "of all pairs of atoms in a cluster" : "a reaction field beyond it");
  if (c.is_over_all_pairs) return c;
  const double p = layer["permittivity"].number();
  c.function.square = (p - 1.0) / ((2.0 * p + 1.0) * c.cutoff * c.cutoff * c.cutoff);
  c.function.shift = 3.0 * p / ((2.0 * p + 1.0) * c.cutoff);
  return c;
}

// Operations per edge within the layer's own cutoff, which has more edges than the model's: products of charges, and
// the function of the distance, which for charges with a width has three exponentials. One pass computes energies and
// derivatives.
LayerOperations Coulomb::operations(const OperationContext &) const {
  const double n = static_cast<double>(weights.size()), of_distance = function.width > 0.0 ? 80.0 : 30.0;
  return {{n, n}, {5.0 * n + of_distance, 0.0}};
}

}    // namespace equi
