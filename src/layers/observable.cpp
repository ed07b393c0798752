// SPDX-License-Identifier: MIT
// Reads the layer observable, counts its operations, and converts polarizabilities.
#include "src/layers/observable.h"

#include "src/layers/layer_reader.h"

#include <cmath>

namespace equi {

namespace {

// The degrees l of the blocks of a quantity.
std::vector<int> degrees_of(const std::string &name) {
  if (name == "charge" || name == "spin") return {0};
  if (name == "dipole") return {1};
  return {0, 2};
}

std::vector<std::string> units_of(const std::string &name) {
  if (name == "charge") return {"e"};
  if (name == "spin") return {"electrons"};
  if (name == "dipole") return {"e*Angstrom", "Debye"};
  return {"e*Angstrom^2/V", "Angstrom^3", "Bohr^3", "unknown"};
}

}    // namespace

const FieldSpecs &Observable::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_fields(),
      {word("name", {"charge", "dipole", "polarizability", "spin"}, "the quantity"),
       list("blocks", "blocks", 1, 2, integer("", ""),
            "a 0e block of a charge or a spin, a block of l = 1 of a dipole, a 0e and a 2e block of a "
            "polarizability"),
       word("unit", {"e", "e*Angstrom", "Debye", "e*Angstrom^2/V", "Angstrom^3", "Bohr^3", "electrons", "unknown"},
            "unit of the feature")});
  return fields;
}

Observable Observable::read(const JsonField &layer, LayerReader &reader) {
  Observable o;
  o.input = reader.input(layer);
  o.name = layer["name"].text();
  o.unit = layer["unit"].text();
  const std::vector<std::string> units = units_of(o.name);
  if (std::find(units.begin(), units.end(), o.unit) == units.end()) {
    std::string known;
    for (const std::string &unit : units) known += (known.empty() ? "" : " or ") + unit;
    layer["unit"].fail("a unit of a " + o.name + ", " + known);
  }
  if (o.unit == "Debye") o.scale = DEBYE;
  const Irreps &in = reader.features()[o.input];
  const std::vector<int> degrees = degrees_of(o.name);
  const JsonField blocks = layer["blocks"];
  blocks.size(degrees.size(), ("blocks of a " + o.name).c_str());
  for (size_t k = 0; k < degrees.size(); ++k) {
    const JsonField block = blocks[k];
    o.blocks.push_back(block.integer(0, in.size() - 1));
    const IrrepBlock &found = in[o.blocks.back()];
    // Charges and polarizabilities do not change their signs under inversion. A model with even harmonics only has
    // dipoles of both parities.
    const bool is_right = found.mul == 1 && found.irrep.l == degrees[k] && (degrees[k] == 1 || found.irrep.p == 1);
    if (!is_right)
      block.fail(degrees[k] == 1 ? "a block of one vector, 1x1o or 1x1e"
                                 : "a block of one channel, 1x" + std::to_string(degrees[k]) + "e",
                 Irreps({found}).to_string());
  }
  return o;
}

LayerOperations Observable::operations(const OperationContext &) const {
  return {{2.0 * width(name), 0.0}, {}};
}

std::array<double, 6> polarizability_tensor(const double numbers[6]) {
  const double *t = numbers + 1;    // xz, xy, 2yy - zz - xx, yz, zz - xx
  const double mean = numbers[0] / std::sqrt(3.0), axial = t[2] / std::sqrt(6.0), other = t[4] / std::sqrt(2.0);
  return {mean - axial - other,  mean + 2.0 * axial,    mean - axial + other,
          t[1] / std::sqrt(2.0), t[0] / std::sqrt(2.0), t[3] / std::sqrt(2.0)};
}

}    // namespace equi
