// SPDX-License-Identifier: MIT
// The parts that the evaluations on both back ends share: the plan, the prepared layers, the memory of features, and
// their description for the log.
#ifndef EQUI_LAYERED_EVALUATION_H
#define EQUI_LAYERED_EVALUATION_H

#include "kokkos/evaluation/layers.h"
#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_memory.h"
#include "kokkos/plan/evaluation_plan.h"
#include "src/base/owned_memory.h"
#include "src/evaluation/evaluator.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace equi {

// Interface: Evaluator, or a class derived from it. Backend: HostBackend or DeviceBackend.
template <class Interface, class Backend>
class LayeredEvaluation : public Interface {
 public:
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;
  using Array = typename Backend::template Array<R>;
  using SenderLayer = typename Backend::SenderLayer;

  LayeredEvaluation(Model &&model, const EvaluatorOptions &options, EvaluationPlan plan)
      : model_(std::move(model)), options_(options), plan_(std::move(plan)), features_(plan_, model_.num_species()) {
    if (is_direct_ && options.directional)
      throw std::invalid_argument(
          "there are no second derivatives and no energy moments with direct forces, which are no derivatives of the "
          "energy");
    if (options.energy_moments && sums_over_atoms(model_.layers))
      throw std::invalid_argument(
          "there are no energy moments of a model with sums over all atoms (channel_balance, ewald): the energy of an "
          "atom depends on atoms at any distance");
    if (options.precision == Precision::tf32 && !Backend::ON_GPU)
      throw std::invalid_argument("precision tf32 is for kernels on GPUs; CPUs compute in mixed or double precision");
    if (options.precision == Precision::tf32 && !any_layer(model_.layers, &LayerTraits::has_costly_edges))
      throw std::invalid_argument(
          "precision tf32 rounds products of SO(2) convolutions, of which this model has none: use precision mixed");
    if (options.energy_moments && far_cutoff_ > 0.0)
      throw std::invalid_argument("there are no energy moments of a model with energies of pairs beyond its cutoff");
  }

  std::string describe_system() const override {
    std::string lines;
    for (const auto &layer : layers_)
      if (const std::string line = layer ? layer->describe_system() : "";
          !line.empty() && lines.find(line) == std::string::npos)
        lines += "  " + line + "\n";
    return lines;
  }
  int max_directions() const override { return plan_.keeps_values ? plan_.max_directions() : 1; }
  std::size_t exchange_bytes_per_row() const override { return plan_.max_exchanged_row_size * sizeof(R); }
  void for_memory(const MemoryPartVisitor &f) const override {
    features_.for_memory(f);
    visit_memory(part_of_memory("values kept of edges", f), kept_);
    const auto kept = part_of_memory("values that layers keep of receivers", f),
               others = part_of_memory("tables, weights and scratch of layers", f);
    for (const auto &layer : layers_) {
      if (!layer) continue;
      layer->for_arrays(without_sizes(kept));
      layer->for_batch_arrays(0, 0, without_sizes(others));
      layer->for_memory(others);
    }
  }

 protected:
  // with_moments, with_backward: whether a request has energy moments, and whether it has results of a backward pass.
  void check_moments(bool with_moments, bool with_backward) const {
    if (options_.energy_moments != with_moments || (with_moments && with_backward))
      throw std::logic_error("an evaluator of energy moments takes them, and nothing that needs a backward pass");
  }
  // The planes that an evaluation computes. only_tangents: nothing has moved, and only tangents are requested.
  Planes planes_of_step(bool only_tangents, int num_directions) const {
    const bool tangents_alone = values_are_kept_ && only_tangents;
    const int most = tangents_alone ? max_directions() : 1;
    if (num_directions > most) throw std::logic_error("more directions than an evaluation takes at a time");
    if (tangents_alone) return {1, 1 + num_directions};
    if (options_.energy_moments) return {0, plan_.planes};
    return {0, PLANES<typename Batch::Number>};
  }

  const FeatureLayout &layout(int feature) const { return plan_.features[feature].layout; }

