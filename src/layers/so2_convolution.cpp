// SPDX-License-Identifier: MIT
// Reads the layer so2_convolution, checks its symmetry and counts its operations.
#include "src/layers/so2_convolution.h"

#include "src/base/model_limits.h"
#include "src/layers/layer_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

namespace equi {

namespace {

// Requires a block with this number of channels for each l = 0 .. lmax in this order.
void check_blocks(const JsonField &field, const Irreps &irreps, int lmax) {
  std::vector<IrrepBlock> blocks;
  for (int l = 0; l <= lmax; ++l) blocks.push_back({irreps[0].mul, {l, 1}});
  const Irreps expected(blocks);
  if (irreps != expected) field.fail(expected.to_string());
}

// Numbers of a matrix with padded channels, of which the evaluation has two copies.
int64_t laid_out(int64_t orders_in, int64_t orders_out, const So2Linear &linear) {
  const auto channels = [](int mul) { return padded_channels({mul, {0, 1}}); };
  const int factors = linear.has_product() ? 2 : 1;
  return 2 * orders_in * channels(linear.channels_in) * orders_out * factors * channels(linear.channels_out / factors);
}

// Tolerance for products of components that should vanish, relative to the largest.
constexpr double NO_PRODUCT = 1e-10;

struct Component {
  int l, m;
};

std::vector<Component> components(int lmax, int mmax) {
  std::vector<Component> found;
  for (int l = 0; l <= lmax; ++l)
    for (int m = -std::min(l, mmax); m <= std::min(l, mmax); ++m) found.push_back({l, m});
  return found;
}

// Coefficients [out][a][b] of the product.
std::vector<double> coefficients(const Matrix &to, const Matrix &from) {
  const int size = to.cols;
  std::vector<double> found(static_cast<size_t>(size) * size * size, 0.0);
  for (int g = 0; g < to.rows; ++g)
    for (int c = 0; c < size; ++c)
      for (int a = 0; a < size; ++a) {
        const double of_a = from(g, c) * to(g, a);
        double *row = &found[(static_cast<size_t>(c) * size + a) * size];
        for (int b = 0; b < size; ++b) row[b] += of_a * to(g, b);
      }
  return found;
}

// The largest change by a rotation about the edge, which maps component m of an order to m times component -m.
double change_by_a_turn(const std::vector<double> &product, const std::vector<Component> &of) {
  const int size = static_cast<int>(of.size());
  std::vector<int> other(size);
  for (int k = 0; k < size; ++k) other[k] = k - 2 * of[k].m;
  const auto at = [&](int c, int a, int b) { return product[(static_cast<size_t>(c) * size + a) * size + b]; };
  double largest = 0.0;
  for (int c = 0; c < size; ++c)
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b) {
        const double change =
            of[c].m * at(other[c], a, b) + of[a].m * at(c, other[a], b) + of[b].m * at(c, a, other[b]);
        largest = std::max(largest, std::fabs(change));
      }
  return largest;
}

So2Product read_product(const JsonField &field, const So2Convolution &layer, TensorReader &tensors) {
  const std::vector<Component> of = components(layer.lmax, layer.mmax);
  const int size = static_cast<int>(of.size()), points = field["points"].integer();
  So2Product product{tensors.matrix(field["to"], points, size),
                     tensors.matrix(field["from"], points, size),
                     {},
                     read_activation(field["scalars"]),
                     read_activation(field["gates"])};
  const std::vector<double> all = coefficients(product.to_points, product.from_points);
  double largest = 0.0;
  for (const double value : all) largest = std::max(largest, std::fabs(value));
  if (!(largest > 0.0)) field["to"].fail("points at which functions do not vanish");
  if (change_by_a_turn(all, of) > NO_PRODUCT * largest)
    field["to"].fail("points so dense that a turn about the edge turns the product");
  for (int c = 0; c < size; ++c)
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b) {
        const double value = all[(static_cast<size_t>(c) * size + a) * size + b];
        if (std::fabs(value) > NO_PRODUCT * largest)
          product.terms.push_back({{of[c].l, of[a].l, of[b].l}, {of[c].m, of[a].m, of[b].m}, value});
      }
  return product;
}

So2PointActivation read_point_activation(const JsonField &field, const So2Convolution &layer, TensorReader &tensors) {
  const int size = static_cast<int>(components(layer.lmax, layer.mmax).size()), points = field["points"].integer();
  So2PointActivation made{tensors.matrix(field["to"], points, size), tensors.matrix(field["from"], points, size),
                          read_activation(field["activation"]), field.has("scalars"), Activation::identity};
  if (made.has_scalars) made.scalars = read_activation(field["scalars"]);
  return made;
}

So2Attention read_attention(const JsonField &field, TensorReader &tensors) {
  So2Attention attention;
  attention.heads = field["heads"].integer();
  attention.channels = field["channels"].integer();
  attention.weight = tensors.values(field["weight"], {attention.channels});
  attention.bias = tensors.values(field["bias"], {attention.channels});
  attention.vector = tensors.values(field["vector"], {attention.heads, attention.channels});
  attention.epsilon = field["epsilon"].number();
  return attention;
}

