// SPDX-License-Identifier: MIT
// Reads the layer node_product and counts its operations.
#include "src/layers/node_product.h"

#include "src/algebra/gaunt_product.h"
#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>
#include <vector>

namespace equi {

namespace {

ChannelwisePath read_path(const JsonField &field, const ChannelwiseProduct &product) {
  const JsonField in = field["in"];
  ChannelwisePath path;
  path.first = in[size_t(0)].integer(0, product.irreps_in.size() - 1);
  if (in.size() == 2) path.second = in[size_t(1)].integer(0, product.irreps_in.size() - 1);
  path.out = field["out"].integer(0, product.irreps_out.size() - 1);
  path.scale = field["scale"].number();
  return path;
}

// The blocks of a function on the sphere.
std::vector<int> read_function(const JsonField &field, const ChannelwiseProduct &product) {
  std::vector<int> blocks;
  for (size_t n = 0; n < field.size(); ++n) blocks.push_back(field[n].integer(0, product.irreps_in.size() - 1));
  return blocks;
}

void read_paths(const JsonField &layer, ChannelwiseProduct &product) {
  if (layer.has("gaunt")) {
    if (layer.has("paths")) layer["paths"].fail("paths or gaunt, not both");
    const JsonField functions = layer["gaunt"];
    product = functions.checked([&] {
      return gaunt_product(product.irreps_in,
                           {read_function(functions[size_t(0)], product), read_function(functions[size_t(1)], product)},
                           product.irreps_out);
    });
    functions.checked([&] { product.validate(); });
  } else {
    const JsonField paths = layer["paths"];
    for (size_t q = 0; q < paths.size(); ++q) product.paths.push_back(read_path(paths[q], product));
    paths.checked([&] { product.validate(); });
  }
}

}    // namespace

const FieldSpecs &NodeProduct::fields() {
  using namespace field;
  static const FieldSpecs fields = {
      list("inputs", "features", 1, MAX_INPUTS, text("", ""), "one or two features"),
      list("irreps_in", "irreps", 1, MAX_INPUTS, irreps("", ""), "irreps of each input"),
      text("output", "feature that is written"),
      irreps("irreps_out", "irreps of the output"),
      required_unless("gaunt",
                      list("paths", "paths", 1, MAX_PATHS,
                           object("",
                                  {list("in", "blocks", 1, 2, integer("", ""), "numbers of one or two input blocks"),
                                   integer("out", "number of the output block"), number("scale", "factor")},
                                  ""),
                           "products of blocks")),
      optional(list("gaunt", "functions", 2, 2, list("", "blocks", 1, LMAX_SUPPORTED + 1, integer("", ""), ""),
                    "blocks of two functions on the sphere, in place of paths"))};
  return fields;
}

NodeProduct NodeProduct::read(const JsonField &layer, LayerReader &reader) {
  const JsonField inputs = layer["inputs"], irreps = layer["irreps_in"];
  const size_t num_inputs = inputs.size();
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
  check_product_size(layer, product.irreps_in, product.irreps_out,
                     layer.has("gaunt") ? MAX_GAUNT_COMPONENTS : MAX_PRODUCT_COMPONENTS);

  // Coefficients of all channels.
  int64_t num_entries = 0;
  for (const ContractionTerm &term : product.polynomials().terms)
    num_entries += static_cast<int64_t>(term.entries.size());
  reader.tensors.lay_out(layer, num_entries * padded_channels(product.irreps_in[0]));
  return n;
}

LayerOperations NodeProduct::operations(const OperationContext &) const {
  return polynomial_operations(product.polynomials());
}

}    // namespace equi
