// SPDX-License-Identifier: MIT
// Reads the layer local_network and counts its operations.
#include "src/layers/local_network.h"

#include "src/algebra/coupling.h"
#include "src/base/model_limits.h"
#include "src/functions/activation.h"
#include "src/layers/layer_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace equi {

namespace {

constexpr Irrep SCALAR{0, 1};

// What a feature holds: nothing yet, numbers of edges, or of receivers.
enum class Holder { none, edges, receivers };

// Reads the steps, and tracks which features have been written and read.
class StepReader {
 public:
  StepReader(LayerReader &reader, LocalNetwork &network)
      : reader_(reader),
        tensors_(reader.tensors),
        network_(network),
        holders_(network.features.size(), Holder::none),
        is_read_(network.features.size(), false) {}

  LocalNetwork::Step read(const JsonField &step) {
    const std::string kind = step["step"].text();
    if (kind == "scalars") return read_scalars(step);
    if (kind == "dense") return read_dense(step);
    if (kind == "tensor") return read_tensor(step);
    if (kind == "sum") return read_sum(step);
    if (kind == "product") return read_product(step);
    return read_readout(step);
  }

  // Refuses a feature that no step writes, or that none reads.
  void check_features(const JsonField &features) const {
    for (size_t f = 0; f < holders_.size(); ++f) {
      if (holders_[f] == Holder::none) features[f].fail("a feature that a step writes", "another");
      if (!is_read_[f]) features[f].fail("a feature that a step reads", "another");
    }
  }

 private:
  const Irreps &irreps(int feature) const { return network_.features[feature]; }
  int num_species() const { return tensors_.num_species; }

  int input(const JsonField &field, Holder holder) {
    const int f = field.integer(0, static_cast<int>(network_.features.size()) - 1);
    if (holders_[f] != holder)
      field.fail(std::string("a feature of ") + (holder == Holder::edges ? "edges" : "receivers") +
                 " that an earlier step writes");
    is_read_[f] = true;
    return f;
  }
  int output(const JsonField &step, Holder holder) {
    const JsonField field = step["output"];
    const int f = field.integer(0, static_cast<int>(network_.features.size()) - 1);
    if (holders_[f] != Holder::none) field.fail("a feature that no earlier step writes");
    holders_[f] = holder;
    return f;
  }
  EdgeBlock block(const JsonField &field) {
    const int f = input(field[size_t(0)], Holder::edges);
    return {f, read_scalar_block(field[size_t(1)], irreps(f))};
  }
  // Blocks side by side, and the number of their channels.
  std::vector<EdgeBlock> blocks(const JsonField &field, int &channels) {
    std::vector<EdgeBlock> found;
    channels = 0;
    for (size_t k = 0; k < field.size(); ++k) {
      found.push_back(block(field[k]));
      channels += irreps(found.back().feature)[found.back().block].mul;
    }
    return found;
  }
  // The channels of an output whose blocks are scalars.
  int scalar_channels(const JsonField &field, int feature) const {
    int channels = 0;
    for (const IrrepBlock &b : irreps(feature)) {
      if (b.irrep != SCALAR) field.fail("a feature with 0e blocks only", irreps(feature).to_string());
      channels += b.mul;
    }
    return channels;
  }
  // The channels of each block of a feature with tensors.
  int tensor_channels(const JsonField &field, int feature) const {
    const Irreps &found = irreps(feature);
    for (const IrrepBlock &b : found)
      if (b.mul != found[0].mul) field.fail("a feature whose blocks have equally many channels", found.to_string());
    return found[0].mul;
  }
  // A factor for each species, from a number or a tensor.
  std::vector<double> scale(const JsonField &field) {
    if (field.json().is_string()) return tensors_.values(field, {num_species()});
    return std::vector<double>(num_species(), field.number());
  }
  // Edges at the cutoff must not contribute.
  Network network(const JsonField &field, int num_inputs, int num_outputs) {
    if (field.has("biases")) field["biases"].fail("no biases, with which edges at the cutoff have an energy", "some");
    Network found = read_network(field, num_inputs, num_outputs, tensors_);
    if (activate(found.activation, 0.0).value != 0.0)
      field["activation"].fail("an activation that is 0 at 0, so that edges at the cutoff have no energy");
    for (const Matrix &m : found.weights) tensors_.lay_out(field, 2 * static_cast<int64_t>(m.rows) * m.cols);
    return found;
  }

