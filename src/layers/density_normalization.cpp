// SPDX-License-Identifier: MIT
#include "src/layers/density_normalization.h"

#include "src/layers/layer_reader.h"

namespace equi {

DensityNormalization DensityNormalization::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "output", "irreps_out", "radial", "offset", "factor"});
  DensityNormalization d;
  d.input = reader.input(layer);
  d.output = reader.output(layer);
  reader.check_irreps(layer["irreps_out"], d.input);
  d.density = read_radial_function(layer["radial"], reader.basis, 1, reader.tensors);
  d.density.output = RadialFunction::Output::tanh_square;
  d.offset = layer["offset"].number();
  // An atom without neighbors would be divided by zero.
  if (d.offset == 0.0) layer["offset"].fail("a number other than zero");
  d.factor = layer["factor"].number();
  return d;
}

}    // namespace equi
