// SPDX-License-Identifier: MIT
// The evaluation of a model on CPUs. The stages of an EvaluationPlan run tile by tile and thread by thread, with the
// exchange of remote rows between stages.
//
// T is the type of the network (features, radial weights): float in mixed precision. The geometry has the type
// DoubleOf<T>, and energies, forces and virials are summed in float64 in a fixed order. With duals (dual.h) the same
// stages also compute the derivatives along a direction. Features, and the messages between ranks, then have twice as
// many numbers.
//
// Each thread owns consecutive tiles. It scatters the adjoints of sender features into partial adjoints of its own,
// which have rows only for senders of its receivers. The partial adjoints are summed in the order of threads. There
// are no atomics, and each run with the same number of threads gives the same result. With `deterministic` the
// adjoints are gathered over the transposed edges instead. The result then does not depend on the number of threads
// either, but radial weights are computed twice.
#ifndef EQUI_HOST_EVALUATION_H
#define EQUI_HOST_EVALUATION_H

#include "kokkos/evaluation/layered_evaluation.h"
#include "kokkos/layer_interface/host_backend.h"

#include <memory>
#include <optional>
#include <vector>

namespace equi {

template <class T>
class HostEvaluation : public LayeredEvaluation<Evaluator, HostBackend<T>> {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Batch = HostBatch<T>;
  using Base = LayeredEvaluation<Evaluator, HostBackend<T>>;
  using Base::features_, Base::kept_, Base::kept_per_edge_, Base::model_, Base::options_, Base::plan_,
      Base::values_are_kept_;

 public:
  HostEvaluation(Model model, const EvaluatorOptions &options, InstructionSet set);

  std::string describe() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  void for_memory(const MemoryPartVisitor &f) const override;
  bool borrow_edges(const Evaluator &other) override;

 private:
  struct Tile {
    int first, count;
  };
  struct Thread {
    int first_tile = 0, last_tile = 0;    // [first, last)
    std::vector<int> partial_rows;        // row of each partial row
    Buffer<R> partial;                    // adjoints of senders
    HostScratch<T> scratch;
  };

  static EvaluationPlan plan_for(const Model &model, const EvaluatorOptions &options, bool is_lean);
  void become_lean();
  int num_stages() const { return static_cast<int>(plan_.stages.size()); }
  void divide_tiles();
  // Gives each thread some of the tiles first .. last - 1.
  void share_tiles(int first, int last);
  // Whether all passes run for some tiles at a time, so that only their edges are in memory: there is one stage, and
  // nothing of an edge is needed after it.
  bool evaluates_in_parts() const;
  // Tiles whose edges are in memory at a time.
  int tiles_of_part() const;
  int64_t most_present(const Edges<T> &edges) const;
  // Whether threads scatter adjoints of senders to rows of their own. Only layers that read senders do that; without
  // such layers, the numbers of these rows would be memory for nothing.
  bool has_partials() const { return !options_.deterministic && !Base::sender_layers_.empty(); }
  void build_partials();
  template <class F>
  void on_threads(const char *label, const F &f);
  // Calls f(batch) for the tiles of a thread.
  template <class F>
  void for_tiles(Thread &thread, const Stage &stage, const F &f);

  // memory_bytes() plus the bytes that an evaluation of the edges found will add. The scratch of threads for the
  // edges of a tile is not included; it is small.
  std::size_t memory_estimate() const;
  std::size_t additional_scratch_bytes(int64_t num_edges) const;
  void keep_edges(bool backward_is_wanted);
  void find_partial_rows();
  void find_moving_senders(int stage);
  int find_not_finite(const EvaluationRequest &request) const;
  void forward(const HostSystem &system, GhostExchange &exchange, bool and_back);
  void run_backward(int stage, bool with_forward);
  void repeat_input(int stage);
  void set_rows_aside(int stage, bool and_back);
  void backward(const HostSystem &system, GhostExchange &exchange);
  void add_results_of_receivers(const EvaluationRequest &request, EvaluationResult &result) const;
  void return_senders(int stage, GhostExchange &exchange);
  void add_partials(int stage);
  void gather_senders(int stage);
  int num_owned() const { return neighborhood_ ? neighborhood_->num_receivers : 0; }

  InstructionSet set_;
  Edges<T> edges_;
  std::optional<Edges<T>> far_edges_;    // HostEvaluationState::far_edges
  HostEvaluationState<T> state_;

  const Neighborhood *neighborhood_ = nullptr;
  std::vector<Tile> tiles_;
  std::vector<std::unique_ptr<Thread>> threads_;
  // Where the rows of the partial adjoints go: contributions of row r are
  // partial_source_[partial_begin_[r]..partial_begin_[r+1]).
  struct PartialSource {
    int thread, partial_row;
  };
  std::vector<int64_t> partial_begin_;
  std::vector<PartialSource> partial_source_;
  std::vector<int> candidate_partial_row_;    // [candidates] partial row of the sender
  Buffer<int> edge_partial_row_;
  Buffer<D> energy_;
  Buffer<double> direct_forces_;    // HostEvaluationState::direct_forces
  Buffer<double> observables_;      // HostEvaluationState::observables
  Buffer<double> observable_weights_;
  bool is_lean_ = options_.lean;    // whether the plan keeps less and computes more
  const int64_t num_observable_numbers_ = model_.num_observable_numbers();
};

}    // namespace equi

#endif