  EdgeScalars read_scalars(const JsonField &step) {
    EdgeScalars s;
    s.basis = reader_.basis;
    const int n = s.basis.size();
    s.output = output(step, Holder::edges);
    if (irreps(s.output).size() != 1) step["output"].fail("a feature of one block", irreps(s.output).to_string());
    const int channels = scalar_channels(step["output"], s.output);
    const double scale = step["scale"].number();
    const bool is_bump = s.basis.kind == RadialBasis::Kind::cosine_bump;
    if (!is_bump && (!s.basis.apply_cutoff || s.basis.cutoff_kind == RadialBasis::Cutoff::none))
      step.fail("a radial basis whose functions end at the cutoff", "another");
    const auto rows = [&](const char *key) {
      return step.has(key) ? tensors_.matrix(step[key], num_species(), ANY_LENGTH) : Matrix();
    };
    if (step.has("pair_weights")) {
      for (const char *key : {"weights", "receiver", "sender"})
        if (step.has(key)) step[key].fail("no weights or rows of species next to pair_weights", "both");
      const std::vector<double> all =
          tensors_.values(step["pair_weights"], {num_species(), num_species(), n, channels}, scale);
      const std::ptrdiff_t size = static_cast<std::ptrdiff_t>(n) * channels;
      auto begin = all.begin();
      for (int i = 0; i < num_species(); ++i) {
        std::vector<Matrix> &of_receiver = s.pair_weights.emplace_back();
        for (int j = 0; j < num_species(); ++j, begin += size)
          of_receiver.push_back({n, channels, {begin, begin + size}});
      }
      return s;
    }
    s.weights = tensors_.matrix(step["weights"], n, channels, scale);
    s.receiver = rows("receiver");
    s.sender = rows("sender");
    const int columns = s.receiver.cols + s.sender.cols;
    if ((step.has("receiver") || step.has("sender")) && columns != channels)
      step.fail("rows of species with " + std::to_string(channels) + " columns together, one per channel",
                std::to_string(columns));
    return s;
  }

  EdgeDense read_dense(const JsonField &step) {
    EdgeDense d;
    int num_inputs;
    d.inputs = blocks(step["inputs"], num_inputs);
    d.output = output(step, Holder::edges);
    d.network = network(step["network"], num_inputs, scalar_channels(step["output"], d.output));
    return d;
  }

  EdgeTensor read_tensor(const JsonField &step) {
    EdgeTensor t;
    t.input = block(step["input"]);
    t.output = output(step, Holder::edges);
    t.is_shared = step["shared"].boolean();
    const JsonField field = step["output"];
    const int channels = tensor_channels(field, t.output), num_blocks = irreps(t.output).size(),
              expected = t.is_shared ? channels : num_blocks * channels,
              found = irreps(t.input.feature)[t.input.block].mul;
    if (found != expected)
      step["input"].fail("a block of " + std::to_string(expected) + " channels", std::to_string(found));
    for (const IrrepBlock &b : irreps(t.output)) {
      const bool has_parity = !reader_.edge_parity || b.irrep.p == (b.irrep.l % 2 ? -1 : 1);
      if (b.irrep.l > reader_.lmax_edge || !has_parity)
        field.fail("blocks with irreps of the harmonics", Irreps({b}).to_string());
    }
    return t;
  }

  EdgeSum read_sum(const JsonField &step) {
    EdgeSum s;
    s.input = input(step["input"], Holder::edges);
    s.output = output(step, Holder::receivers);
    if (irreps(s.output) != irreps(s.input))
      step["output"].fail("a feature " + irreps(s.input).to_string(), irreps(s.output).to_string());
    tensor_channels(step["output"], s.output);
    s.scale = scale(step["scale"]);
    return s;
  }

