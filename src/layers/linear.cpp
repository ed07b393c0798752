// SPDX-License-Identifier: MIT
// Reads the layer linear and counts its operations.
#include "src/layers/linear.h"

#include "src/layers/layer_reader.h"

#include <set>
#include <utility>

namespace equi {

namespace {

// Runs of blocks of one irrep, which are adjacent in memory (kokkos/kernel_interface/feature_layout.h).
struct BlockRuns {
  std::vector<int64_t> channels;    // per run
  std::vector<int> of_block;        // the run of each block

  explicit BlockRuns(const Irreps &irreps) {
    for (int b = 0; b < irreps.size(); ++b) {
      if (b == 0 || irreps[b].irrep != irreps[b - 1].irrep) channels.push_back(0);
      channels.back() += padded_channels(irreps[b]);
      of_block.push_back(static_cast<int>(channels.size()) - 1);
    }
  }
};

void read_blocks(const JsonField &blocks, const Irreps &in, const Irreps &out, Linear &linear, TensorReader &tensors) {
  std::set<std::pair<int, int>> pairs, run_pairs;
  const BlockRuns runs_in(in), runs_out(out);
  for (size_t k = 0; k < blocks.size(); ++k) {
    const JsonField b = blocks[k];
    LinearBlock block;
    block.in = b["in"].integer(0, in.size() - 1);
    block.out = b["out"].integer(0, out.size() - 1);
    const IrrepBlock &bi = in[block.in], &bo = out[block.out];
    if (bi.irrep != bo.irrep)
      b.fail("equal irreps in and out", Irreps({bi}).to_string() + " and " + Irreps({bo}).to_string());
    if (!pairs.emplace(block.in, block.out).second) b.fail("one entry per pair of blocks", "a second one");
    // A matrix and its transpose connect two runs, even if only few of their blocks are connected.
    const int from = runs_in.of_block[block.in], to = runs_out.of_block[block.out];
    if (run_pairs.emplace(from, to).second)
      tensors.lay_out(
          b, 2 * (linear.per_species ? tensors.num_species : 1) * runs_in.channels[from] * runs_out.channels[to]);
    const double scale = b["scale"].number();
    block.weight = tensors.matrices(b["weight"], linear.per_species, bi.mul, bo.mul, scale);
    linear.blocks.push_back(std::move(block));
  }
}

}    // namespace

const FieldSpecs &Linear::fields() {
  using namespace field;
  static const FieldSpecs fields = joined(
      input_and_output_fields(),
      {list("blocks", "blocks", 0, ANY_NUMBER,
            object("",
                   {integer("in", "number of the input block"), integer("out", "number of the output block"),
                    tensor("weight", "[mul_in, mul_out]", "matrix of the channels, or a matrix for each species"),
                    number("scale", "factor of the matrix")},
                   ""),
            "pairs of blocks that are connected"),
       optional(list("biases", "biases", 0, ANY_NUMBER,
                     object("",
                            {integer("out", "number of the 0e output block"),
                             tensor("tensor", "[mul_out]", "what is added"), number("scale", "factor of the bias")},
                            ""),
                     "biases of output blocks")),
       optional(boolean("per_species", "whether weights have a first dimension, the species of the atom")),
       optional(boolean("accumulate", "whether the result is added to a feature that an earlier layer wrote"))});
  return fields;
}

Linear Linear::read(const JsonField &layer, LayerReader &reader) {
  Linear linear;
  linear.per_species = layer.has("per_species") && layer["per_species"].boolean();
  linear.accumulate = layer.has("accumulate") && layer["accumulate"].boolean();
  linear.input = reader.input(layer);
  linear.output = linear.accumulate ? reader.accumulated_output(layer) : reader.output(layer);
  const Irreps &in = reader.features()[linear.input], &out = reader.features()[linear.output];
  read_blocks(layer["blocks"], in, out, linear, reader.tensors);

  linear.bias.resize(out.size());
  if (!layer.has("biases")) return linear;
  const JsonField biases = layer["biases"];
  for (size_t k = 0; k < biases.size(); ++k) {
    const JsonField b = biases[k];
    const int j = read_scalar_block(b["out"], out);
    if (!linear.bias[j].empty()) b["out"].fail("one bias per block", "a second one");
    linear.bias[j] = reader.tensors.values(b["tensor"], {out[j].mul}, b["scale"].number());
  }
  return linear;
}

void Linear::restrict_to(const KeptSpecies &kept) {
  if (!per_species) return;
  for (LinearBlock &block : blocks) kept.each(block.weight);
}

LayerOperations Linear::operations(const OperationContext &context) const {
  const Irreps &out = context.features[output];
  // A row of the atom's species is copied or added.
  if (context.fixed_input) return {{accumulate ? static_cast<double>(out.dim()) : 0.0, 0.0}, {}};
  Operations n;
  for (const LinearBlock &block : blocks) {
    const Matrix &w = block.weight.front();
    const double products = product_operations(2 * out[block.out].irrep.l + 1, w.rows, w.cols);
    n = n + Operations{products, products};
  }
  for (const std::vector<double> &numbers : bias) n.forward += static_cast<double>(numbers.size());
  return {n, {}};
}

}    // namespace equi
