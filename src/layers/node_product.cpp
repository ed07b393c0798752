// SPDX-License-Identifier: MIT
#include "src/layers/node_product.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>
#include <vector>

namespace equi {

namespace {

ChannelwisePath read_path(const JsonField &field, const ChannelwiseProduct &product) {
  field.only_keys({"in", "out", "scale"});
  const JsonField in = field["in"];
  const size_t degree = in.size_between(1, 2, "blocks");
  ChannelwisePath path;
  path.first = in[size_t(0)].integer(0, product.irreps_in.size() - 1);
  if (degree == 2) path.second = in[size_t(1)].integer(0, product.irreps_in.size() - 1);
  path.out = field["out"].integer(0, product.irreps_out.size() - 1);
  path.scale = field["scale"].number();
  return path;
}

}    // namespace

NodeProduct NodeProduct::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "inputs", "irreps_in", "output", "irreps_out", "paths"});
  const JsonField inputs = layer["inputs"], irreps = layer["irreps_in"];
  const size_t num_inputs = inputs.size_between(1, MAX_INPUTS, "features");
  irreps.size(num_inputs, "irreps, one per input");
  NodeProduct n;
  n.input = reader.input(inputs[size_t(0)], irreps[size_t(0)]);
  n.second_input = num_inputs > 1 ? reader.input(inputs[size_t(1)], irreps[size_t(1)]) : -1;
  if (n.input == n.second_input) inputs.fail("two features", "one of them twice");
  n.output = reader.output(layer);

  ChannelwiseProduct &product = n.product;
  std::vector<IrrepBlock> blocks;
  n.ports().for_inputs(
      [&](int f) { blocks.insert(blocks.end(), reader.features()[f].begin(), reader.features()[f].end()); });
  product.irreps_in = Irreps(blocks);
  product.irreps_out = reader.features()[n.output];
  const JsonField paths = layer["paths"];
  paths.size_between(1, MAX_PATHS, "paths");
  for (size_t q = 0; q < paths.size(); ++q) product.paths.push_back(read_path(paths[q], product));
  paths.checked([&] { product.validate(); });

  // Coefficients of all channels.
  int64_t num_entries = 0;
  for (const ContractionTerm &term : product.polynomials().terms)
    num_entries += static_cast<int64_t>(term.entries.size());
  reader.tensors.lay_out(paths, num_entries * padded_channels(product.irreps_in[0]));
  return n;
}

}    // namespace equi