  EdgeProduct read_product(const JsonField &step) {
    EdgeProduct p;
    p.input = input(step["input"], Holder::edges);
    p.environment = input(step["environment"], Holder::receivers);
    p.output = output(step, Holder::edges);
    const int channels = tensor_channels(step["output"], p.output);
    for (const auto &[key, f] : {std::pair{"input", p.input}, std::pair{"environment", p.environment}})
      if (tensor_channels(step[key], f) != channels)
        step[key].fail("blocks of " + std::to_string(channels) + " channels, as in the output", irreps(f).to_string());
    const JsonField paths = step["paths"];
    std::vector<bool> is_written(irreps(p.output).size(), false);
    for (size_t k = 0; k < paths.size(); ++k) {
      p.paths.push_back(read_path(paths[k], p, channels));
      is_written[p.paths.back().output] = true;
    }
    if (std::find(is_written.begin(), is_written.end(), false) != is_written.end())
      paths.fail("a path to each block of the output", "none to one of them");
    return p;
  }
  EdgeProductPath read_path(const JsonField &field, const EdgeProduct &product, int channels) {
    const auto block = [&](const char *key, int f) { return field[key].integer(0, irreps(f).size() - 1); };
    EdgeProductPath path{
        block("input", product.input), block("environment", product.environment), block("output", product.output), {}};
    const Irrep a = irreps(product.input)[path.input].irrep, b = irreps(product.environment)[path.environment].irrep,
                c = irreps(product.output)[path.output].irrep;
    if (c.l < std::abs(a.l - b.l) || c.l > a.l + b.l || a.p * b.p != c.p)
      field.fail("an output block that the product of the other two has", Irreps({{1, a}, {1, b}, {1, c}}).to_string());
    const JsonField weights = field["weights"];
    path.weights = tensors_.values(weights, {ANY_LENGTH}, field["scale"].number());
    if (path.weights.size() == 1) path.weights.resize(channels, path.weights.front());
    if (path.weights.size() != static_cast<size_t>(channels))
      weights.fail("a tensor of " + std::to_string(channels) + " numbers, or of 1",
                   std::to_string(path.weights.size()));
    // The coefficients of all channels.
    tensors_.lay_out(weights, static_cast<int64_t>(coupling_entries(a.l, b.l, c.l).size()) * channels);
    return path;
  }

  EdgeReadout read_readout(const JsonField &step) {
    EdgeReadout r;
    int num_inputs;
    r.inputs = blocks(step["inputs"], num_inputs);
    r.network = network(step["network"], num_inputs, 1);
    r.scale = scale(step["scale"]);
    return r;
  }

