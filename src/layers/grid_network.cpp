// SPDX-License-Identifier: MIT
// Reads the layer grid_network and counts its operations.
#include "src/layers/grid_network.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <string>

namespace equi {

namespace {

// Components of one channel of all blocks.
int64_t num_components(const Irreps &irreps) {
  return irreps.dim() / irreps[0].mul;
}

int64_t padded_width(int64_t width) {
  return padded_channels({static_cast<int>(width), {0, 1}});
}

}    // namespace

const FieldSpecs &GridNetwork::fields() {
  using namespace field;
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {integer("points", "number of points of the sphere", 1, MAX_POINTS),
              tensor("to", "[points, components of the input]", "matrix from components to points"),
              tensor("from", "[points, components of the output]", "matrix from points to components"),
              object("network", network_fields(), "network of the channels at a point")});
  return fields;
}

GridNetwork GridNetwork::read(const JsonField &layer, LayerReader &reader) {
  GridNetwork g;
  g.input = reader.input(layer);
  g.output = reader.output(layer);
  reader.check_equal_channels(layer["irreps_in"], g.input);
  reader.check_equal_channels(layer["irreps_out"], g.output);
  const Irreps &in = reader.features()[g.input], &out = reader.features()[g.output];
  const int points = layer["points"].integer();
  g.to_points = reader.tensors.matrix(layer["to"], points, num_components(in));
  g.from_points = reader.tensors.matrix(layer["from"], points, num_components(out));

  const JsonField network = layer["network"];
  g.network = read_network(network, in[0].mul, out[0].mul, reader.tensors);
  if (g.network.weights.size() < 2)
    network["weights"].fail("two matrices or more, with an activation between them that is not the identity");
  int64_t hidden = 0, matrices = 0;    // numbers of hidden layers at all points, and of matrices with padding
  for (size_t k = 0; k < g.network.weights.size(); ++k) {
    const Matrix &w = g.network.weights[k];
    if (k + 1 < g.network.weights.size()) hidden += points * padded_width(w.cols);
    matrices += padded_width(w.rows) * padded_width(w.cols);
  }
  if (hidden > MAX_COMPONENTS)
    layer["points"].fail("at most " + std::to_string(MAX_COMPONENTS) + " numbers of hidden layers at all points",
                         std::to_string(hidden));
  reader.tensors.lay_out(layer, 2 * (matrices + points * (num_components(in) + num_components(out))));
  return g;
}

// Each pass uses all matrices once; the first and the last one are applied to components. The backward pass evaluates
// the hidden layers again.
LayerOperations GridNetwork::operations(const OperationContext &) const {
  const std::vector<Matrix> &weights = network.weights;
  const int points = num_points(), in = to_points.cols, out = from_points.cols;
  const double entry = product_operations(in, weights.front().rows, weights.front().cols) +
                       product_operations(points, in, weights.front().cols);
  const double exit = product_operations(out, weights.back().rows, weights.back().cols) +
                      product_operations(points, out, weights.back().rows);
  Operations between;
  for (size_t k = 0; k + 1 < weights.size(); ++k) {
    const double products = k > 0 ? product_operations(points, weights[k].rows, weights[k].cols) : 0.0,
                 values = static_cast<double>(points) * weights[k].cols, biases = network.has_bias(k) ? values : 0.0;
    const double again = k + 2 < weights.size() ? 2.0 * values : 0.0;    // activations of all layers but the last
    between = between + Operations{products + 2.0 * values + biases, 2.0 * products + 2.0 * values + again + biases};
  }
  const double last_bias = network.has_bias(weights.size() - 1) ? static_cast<double>(out) * weights.back().cols : 0.0;
  return {between + Operations{entry + exit + last_bias, 2.0 * entry + exit}, {}};
}

}    // namespace equi
