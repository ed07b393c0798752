// SPDX-License-Identifier: MIT
// Reads the layer potential and counts its operations.
#include "src/layers/potential.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <cmath>

namespace equi {

namespace {

constexpr double LEAST_CUTOFF = 1e-3, LARGEST_CUTOFF = 100.0;    // 1/Angstrom
constexpr int MAX_OUTPUTS = 64;                                  // of the output: kernels keep sums of all of them

// Whether a feature has a block of vectors besides its block of scalars; refuses other blocks.
bool has_vectors(const JsonField &field, const Irreps &irreps) {
  const bool is_known = (irreps.size() == 1 ||
                         (irreps.size() == 2 && irreps[1].irrep == Irrep{1, -1} && irreps[1].mul == irreps[0].mul)) &&
                        irreps[0].irrep == Irrep{0, 1};
  if (!is_known) field.fail("a block 0e, or blocks 0e and 1o of as many channels", irreps.to_string());
  return irreps.size() == 2;
}

}    // namespace

const FieldSpecs &Potential::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {number("prefactor", "1/eps0, eV Angstrom per squared unit of charge"),
              number("width", "standard deviation s of the multipoles' distribution, Angstrom", MIN_LENGTH, MAX_LENGTH),
              tensor("widths", "[n]", "standard deviations w of the probes, Angstrom"),
              tensor("factors", "[degrees, n]", "of the potentials and, if the output has vectors, of their gradients"),
              tensor("own", "[degrees, n]", "factors of an atom's own charge and dipole, which are subtracted"),
              number("k_cutoff", "wave vectors have smaller magnitudes, 1/Angstrom", LEAST_CUTOFF, LARGEST_CUTOFF),
              word("k_set", {"sphere", "frozen", "converged"},
                   "which wave vectors take part; the keyword kspace of the pair style replaces it")});
  return fields;
}

Potential Potential::read(const JsonField &layer, LayerReader &reader) {
  Potential p;
  p.input = reader.input(layer);
  p.output = reader.output_of_one(layer);
  const Irreps &in = reader.features()[p.input], &out = reader.features()[p.output];
  p.has_dipoles = has_vectors(layer["irreps_in"], in);
  p.has_gradients = has_vectors(layer["irreps_out"], out);
  p.channels = in[0].mul;
  p.function = {layer["prefactor"].number(), layer["width"].number(),
                reader.tensors.values(layer["widths"], {ANY_LENGTH})};
  const int n = static_cast<int>(p.function.widths.size());
  if (n == 0 || out[0].mul > MAX_OUTPUTS || out[0].mul != n * p.channels)
    layer["irreps_out"].fail(
        "channels for each channel of the input and each width, at most " + std::to_string(MAX_OUTPUTS),
        out.to_string());
  for (const double width : p.function.widths)
    if (!(width >= MIN_LENGTH && width <= MAX_LENGTH)) layer["widths"].refuse("a width out of range");
  const int degrees = p.has_gradients ? 2 : 1;
  const auto rows = [&](const char *name, std::array<std::vector<double>, 2> &to) {
    const std::vector<double> all = reader.tensors.values(layer[name], {degrees, n});
    for (int l = 0; l < 2; l++)
      to[l] = l < degrees ? std::vector<double>(all.begin() + l * n, all.begin() + (l + 1) * n)
                          : std::vector<double>(n, 0.0);
  };
  rows("factors", p.factors);
  rows("own", p.own);
  p.cutoff = layer["k_cutoff"].number();
  p.wave_vectors = layer["k_set"].text();
  return p;
}

// The operations of an atom and a wave vector, times the wave vectors of an atom in a condensed phase.
LayerOperations Potential::operations(const OperationContext &) const {
  constexpr double VOLUME_OF_ATOM = 10.0, PI = 3.141592653589793;    // Angstrom^3
  const double half = VOLUME_OF_ATOM * cutoff * cutoff * cutoff / (12.0 * PI * PI), n = static_cast<double>(channels),
               w = static_cast<double>(function.widths.size());
  // Structure factors, and fields with one derivative more than the multipoles need.
  const auto add = [](bool has_vectors) { return has_vectors ? 12.0 : 8.0; };
  const auto gather = [](bool has_vectors) { return has_vectors ? 24.0 : 16.0; };
  return {{half * n * (add(has_dipoles) + w * gather(has_gradients)),
           half * n * (w * add(has_gradients) + gather(has_dipoles))},
          {}};
}

}    // namespace equi