  LayerReader &reader_;
  TensorReader &tensors_;
  LocalNetwork &network_;
  std::vector<Holder> holders_;
  std::vector<bool> is_read_;
};

// Largest numbers of all features of an edge and of all steps of a layer.
constexpr int MAX_EDGE_COMPONENTS = 1 << 16;
constexpr size_t MAX_EDGE_FEATURES = 256, MAX_STEPS = 512;

FieldSpec block_field(const char *name, const char *meaning) {
  return field::list(name, "numbers", 2, 2, field::integer("", ""), meaning);
}
FieldSpec blocks_field() {
  return field::list("inputs", "blocks", 1, MAX_EDGE_FEATURES, block_field("", ""),
                     "numbers of features and of their 0e blocks, which are read side by side");
}
FieldSpec scale_field(const char *meaning) {
  return field::any_of("scale", {field::tensor("", "[species]", ""), field::number("", "")}, meaning);
}

FieldSpecs step_kinds() {
  using namespace field;
  const FieldSpec output = integer("output", "number of the feature that is written"),
                  input = integer("input", "number of the feature that is read");
  return {marked("step", "scalars", "sets scalars of edges",
                 {output,
                  required_unless("pair_weights", tensor("weights", "[functions, C]", "matrix of the radial basis")),
                  number("scale", "factor of the matrix"),
                  optional(tensor("receiver", "[species, h1]", "factors of the first outputs")),
                  optional(tensor("sender", "[species, h2]", "factors of the other outputs, C = h1 + h2")),
                  optional(tensor("pair_weights", "[species, species, functions, C]",
                                  "matrices of pairs, receiver first, in place of the other tensors"))}),
          marked("step", "dense", "applies a network",
                 {blocks_field(), output, object("network", network_fields(), "its outputs are those of all blocks")}),
          marked("step", "tensor", "multiplies harmonics",
                 {block_field("input", "feature and 0e block with factors"), output,
                  boolean("shared", "whether all blocks of the output have the same factors")}),
          marked("step", "sum", "sums over the edges of a receiver",
                 {input, output, scale_field("factor of the sum, per species of the receiver if it is a tensor")}),
          marked("step", "product", "multiplies tensors by those of the receiver",
                 {input, integer("environment", "number of the feature of receivers that is read"), output,
                  list("paths", "paths", 1, MAX_PATHS,
                       object("",
                              {integer("input", "number of a block"), integer("environment", "number of a block"),
                               integer("output", "number of a block"), number("scale", "factor"),
                               tensor("weights", "[channels]", "factors of channels, or one factor")},
                              ""),
                       "products of blocks, channel by channel")}),
          marked("step", "readout", "adds to the energy",
                 {blocks_field(), object("network", network_fields(), "network with one output"),
                  scale_field("factor of the sum over edges, per species of the receiver if it is a tensor")})};
}

// Multiply-adds per channel of a product in the form x[a] M[a, c] with the couplings summed in M.
struct ProductTerms {
  double couplings = 0.0, cells = 0.0;
};
ProductTerms product_terms(const EdgeProduct &product, const LocalNetwork &network) {
  ProductTerms terms;
  const Irreps &in = network.features[product.input], &environment = network.features[product.environment],
               &out = network.features[product.output];
  std::vector<std::vector<bool>> is_cell(in.size(), std::vector<bool>(out.size(), false));
  for (const EdgeProductPath &p : product.paths) {
    terms.couplings += static_cast<double>(
        coupling_entries(in[p.input].irrep.l, environment[p.environment].irrep.l, out[p.output].irrep.l).size());
    is_cell[p.input][p.output] = true;
  }
  for (int a = 0; a < in.size(); ++a)
    for (int c = 0; c < out.size(); ++c)
      if (is_cell[a][c]) terms.cells += in[a].irrep.dim() * out[c].irrep.dim();
  return terms;
}

}    // namespace

const FieldSpecs &LocalNetwork::fields() {
  using namespace field;
  static const FieldSpecs fields = {
      list("features", "features", 1, MAX_EDGE_FEATURES, irreps("", ""), "irreps of the features, numbered from 0"),
      list("steps", "steps", 1, MAX_STEPS, any_of("", step_kinds(), ""), "what is computed, in this order")};
  return fields;
}

LocalNetwork LocalNetwork::read(const JsonField &layer, LayerReader &reader) {
  LocalNetwork n;
  const JsonField features = layer["features"], steps = layer["steps"];
  int64_t num_components = 0;
  for (size_t f = 0; f < features.size(); ++f) {
    n.features.push_back(read_irreps(features[f]));
    for (const IrrepBlock &b : n.features.back()) num_components += padded_channels(b) * b.irrep.dim();
    if (num_components > MAX_EDGE_COMPONENTS)
      features[f].fail("features of at most " + std::to_string(MAX_EDGE_COMPONENTS) + " components in all", "more");
  }
  StepReader step_reader(reader, n);
  for (size_t k = 0; k < steps.size(); ++k) n.steps.push_back(step_reader.read(steps[k]));
  step_reader.check_features(features);
  const auto is_readout = [](const Step &step) { return std::holds_alternative<EdgeReadout>(step); };
  if (std::none_of(n.steps.begin(), n.steps.end(), is_readout)) steps.fail("a step readout", "none");
  return n;
}

