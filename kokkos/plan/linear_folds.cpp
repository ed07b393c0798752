// SPDX-License-Identifier: MIT
// Merges consecutive linear layers of a model, and chooses the merges that save most operations.
#include "kokkos/plan/linear_folds.h"

#include "kokkos/plan/operation_count.h"
#include "src/base/model_limits.h"
#include "src/numbers/matrix.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace equi {

namespace {

void add(const std::vector<double> &from, std::vector<double> &to) {
  to.resize(from.size(), 0.0);
  for (size_t k = 0; k < from.size(); ++k) to[k] += from[k];
}

// Scalar features by species, as far as embeddings and linear layers determine them.
class SpeciesRows {
 public:
  explicit SpeciesRows(const Model &model) : model_(model) {}

  // What this layer adds to a block of its output, [species][channels]. Empty if unknown.
  std::vector<std::vector<double>> layer_rows(const Linear &linear, int block) const {
    std::vector<std::vector<double>> rows(model_.num_species(), std::vector<double>(channels(linear.output, block)));
    for (const LinearBlock &b : linear.blocks) {
      if (b.out != block) continue;
      const auto inputs = feature_rows(linear.input, b.in);
      if (inputs.empty()) return {};
      for (int s = 0; s < model_.num_species(); ++s)
        add(multiply({1, channels(linear.input, b.in), inputs[s]}, b.weight[linear.per_species ? s : 0]).data, rows[s]);
    }
    if (!linear.bias.empty() && !linear.bias[block].empty())
      for (auto &row : rows) add(linear.bias[block], row);
    return rows;
  }

 private:
  int channels(int feature, int block) const { return model_.features[feature][block].mul; }

  std::vector<std::vector<double>> feature_rows(int feature, int block) const {
    std::vector<std::vector<double>> rows(model_.num_species(), std::vector<double>(channels(feature, block)));
    for (const Layer &layer : model_.layers) {
      if (ports(layer).output != feature) continue;
      if (const auto *embedding = std::get_if<SpeciesEmbedding>(&layer)) {
        const Matrix &w = embedding->weight;
        for (int s = 0; s < w.rows; ++s) add({w.data.begin() + s * w.cols, w.data.begin() + (s + 1) * w.cols}, rows[s]);
      } else if (const auto *linear = std::get_if<Linear>(&layer)) {
        const auto added = layer_rows(*linear, block);
        if (added.empty()) return {};
        for (size_t s = 0; s < rows.size(); ++s) add(added[s], rows[s]);
      } else {
        return {};
      }
    }
    return rows;
  }

  const Model &model_;
};

bool has_bias(const Linear &linear) {
  return std::any_of(linear.bias.begin(), linear.bias.end(), [](const auto &b) { return !b.empty(); });
}

// Whether float32 can hold the numbers, as it can hold those of a file.
bool are_in_range(const std::vector<double> &numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double v) { return std::fabs(v) <= MAX_MAGNITUDE; });
}

// Applies `second` after `first`, with the output of `second`. Returns no value if a bias would depend on the
// species, or if products are out of range.
std::optional<Linear> composed(const Linear &first, const Linear &second) {
  if (has_bias(first) && second.per_species) return std::nullopt;
  Linear both{first.input, second.output, first.per_species || second.per_species, true, {}, {}};
  both.bias.resize(second.bias.size());
  for (const LinearBlock &b : second.blocks) {
    for (const LinearBlock &a : first.blocks) {
      if (a.out != b.in) continue;
      auto block = std::find_if(both.blocks.begin(), both.blocks.end(),
                                [&](const LinearBlock &c) { return c.in == a.in && c.out == b.out; });
      const bool is_new = block == both.blocks.end();
      if (is_new) block = both.blocks.insert(block, {a.in, b.out, {}});
      const size_t num = both.per_species ? std::max(a.weight.size(), b.weight.size()) : 1;
      for (size_t s = 0; s < num; ++s) {
        Matrix m = multiply(a.weight[first.per_species ? s : 0], b.weight[second.per_species ? s : 0]);
        if (is_new)
          block->weight.push_back(std::move(m));
        else
          add(m.data, block->weight[s].data);
      }
    }
    if (!first.bias.empty() && !first.bias[b.in].empty()) {
      const std::vector<double> &bias = first.bias[b.in];
      add(multiply({1, static_cast<int>(bias.size()), bias}, b.weight[0]).data, both.bias[b.out]);
    }
  }
  for (const LinearBlock &block : both.blocks)
    for (const Matrix &m : block.weight)
      if (!are_in_range(m.data)) return std::nullopt;
  if (!std::all_of(both.bias.begin(), both.bias.end(), are_in_range)) return std::nullopt;
  return both;
}

// Whether only linear layers write a feature, and only linear layers and readouts read it.
bool may_fold(const Model &model, int feature) {
  bool is_written = false, is_read = false;
  for (const Layer &layer : model.layers) {
    const Ports p = ports(layer);
    bool reads = false;
    p.for_inputs([&](int f) { reads = reads || f == feature; });
    if (p.output == feature && !std::holds_alternative<Linear>(layer)) return false;
    if (reads && !std::holds_alternative<Linear>(layer) && !std::holds_alternative<Readout>(layer)) return false;
    is_written = is_written || p.output == feature;
    is_read = is_read || reads;
  }
  return is_written && is_read;
}

// Replaces the layers that write and read one feature (may_fold).
class Fold {
 public:
  Fold(const Model &model, const std::vector<bool> &fixed, int feature)
      : model_(model), fixed_(fixed), rows_(model), feature_(feature), folded_(model) {}

