// SPDX-License-Identifier: MIT
// Reads the layer ewald and counts its operations.
#include "src/layers/ewald.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

namespace equi {

namespace {

constexpr double LEAST_CUTOFF = 1e-3, LARGEST_CUTOFF = 100.0;    // 1/Angstrom

}    // namespace

const FieldSpecs &Ewald::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_fields(),
      {tensor("weights", "[channels]", "factors of the channels, whose sum is the charge of an atom"),
       number("prefactor", "1/eps0, eV Angstrom per squared unit of charge"),
       number("width", "standard deviation sigma of the charges' distribution, Angstrom", MIN_LENGTH, MAX_LENGTH),
       number("k_cutoff", "wave vectors have smaller magnitudes, 1/Angstrom", LEAST_CUTOFF, LARGEST_CUTOFF),
       word("k_set", {"sphere", "frozen", "converged"},
            "which wave vectors take part; the keyword kspace of the pair style replaces it"),
       boolean("removes_self", "whether the interaction of each charge with itself is subtracted")});
  return fields;
}

Ewald Ewald::read(const JsonField &layer, LayerReader &reader) {
  Ewald e;
  e.input = reader.input(layer);
  int channels = 0;
  for (const IrrepBlock &block : reader.features()[e.input]) {
    if (block.irrep != Irrep{0, 1}) layer["irreps_in"].fail("0e blocks alone", Irreps({block}).to_string());
    channels += block.mul;
  }
  e.weights = reader.tensors.values(layer["weights"], {channels});
  e.function = {layer["width"].number(), layer["prefactor"].number(), layer["removes_self"].boolean()};
  e.cutoff = layer["k_cutoff"].number();
  e.wave_vectors = layer["k_set"].text();
  reader.notes.push_back("Ewald energy of the model's charges with a width of " + text_of(e.function.sigma) +
                         " Angstrom, wave vectors within " + text_of(e.cutoff) + "/Angstrom");
  return e;
}

// The operations of an atom and a wave vector, times the wave vectors of an atom in a condensed phase.
LayerOperations Ewald::operations(const OperationContext &) const {
  constexpr double VOLUME_OF_ATOM = 10.0, PI = 3.141592653589793;    // Angstrom^3
  const double half = VOLUME_OF_ATOM * cutoff * cutoff * cutoff / (12.0 * PI * PI),
               n = static_cast<double>(weights.size());
  return {{8.0 * half + 2.0 * n, 16.0 * half + 2.0 * n}, {}};
}

}    // namespace equi