Matrix EdgeScalars::weights_of(int receiver_species, int sender_species) const {
  if (!pair_weights.empty()) return pair_weights[receiver_species][sender_species];
  Matrix m = weights;
  for (int n = 0; n < m.rows; ++n)
    for (int c = 0; c < receiver.cols + sender.cols; ++c)
      m.data[static_cast<size_t>(n) * m.cols + c] *=
          c < receiver.cols ? receiver(receiver_species, c) : sender(sender_species, c - receiver.cols);
  return m;
}

std::vector<bool> LocalNetwork::radial_features() const {
  std::vector<bool> is_radial(features.size(), false);
  for (const Step &step : steps) {
    if (const auto *scalars = std::get_if<EdgeScalars>(&step)) is_radial[scalars->output] = true;
    if (const auto *dense = std::get_if<EdgeDense>(&step))
      is_radial[dense->output] = std::all_of(dense->inputs.begin(), dense->inputs.end(),
                                             [&](const EdgeBlock &b) { return is_radial[b.feature]; });
  }
  return is_radial;
}

// Counts radial features that other steps read as tables.
LayerOperations LocalNetwork::operations(const OperationContext &context) const {
  Operations per_atom, per_edge;
  const std::vector<bool> is_radial = radial_features();
  std::vector<bool> has_table(features.size(), false);
  const auto read = [&](const EdgeBlock &b) {
    if (is_radial[b.feature]) has_table[b.feature] = true;
  };
  for (const Step &step : steps) {
    if (const auto *dense = std::get_if<EdgeDense>(&step); dense && !is_radial[dense->output]) {
      for (const EdgeBlock &b : dense->inputs) read(b);
      per_edge = per_edge + network_operations(dense->network);
    } else if (const auto *tensor = std::get_if<EdgeTensor>(&step)) {
      read(tensor->input);
      per_edge = per_edge + features[tensor->output].dim() * Operations{1.0, 4.0};
    } else if (const auto *sum = std::get_if<EdgeSum>(&step)) {
      per_edge = per_edge + features[sum->input].dim() * Operations{1.0, 1.0};
      per_atom = per_atom + features[sum->output].dim() * Operations{1.0, 1.0};
    } else if (const auto *product = std::get_if<EdgeProduct>(&step)) {
      const ProductTerms terms = product_terms(*product, *this);
      const double channels = features[product->output][0].mul;
      per_edge = per_edge + channels * terms.cells * Operations{2.0, 4.0};
      per_atom = per_atom + channels * terms.couplings * Operations{2.0, 2.0};
    } else if (const auto *readout = std::get_if<EdgeReadout>(&step)) {
      for (const EdgeBlock &b : readout->inputs) read(b);
      per_edge = per_edge + network_operations(readout->network) + Operations{1.0, 0.0};
      per_atom = per_atom + Operations{1.0, 0.0};
    }
  }
  // Multiply-adds of a polynomial; backward also those of its derivative, and a product.
  const double polynomial = 2.0 * (context.rows_per_bin - 1);
  for (size_t f = 0; f < features.size(); ++f)
    if (has_table[f]) per_edge = per_edge + features[f].dim() * Operations{polynomial, 2.0 * polynomial + 2.0};
  return {per_atom, per_edge};
}

void LocalNetwork::restrict_to(const KeptSpecies &kept) {
  for (Step &step : steps) {
    if (auto *scalars = std::get_if<EdgeScalars>(&step)) {
      kept.basis(scalars->basis);
      kept.rows(scalars->receiver);
      kept.rows(scalars->sender);
      if (!scalars->pair_weights.empty()) kept.each(scalars->pair_weights);
      for (std::vector<Matrix> &of_receiver : scalars->pair_weights) kept.each(of_receiver);
    } else if (auto *sum = std::get_if<EdgeSum>(&step)) {
      kept.each(sum->scale);
    } else if (auto *readout = std::get_if<EdgeReadout>(&step)) {
      kept.each(readout->scale);
    }
  }
}

}    // namespace equi