So2Linear read_linear(const JsonField &field, const So2Convolution &layer, int channels_in, TensorReader &tensors) {
  So2Linear linear{channels_in, field["channels"].integer(), {}, {}, false, {}, {}, {}, {}, 0};
  if (field.has("gate") + field.has("product") + field.has("at_points") > 1)
    field.refuse("a linear has one of gate, product and at_points, not several");
  if (field.has("product")) {
    if (linear.channels_out % 2 != 0) field["channels"].fail("an even number, of channels of both factors");
    linear.product = read_product(field["product"], layer, tensors);
  }
  if (field.has("at_points")) linear.at_points = read_point_activation(field["at_points"], layer, tensors);
  if (layer.linears.empty() && layer.attention.heads > 0) {
    if (!linear.has_product() && !linear.has_points())
      field.fail("a product or an activation at_points, beside whose scalars the scores of attention are", "none");
    const int64_t scores = int64_t(layer.attention.heads) * layer.attention.channels;
    linear.num_score_rows = static_cast<int>((scores + linear.channels_out - 1) / linear.channels_out);
  }
  if (field.has("gate")) {
    const JsonField gate = field["gate"];
    linear.has_gate = true;
    linear.scalar_activation = read_activation(gate["scalars"]);
    linear.gate_activation = read_activation(gate["gates"]);
  }
  const JsonField weights = field["weights"];
  weights.size(layer.mmax + 1, "weights, one for each m from 0 to mmax");
  for (int m = 0; m <= layer.mmax; ++m) {
    const int orders = layer.lmax + 1 - m, orders_out = orders + (m == 0 ? linear.num_gates(layer.lmax) : 0);
    const int rows = orders * channels_in, cols = orders_out * linear.channels_out;
    linear.weights.emplace_back();
    std::array<Matrix, 2> &of_m = linear.weights.back();
    if (m == 0) {
      of_m[0] = tensors.matrix(weights[m], rows, cols);
    } else {
      const std::vector<double> both = tensors.values(weights[m], {2, rows, cols});
      const auto half = both.begin() + both.size() / 2;
      of_m = {Matrix{rows, cols, {both.begin(), half}}, Matrix{rows, cols, {half, both.end()}}};
    }
    tensors.lay_out(weights[m], (m == 0 ? 1 : 3) * laid_out(orders, orders_out, linear));
    if (m == 0 && field.has("bias")) linear.bias = tensors.values(field["bias"], {cols});
  }
  return linear;
}

}    // namespace

const FieldSpecs &So2Convolution::fields() {
  using namespace field;
  const auto points = [](const char *what) {
    return FieldSpecs{integer("points", what, 1, MAX_POINTS),
                      tensor("to", "[points, components]", "matrix from components to points"),
                      tensor("from", "[points, components]", "matrix from points to components")};
  };
  const FieldSpecs activations = {activation("scalars", "of the scalars"), activation("gates", "of the gates")};
  static const FieldSpecs fields =
      joined(input_and_output_fields(),
             {integer("mmax", "largest order m that is kept"),
              object("radial", radial_fields(/*has_input=*/false, /*may_activate_last=*/true),
                     "radial network with the factors of the rows of a linear"),
              optional(integer("radial_linear", "number of that linear; 0 if it is absent")),
              list("linears", "linears", 1, MAX_MATRICES,
                   object("",
                          {integer("channels", "channels of its results", 1, MAX_WIDTH),
                           list("weights", "weights", 1, LMAX_SUPPORTED + 1, tensor("", "[rows, columns]", ""),
                                "matrices for each m from 0 to mmax, two of them for m > 0"),
                           optional(tensor("bias", "[columns]", "what is added for m = 0")),
                           optional(object("gate", activations, "gates orders l > 0")),
                           optional(object("product", joined(points("number of points of the product"), activations),
                                           "multiplies two functions on the sphere")),
                           optional(object("at_points",
                                           joined(points("number of points of the activation"),
                                                  {activation("activation", "of the values at points"),
                                                   optional(activation("scalars", "of scalars that replace l = 0"))}),
                                           "activates a function on the sphere"))},
                          ""),
                   "maps of messages, one after another"),
              optional(object("attention",
                              {integer("heads", "number of heads", 1, MAX_WIDTH),
                               integer("channels", "scores of a head", 1, MAX_WIDTH),
                               tensor("weight", "[channels]", "factors of the normalized scores"),
                               tensor("bias", "[channels]", "what is added to them"),
                               tensor("vector", "[heads, channels]", "weights of activated scores"),
                               divisor("epsilon", "is added to the variance of scores")},
                              "weights of messages"))});
  return fields;
}

