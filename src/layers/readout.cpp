// SPDX-License-Identifier: MIT
#include "src/layers/readout.h"

#include "src/layers/layer_reader.h"

namespace equi {

Readout Readout::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "input", "irreps_in", "block", "network"});
  Readout r;
  r.input = reader.input(layer);
  const Irreps &in = reader.features()[r.input];
  r.block = read_scalar_block(layer["block"], in);
  const JsonField network = layer["network"];
  network.only_keys({"weights", "scales", "biases", "activation", "activation_scale"});
  r.network = read_network(network, in[r.block].mul, 1, reader.tensors);
  return r;
}

}    // namespace equi