  // A feature with this many rows, or its adjoint, for an exchange; valid until the next call.
  const FeaturePieces<R> &pieces(int feature, R *data, int64_t rows) {
    pieces_.clear();
    for (const FeatureGroup &group : layout(feature).groups())
      pieces_.push_back({data + rows * group.offset, group.width()});
    return pieces_;
  }

  // Prepares all layers of the model.
  void prepare_layers(typename Backend::Context &context) {
    context.pair_scale = energies_.scale;
    for (const Layer &layer : model_.layers) {
      layers_.push_back(std::visit([&](const auto &l) { return prepare_layer<Backend>(context, l); }, layer));
      if (reads_senders(layer)) sender_layers_.push_back(static_cast<SenderLayer *>(layers_.back().get()));
    }
    kept_per_edge_ = context.kept_per_edge;
  }
  // Computes features that depend only on the species, and what they contribute to other features. The batch has a
  // row per species.
  void evaluate_fixed_features(Batch &species) {
    for (int k : plan_.fixed_layers) layers_[k]->forward(species);
    for (const Stage &stage : plan_.stages)
      for (const Step &step : stage.steps)
        if (step.fixed_input) layers_[step.layer]->prepare(species);
  }

  // Memory for what layers keep of as many of `count` edges as `room` bytes hold, at the expense of what it had.
  KeptOfEdges<R> keep_edges(int64_t count, double room) {
    if (kept_per_edge_ == 0) return {};
    if (static_cast<double>(bytes_of(kept_)) > room) kept_ = {};
    constexpr double BUFFER_ROOM = 1.125;    // a buffer grows by up to an eighth more
    const double of_edge = BUFFER_ROOM * sizeof(R) * static_cast<double>(kept_per_edge_);
    const auto number = static_cast<int64_t>(std::min(static_cast<double>(count), std::max(0.0, room) / of_edge));
    if (number == 0) return {};
    return {kept_.reserve(kept_per_edge_ * number), number};
  }

  // Another plan for the same model. Features lose their values and their memory.
  void use_plan(EvaluationPlan plan) {
    plan_ = std::move(plan);
    features_.release_rows();
    values_are_kept_ = false;
  }