So2Convolution So2Convolution::read(const JsonField &layer, LayerReader &reader) {
  So2Convolution c;
  c.input = reader.input(layer);
  c.output = layer.has("attention") ? reader.output_of_one(layer) : reader.output(layer);
  const Irreps &in = reader.features()[c.input], &out = reader.features()[c.output];
  c.lmax = in.lmax();
  check_blocks(layer["irreps_in"], in, c.lmax);
  check_blocks(layer["irreps_out"], out, c.lmax);
  // Its linears mix even and odd features, and its torque becomes a gradient by harmonics of l = 1.
  if (reader.edge_parity) layer["type"].refuse("an SO(2) convolution needs \"edge_parity\": false");
  if (reader.lmax_edge < 1) layer["type"].refuse("an SO(2) convolution needs an \"lmax_edge\" of 1 or more");
  c.mmax = layer["mmax"].integer(0, c.lmax);
  if (layer.has("attention")) c.attention = read_attention(layer["attention"], reader.tensors);

  const JsonField linears = layer["linears"];
  const size_t num = linears.size();
  if (layer.has("radial_linear")) c.radial_linear = layer["radial_linear"].integer(0, static_cast<int>(num) - 1);
  int channels = 2 * in[0].mul;    // sender and receiver
  int64_t num_factors = 0;
  for (size_t k = 0; k < num; ++k) {
    for (int m = 0; static_cast<int>(k) == c.radial_linear && m <= c.mmax; ++m)
      num_factors += int64_t(c.lmax + 1 - m) * channels;
    if (num_factors > MAX_WEIGHTS)
      layer["radial"].fail("at most " + std::to_string(MAX_WEIGHTS) + " radial factors", std::to_string(num_factors));
    c.linears.push_back(read_linear(linears[k], c, channels, reader.tensors));
    channels = c.linears.back().channels_after();
    if (static_cast<int>(k) < c.radial_linear && c.linears.back().has_step())
      layer["radial_linear"].refuse("linears before the radial factors have no gate, product or activation");
  }
  if (channels != out[0].mul)
    linears[num - 1]["channels"].fail(std::to_string(out[0].mul) + " channels, those of the output");
  if (c.attention.heads > 0 && (num < 2 || c.linears.back().has_step()))
    layer["attention"].refuse(
        "attention needs two linears or more, of which the last has no gate, product or "
        "activation");
  if (c.attention.heads > 0 && channels % c.attention.heads != 0)
    layer["attention"]["heads"].fail("a divisor of the " + std::to_string(channels) + " channels of the output");
  reader.count_weights(layer["radial"], num_factors);
  c.radial = read_radial_function(layer["radial"], reader.basis, num_factors, reader.tensors);
  return c;
}

// Forward: rotations, radial factors, linears, the cutoff function, the rotation back. Backward: the adjoints of all.
LayerOperations So2Convolution::operations(const OperationContext &context) const {
  double rotation = 0.0;    // for one channel
  for (int l = 0; l <= lmax; ++l) rotation += 2.0 * (2 * l + 1) * (2 * std::min(l, mmax) + 1);
  const int channels_in = context.features[input][0].mul, channels_out = context.features[output][0].mul;
  const double rotations = rotation * (2 * channels_in + channels_out);
  double factors = 0.0, scaled = 0.0;    // numbers of one channel that radial factors and the cutoff function scale
  for (int l = 0; l <= lmax; ++l) scaled += 2 * std::min(l, mmax) + 1;
  factors = scaled * 2 * channels_in;
  const double cutoff = scaled * channels_out;
  double products = 0.0;
  Operations gates;
  for (const So2Linear &linear : linears) {
    for (size_t m = 0; m < linear.weights.size(); ++m) {
      const Matrix &w = linear.weights[m][0];
      products += (m == 0 ? 1 : 4) * product_operations(1, w.rows, w.cols);
    }
    gates.forward += static_cast<double>(linear.bias.size());
    if (linear.has_product()) {    // each term; scalars, gates and the numbers that they multiply
      const double terms = static_cast<double>(linear.product.terms.size());
      gates = gates + linear.channels_after() * Operations{4.0 * terms + 4.0, 9.0 * terms + 6.0};
    }
    if (linear.has_points()) {    // to the points and back; backward both once more, and an activation at each
      const Matrix &to = linear.at_points.to_points;
      const double sums = 2.0 * product_operations(1, to.rows, to.cols);
      gates = gates + linear.channels_out * Operations{sums + to.rows, 1.5 * sums + 2.0 * to.rows};
    }
    if (!linear.has_gate) continue;
    gates = gates + linear.channels_out * Operations{1.0, 2.0};    // scalars
    for (int l = 1; l <= lmax; ++l) {
      const double d = 2 * std::min(l, mmax) + 1;
      gates = gates + linear.channels_out * Operations{1.0 + d, 2.0 + 3.0 * d};
    }
  }
  // Attention: norms and sums of scores, and the products of messages with weights.
  const double of_scores = attention.heads * attention.channels;
  if (attention.heads > 0) gates = gates + Operations{14.0 * of_scores + cutoff, 40.0 * of_scores + 3.0 * cutoff};
  const Operations network = network_operations(radial.network);
  return {{},
          network + gates +
              Operations{rotations + factors + products + cutoff, rotations + 3.0 * factors + products + 3.0 * cutoff}};
}

}    // namespace equi
