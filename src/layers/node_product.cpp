// SPDX-License-Identifier: MIT
#include "src/layers/node_product.h"

#include "src/algebra/gaunt_product.h"
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

// The blocks of a function on the sphere.
std::vector<int> read_function(const JsonField &field, const ChannelwiseProduct &product) {
  std::vector<int> blocks;
  field.size_between(1, LMAX_SUPPORTED + 1, "blocks");
  for (size_t n = 0; n < field.size(); ++n) blocks.push_back(field[n].integer(0, product.irreps_in.size() - 1));
  return blocks;
}

void read_paths(const JsonField &layer, ChannelwiseProduct &product) {
  if (layer.has("gaunt")) {
    if (layer.has("paths")) layer["paths"].fail("paths or gaunt, not both");
    const JsonField functions = layer["gaunt"];
    functions.size(2, "functions");
    product = functions.checked([&] {
      return gaunt_product(product.irreps_in,
                           {read_function(functions[size_t(0)], product), read_function(functions[size_t(1)], product)},
                           product.irreps_out);
    });
    functions.checked([&] { product.validate(); });
  } else {
    const JsonField paths = layer["paths"];
    paths.size_between(1, MAX_PATHS, "paths");
    for (size_t q = 0; q < paths.size(); ++q) product.paths.push_back(read_path(paths[q], product));
    paths.checked([&] { product.validate(); });
  }
}

}    // namespace

NodeProduct NodeProduct::read(const JsonField &layer, LayerReader &reader) {
  layer.only_keys({"type", "inputs", "irreps_in", "output", "irreps_out", "paths", "gaunt"});
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
  read_paths(layer, product);

  // Coefficients of all channels.
  int64_t num_entries = 0;
  for (const ContractionTerm &term : product.polynomials().terms)
    num_entries += static_cast<int64_t>(term.entries.size());
  reader.tensors.lay_out(layer, num_entries * padded_channels(product.irreps_in[0]));
  return n;
}

}    // namespace equi