  void run_forward(Batch &batch, const std::vector<Step> &steps) {
    for (const Step &step : steps) {
      batch.step = &step;
      layers_[step.layer]->forward(batch);
    }
  }
  void forward_layers(Batch &batch, const Stage &stage) { run_forward(batch, stage.steps); }
  void backward_layers(Batch &batch, const Stage &stage) {
    batch.is_backward = true;
    for (const Step &step : stage.steps) {
      if (!step.is_recomputed) continue;
      batch.step = &step;
      layers_[step.layer]->forward(batch);
    }
    for (auto step = stage.steps.rbegin(); step != stage.steps.rend(); ++step) {
      if (step->adjoint == Step::Adjoint::none) continue;
      batch.step = &*step;
      layers_[step->layer]->backward(batch);
    }
  }
  // Runs the sums over all atoms of all ranks with their receivers, before the forward pass of a stage, or the balances
  // after its backward pass. system: null where no model has system sums.
  void balance(const typename Batch::Work &work, const Stage &stage, int num_receivers, bool is_adjoint,
               const SystemOfStep<Batch> *system, GhostExchange &exchange) {
    const auto apply = [&](const BalanceStep &step) {
      if (is_adjoint && !step.has_adjoint) return;
      const Ports p = ports(model_.layers[step.layer]);
      const int feature = p.output;
      const BatchRows<R> all{0, num_receivers, nullptr};
      if (!traits(model_.layers[step.layer]).changes_in_place) {
        auto &layer = static_cast<SystemSumLayer<Batch> &>(*layers_[step.layer]);
        if (is_adjoint)
          layer.sum_adjoint(work, features_.rows(all, p.input, true), num_receivers, *system, exchange);
        else
          layer.sum_up(work, features_.rows(all, p.input, false), num_receivers, *system, exchange);
        return;
      }
      static_cast<BalanceLayer<Batch> &>(*layers_[step.layer])
          .balance(work, features_.rows(all, feature, false), features_.rows(all, feature, true), num_receivers,
                   is_adjoint, exchange);
    };
    if (is_adjoint)
      std::for_each(stage.balances.rbegin(), stage.balances.rend(), apply);
    else
      std::for_each(stage.balances.begin(), stage.balances.end(), apply);
  }
  bool has_system_sum() const { return std::any_of(model_.layers.begin(), model_.layers.end(), is_system_sum); }
  // Bytes that sums over all atoms of a cell add to those of the layers.
  std::size_t additional_system_bytes(const PeriodicBox &box, int num_receivers) const {
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < layers_.size(); k++)
      if (is_system_sum(model_.layers[k]))
        bytes += static_cast<const SystemSumLayer<Batch> &>(*layers_[k]).additional_bytes(box, num_receivers);
    return bytes;
  }
  // For an energy of clusters: whether each atom of all ranks has an edge to every other atom. Collective.
  bool has_all_pairs(GhostExchange &exchange, int num_receivers, int64_t num_far_edges) const {
    if (!needs_all_pairs(model_.layers)) return true;
    double sums[] = {static_cast<double>(num_receivers), static_cast<double>(num_far_edges)};
    exchange.sum(sums, 2);
    return sums[1] == sums[0] * (sums[0] - 1.0);
  }
  // Calls f(step, layer) for the convolutions whose senders' adjoints belong to the stage's exchanged input.
  template <class F>
  void for_convolutions(const Stage &stage, const F &f) {
    for (const Step &step : stage.steps)
      if (reads_senders(model_.layers[step.layer]) && !step.fixed_input && step.adjoint != Step::Adjoint::none)
        f(step, static_cast<SenderLayer &>(*layers_[step.layer]));
  }

  // Calls f(array, size) for the arrays with rows that an evaluation keeps.
  void for_arrays(int64_t num_receivers, const ArrayVisitor &f) const {
    features_.for_arrays(f);
    for (const auto &layer : layers_)
      if (layer) layer->for_arrays([&](ArrayRef array, int64_t n) { f(array, num_receivers * n); });
  }
  void reserve_arrays(int64_t num_receivers) {
    for_arrays(num_receivers, [](ArrayRef array, int64_t n) { array.reserve(n); });
  }
  std::size_t additional_array_bytes(int64_t num_receivers) const {
    return sum_of_additional_bytes([&](const auto &f) { for_arrays(num_receivers, f); });
  }

  const char *precision_name() const {
    constexpr const char *NAMES[] = {"mixed", "double", "tf32"};
    return NAMES[static_cast<int>(options_.precision)];
  }
  std::string describe_layers() const {
    std::string lines;
    for (const auto &layer : layers_)
      if (const std::string line = layer ? layer->describe() : ""; !line.empty()) lines += "  " + line + "\n";
    return lines;
  }

  Model model_;
  const double far_cutoff_ = far_cutoff(model_.layers);    // Angstrom; 0: no far edges
  const bool is_direct_ = has_direct_forces(model_.layers);
  EvaluatorOptions options_;
  EvaluationPlan plan_;
  mutable FeatureMemory<R, Array> features_;
  std::vector<PreparedLayer<Backend>> layers_;    // per layer of the model; null if the layer has no work in batches
  std::vector<SenderLayer *> sender_layers_;      // the layers that read the features of senders
  const Model::EnergyScale energies_ = model_.energy_scale();
  Array kept_;    // KeptOfEdges
  int64_t kept_per_edge_ = 0;
  bool values_are_kept_ = false;    // at the positions of the last evaluation
  int64_t step_ = 0;                // number of evaluations

 private:
  static bool is_system_sum(const Layer &layer) {
    return traits(layer).sums_over_atoms && !traits(layer).changes_in_place;
  }

  FeaturePieces<R> pieces_;
};

// Calls make(T(), options) with the type of the network that the options request.
template <class Make>
std::unique_ptr<Evaluator> make_for_precision(const EvaluatorOptions &options, const Make &make) {
  const bool is_double = options.precision == Precision::double_;
  if (options.directional) return is_double ? make(Dual<double>(), options) : make(Dual<float>(), options);
  return is_double ? make(double(), options) : make(float(), options);
}

}    // namespace equi

#endif
