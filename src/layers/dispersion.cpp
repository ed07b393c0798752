// SPDX-License-Identifier: MIT
// Reads the layer dispersion and counts its operations.
#include "src/layers/dispersion.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

namespace {

// Atomic units. Those of free atoms lie between 1 and a few hundred, and a few thousand.
constexpr double LEAST_CONSTANT = 1e-6, LARGEST_CONSTANT = 1e6;
constexpr double DAMPING = 2.0 * 2.54;    // Bohr, for a scale of 1

std::vector<double> read_constants(const JsonField &field, LayerReader &reader) {
  const std::vector<double> values = reader.tensors.values(field, {reader.tensors.num_species});
  for (const double v : values)
    if (!(v >= LEAST_CONSTANT && v <= LARGEST_CONSTANT))
      field.fail("numbers from " + text_of(LEAST_CONSTANT) + " to " + text_of(LARGEST_CONSTANT), text_of(v));
  return values;
}

}    // namespace

const FieldSpecs &Dispersion::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_fields(),
             {optional(integer("block", "number of the 0e block of one channel that is read; 0 if it is absent")),
              tensor("polarizability", "[species]", "of free atoms, atomic units"),
              tensor("c6", "[species]", "coefficients of pairs of equal free atoms, atomic units"),
              number("scale", "factor of the distance below which the energy is damped", 0.0, MAX_LENGTH),
              number("cutoff", "cutoff of this layer, Angstrom", MIN_CUTOFF, MAX_CUTOFF),
              number("damping", "width of the range before the cutoff in which the energy is switched off, Angstrom",
                     MIN_LENGTH, MAX_CUTOFF)});
  return fields;
}

Dispersion Dispersion::read(const JsonField &layer, LayerReader &reader) {
  Dispersion d;
  d.input = reader.input(layer);
  const Irreps &in = reader.features()[d.input];
  d.block = layer.has("block") ? layer["block"].integer(0, in.size() - 1) : 0;
  if (in[d.block].irrep != Irrep{0, 1} || in[d.block].mul != 1)
    layer["irreps_in"].fail("a 0e block of one channel", Irreps({in[d.block]}).to_string());
  d.polarizability = read_constants(layer["polarizability"], reader);
  d.c6 = read_constants(layer["c6"], reader);
  const double cutoff = layer["cutoff"].number(), width = layer["damping"].number();
  if (!(width <= cutoff)) layer["damping"].fail("at most the cutoff, " + text_of(cutoff), text_of(width));
  d.function = {DAMPING * layer["scale"].number(), cutoff - width, cutoff};
  reader.notes.push_back("dispersion energy within " + text_of(cutoff) + " Angstrom");
  return d;
}

void Dispersion::restrict_to(const KeptSpecies &kept) {
  kept.each(polarizability);
  kept.each(c6);
}

double Dispersion::coefficient(int a, int b) const {
  const double first = polarizability[a], second = polarizability[b];
  return 2.0 * c6[a] * c6[b] * first * second / (first * first * c6[b] + second * second * c6[a]);
}

// Operations per edge within the layer's own cutoff, which has more edges than the model's. Energies and their
// derivatives come from one pass.
LayerOperations Dispersion::operations(const OperationContext &) const {
  return {{0.0, 1.0}, {130.0, 0.0}};
}

}    // namespace equi
