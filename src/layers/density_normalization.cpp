// SPDX-License-Identifier: MIT
// Reads the layer density_normalization and counts its operations.
#include "src/layers/density_normalization.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <cmath>

namespace equi {

const FieldSpecs &DensityNormalization::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_and_output_fields(), {object("radial", radial_fields(/*has_input=*/false, /*may_activate_last=*/false),
                                         "radial network with one output"),
                                  number("offset", "divisor of an atom without neighbors"),
                                  number("factor", "factor of the density in the divisor")});
  return fields;
}

DensityNormalization DensityNormalization::read(const JsonField &layer, LayerReader &reader) {
  DensityNormalization d;
  d.input = reader.input(layer);
  d.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], d.input);
  d.density = read_radial_function(layer["radial"], reader.basis, 1, reader.tensors);
  d.density.output = RadialFunction::Output::tanh_square;
  d.offset = layer["offset"].number();
  // An atom without neighbors is divided by the offset.
  if (!(std::fabs(d.offset) >= MIN_DIVISOR)) layer["offset"].fail("a magnitude of at least " + text_of(MIN_DIVISOR));
  d.factor = layer["factor"].number();
  return d;
}

LayerOperations DensityNormalization::operations(const OperationContext &context) const {
  const double numbers = context.features[input].dim();
  return {{numbers + 3.0, 3.0 * numbers + 2.0}, {2.0 * context.rows_per_bin - 1.0, 2.0 * context.rows_per_bin - 2.0}};
}

}    // namespace equi