  // Returns no value if the fold is impossible.
  std::optional<Model> make() {
    for (const Layer &layer : model_.layers)
      if (ports(layer).output == feature_) writers_.push_back(&std::get<Linear>(layer));
    folded_.layers.clear();
    for (const Layer &layer : model_.layers) {
      const Ports p = ports(layer);
      if (p.output == feature_) continue;
      bool reads = false;
      p.for_inputs([&](int f) { reads = reads || f == feature_; });
      if (!reads) {
        folded_.layers.push_back(layer);
        continue;
      }
      const auto *linear = std::get_if<Linear>(&layer);
      const auto *readout = std::get_if<Readout>(&layer);
      if (!(linear && replace(*linear)) && !(readout && replace(*readout))) return std::nullopt;
    }
    bool is_shifted = shift_.empty();
    for (Layer &layer : folded_.layers)
      if (auto *s = std::get_if<ScaleShift>(&layer); s && !shift_.empty()) {
        for (size_t k = 0; k < shift_.size(); ++k) s->shift[k] += s->scale[k] * shift_[k];
        is_shifted = true;
      }
    if (!is_shifted) return std::nullopt;
    return std::move(folded_);
  }

 private:
  bool replace(const Linear &reader) {
    bool is_first = !reader.accumulate;
    for (const Linear *writer : writers_) {
      std::optional<Linear> both = composed(*writer, reader);
      if (!both) return false;
      if (is_first) {
        for (size_t b = 0; b < reader.bias.size(); ++b)
          if (!reader.bias[b].empty()) add(reader.bias[b], both->bias[b]);
        both->accumulate = false;
        is_first = false;
      } else if (writer == writers_.front() && has_bias(reader)) {
        return false;    // a bias would apply to what other layers have written
      }
      if (both->accumulate && both->blocks.empty() && !has_bias(*both)) continue;
      folded_.layers.emplace_back(std::move(*both));
    }
    return true;
  }

  bool replace(const Readout &reader) {
    Network network = reader.network;
    network.simplify();
    if (network.weights.size() > 1) return false;
    const Matrix weight = network.weights[0];
    std::vector<double> bias = network.biases.empty() ? std::vector<double>() : network.biases[0];
    if (bias.empty()) bias = {0.0};
    bool has_readout = false;
    for (const Linear *writer : writers_) {
      if (fixed_[writer->input]) {
        const auto rows = rows_.layer_rows(*writer, reader.block);
        if (rows.empty()) return false;
        shift_.resize(model_.num_species(), 0.0);
        for (size_t s = 0; s < rows.size(); ++s) shift_[s] += multiply({1, weight.rows, rows[s]}, weight).data[0];
        continue;
      }
      if (writer->per_species) return false;
      if (!writer->bias.empty() && !writer->bias[reader.block].empty())
        bias[0] += multiply({1, weight.rows, writer->bias[reader.block]}, weight).data[0];
      for (const LinearBlock &block : writer->blocks) {
        if (block.out != reader.block) continue;
        Network of_block;
        of_block.weights = {multiply(block.weight[0], weight)};
        of_block.biases = {has_readout ? std::vector<double>() : bias};
        has_readout = true;
        folded_.layers.emplace_back(Readout{writer->input, block.in, std::move(of_block)});
      }
    }
    // The first readout does not have a bias that a later writer adds.
    if (has_readout) {
      const auto first = std::find_if(folded_.layers.rbegin(), folded_.layers.rend(), [](const Layer &layer) {
        const auto *r = std::get_if<Readout>(&layer);
        return r && !r->network.biases[0].empty();
      });
      std::get<Readout>(*first).network.biases[0] = bias;
    }
    return has_readout;
  }

  const Model &model_;
  const std::vector<bool> &fixed_;
  const SpeciesRows rows_;
  const int feature_;
  std::vector<const Linear *> writers_;
  Model folded_;
  std::vector<double> shift_;    // shift of energies before their scale, by species; or empty
};

// Share of an atom's operations, without those of its edges. Folds that save less are not worth their rounding:
// products of matrices are rounded to float32 instead of the matrices. In mixed precision a fold that saved 5 %
// increased the errors of energies of a MACE model 2 to 3 times.
constexpr double LEAST_SAVING = 0.1;

double operations_of(const Model &model, const EvaluationPlan &plan) {
  return count_operations(model, plan, AVX512_TARGET).total().per_atom.both();
}

}    // namespace

Model fold_linears(const Model &model) {
  std::optional<Model> folded;
  double operations = 0.0, unfolded = 0.0;    // counts of the best model and of the original one
  for (size_t f = 0; f < model.features.size(); ++f) {
    const Model &best = folded ? *folded : model;
    if (!may_fold(best, static_cast<int>(f))) continue;
    const EvaluationPlan plan = make_evaluation_plan(best, false);
    std::vector<bool> fixed;
    for (const FeaturePlan &feature : plan.features) fixed.push_back(feature.storage == Storage::fixed);
    if (fixed[f]) continue;
    std::optional<Model> next = Fold(best, fixed, static_cast<int>(f)).make();
    if (!next) continue;
    if (unfolded == 0.0) operations = unfolded = operations_of(best, plan);
    const double of_next = operations_of(*next, make_evaluation_plan(*next, false));
    if (of_next >= operations) continue;
    folded = std::move(next);
    operations = of_next;
  }
  return operations < (1.0 - LEAST_SAVING) * unfolded ? std::move(*folded) : model;
}

}    // namespace equi
