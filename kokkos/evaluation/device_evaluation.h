// SPDX-License-Identifier: MIT
// The evaluation of a model on a device. The stages of an EvaluationPlan run layer by layer over batches of
// receivers; each layer needs one or a few launches. Geometry, features and forces stay on the device. For hosts
// without device memory, the interface of Evaluator copies positions in and forces out around the same evaluation.
//
// For a small system the launches of an evaluation depend only on the neighborhood. Edges are not counted on the
// host, which then waits only at the end. Launches are recorded and replayed (device_recorder.h).
//
// If other ranks take part, the layers are launched on an instance of their own. The exchange before a stage runs on
// the default instance. Meanwhile the interior receivers are computed, whose senders are all owned; they come first
// in the neighborhood. The backward pass gathers the adjoints of remote rows first. These travel while those of
// owned rows are gathered.
//
// T is that of host_evaluation.h. The same source also serves a host's execution space, where it is tested;
// the kernels made for hosts are those of HostEvaluation.
#ifndef EQUI_DEVICE_EVALUATION_H
#define EQUI_DEVICE_EVALUATION_H

#include "kokkos/device_kernels/device_dense.h"
#include "kokkos/evaluation/device_evaluator.h"
#include "kokkos/evaluation/layered_evaluation.h"
#include "kokkos/layer_interface/device_backend.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_queue.h"
#include "kokkos/runtime/device_recorder.h"
#include "src/evaluation/evaluator.h"

#include <optional>
#include <vector>

namespace equi {

// The results of an evaluation on this rank that the host reads. The device writes them at the end.
struct StepSummary {
  double energy[2];    // the energy and its tangent
  double virial[9], virial_tangent[9];
  double forces[3], tangents[3];    // sums over rows, which show whether all are finite
  double system_virial[2 * 6];      // of sums over all atoms; with duals, each number with its tangent
  double distance;                  // distance of the closest pair
  int64_t closest, num_edges, num_far_edges;
  double most_neighbors_receiver;    // result of DeviceEdges::most_neighbors() with its number of edges
  int64_t most_neighbors;
};

template <class T>
class DeviceEvaluation : public LayeredEvaluation<DeviceEvaluator, DeviceBackend<T>> {
  using R = Real<T>;
  using D = DoubleOf<T>;
  using Batch = DeviceBatch<T>;
  using Base = LayeredEvaluation<DeviceEvaluator, DeviceBackend<T>>;
  using Base::features_, Base::kept_, Base::kept_per_edge_, Base::model_, Base::options_, Base::plan_,
      Base::values_are_kept_;

 public:
  DeviceEvaluation(Model model, const EvaluatorOptions &options);

  std::string describe() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  void set_neighborhood(const DeviceNeighborList &list, const PeriodicBox &box) override;
  EvaluationResult evaluate(const DeviceRequest &request, GhostExchange &exchange) override;
  DeviceResults results() const override;
  void for_memory(const MemoryPartVisitor &f) const override;
  // Number of slices of the current neighborhood: more than one if the memory limit requires it.
  int num_slices() const { return neighborhood_.num_slices; }
  // Whether evaluations wait for their edges to be counted; if not, they are recorded.
  bool counts_edges() const { return edges_.is_counted(); }

  // Parts of evaluate(), public because nvcc requires it of functions with kernels.
  void launch_edges(const DeviceRequest &request);
  void launch_results(const DeviceRequest &request);
  void clear_system(const DeviceRequest &request);
  void add_system(const DeviceRequest &request);
  void save_or_restore_values(const FeatureLayout &layout, R *adjoint, bool and_back);

 private:
  struct BatchAtoms {
    int slice, cut, first, count;      // cut: of DeviceEdges, at which the batch begins; it ends at the next one
    std::vector<int> species_begin;    // SpeciesOrder, for receivers
  };

  void evaluate_fixed_features();
  void begin_step(const DeviceRequest &request);
  DeviceSystem<D> system_of(const DeviceRequest &request) const;
  EvaluationResult end_step(bool with_forces, bool with_virial, GhostExchange &exchange);
  int find_not_finite(bool with_forces) const;
  struct EdgesWithinCutoff {
    const int64_t *begin;    // [N+1] in device memory, until edges are built (DeviceEdges::count_within_cutoff)
    int64_t number;
  };
  EdgesWithinCutoff count_edges(DeviceEdges<T> &edges, const double *positions);
  static EvaluationPlan plan_for(const Model &model, const EvaluatorOptions &options, const PlanMemory &saving);
  // Changes to a plan that saves memory in this way.
  void save_memory(const PlanMemory &saving);
  // Chooses the sizes of batches and slices by the memory limit. Without positions each candidate counts as an edge.
  // Returns whether the limit changed them or, without positions, would change them.
  bool choose_sizes(const double *positions);
  // Chooses sizes for the edges at these positions, unless the last ones were chosen for as many.
  void choose_sizes_for_edges(const double *positions);
  void divide_into_batches();
  void sort_batches_by_species();
  // f(array, size) for the arrays that an evaluation keeps, except edges: rows that outlive it, and other arrays.
  void for_arrays(const ArrayVisitor &f);
  void for_arrays_of_step(const ArrayVisitor &f);
  // memory_bytes() plus the bytes that an evaluation of this many edges will add, without what layers keep of edges,
  // for which the rest is used. A batch has at most edges_of_batch edges.
  std::size_t memory_estimate(int64_t num_edges, int64_t num_far_edges, int64_t edges_of_batch);
  Batch batch_of(const BatchAtoms &atoms, const Stage &stage);
  void launch_forward(int stage, bool interior, bool and_back);
  void forward_stage(int stage, bool fuses, GhostExchange &exchange);
  void backward_stage(int stage, bool is_fused, GhostExchange &exchange);
  void repeat_input(int stage);
  void set_rows_aside(int stage, bool and_back);
  bool begins_adjoint_before_batches(const Stage &stage) const;
  void begin_adjoint(int stage);
  void clear_rows(const FeatureLayout &layout, R *data, int64_t first, int64_t last);
  void gather_senders(int stage, int slice, bool remote, R *adjoint);
  template <class Work>
  void exchange_beside(GhostExchange &exchange, int feature, R *data, bool is_reverse, const Work &work);
  void exchange_rows(GhostExchange &exchange, int feature, R *data, bool is_reverse);
  int num_owned() const { return neighborhood_.num_receivers; }
  // Numbers per edge that a stage may keep of its senders' adjoints; 0 if the stage has more than one such layer.
  int64_t sender_adjoints_per_edge();
  int64_t slice_rows() const { return std::min(slice_size_, num_owned()); }

  DeviceExec own_exec_;
  DeviceDense dense_, own_dense_;    // for the default instance and for this object's own one
  QueuedWork<> queued_;
  DeviceRecorder<> recorder_;
  bool is_exchanging_ = false;
  bool divides_edges_ = false;       // whether any layer does
  bool with_atom_virial_ = false;    // whether any evaluation has requested it
  PlanMemory saving_{options_.lean, false};
  int batch_size_ = 0;    // receivers, or senders, in a launch
  // Numbers of edges for which the sizes of batches and slices were chosen.
  struct PlannedEdges {
    int64_t all, far, of_batch;
  };
  PlannedEdges planned_edges_{};
  bool are_candidates_too_many_ = false;    // for the memory limit; sizes are then chosen by numbers of edges
  bool is_divided_ = false;                 // whether batches exist for this neighborhood
  bool keeps_bins_ = false;                 // whether a small system's evaluation finds all bins at once
  // Number of receivers whose adjoints of convolutions' outputs are kept at a time: all, if the memory limit allows.
  int slice_size_ = 0;

  DeviceNeighborhood neighborhood_;                    // transposed as this evaluation needs it
  DeviceNeighborList copied_list_;                     // copy of a host's neighborhood
  const Neighborhood *host_neighborhood_ = nullptr;    // its original
  PeriodicBox box_;                                    // for which memory is planned
  DeviceEdges<T> edges_;
  std::optional<DeviceEdges<T>> far_edges_;    // DeviceEvaluationState::far_edges
  // A launch stays within one slice, and does not mix interior with boundary receivers or owned with remote rows.
  std::vector<BatchAtoms> batches_, sender_batches_;
  DeviceBuffer<int> species_order_;

  DeviceEvaluationState<T> state_;
  DeviceExec &exec_;    // of this evaluation: the default instance or, with other ranks or recorded, the own one
  DeviceBuffer<R> batch_features_;
  DeviceBuffer<R> sender_adjoints_;
  int64_t adjoints_per_edge_ = 0;        // numbers per edge in them, for this neighborhood
  DeviceBuffer<R> returned_;             // adjoints of remote rows in transit, and those that return to owned rows
  DeviceBuffer<R> aside_;                // values of an adjoint, set aside while tangents are gathered
  DeviceBuffer<D> energy_;               // [directions][receivers]
  DeviceBuffer<double> device_shift_;    // shift of the energy, by species
  // DeviceSystem, where the model has sums over all atoms.
  const bool has_system_sum_ = Base::has_system_sum();
  DeviceBuffer<D> system_gradient_;
  DeviceBuffer<double> system_atom_virial_;
  DeviceSum sum_;
  Kokkos::View<StepSummary, Kokkos::SharedHostPinnedSpace> summary_;
  // For a host without device memory.
  DeviceBuffer<double> positions_, direction_, image_shifts_;
  using StagingView = Kokkos::View<R *, Kokkos::SharedHostPinnedSpace>;
  StagingView staging_;    // rows in transit between ranks
  std::vector<double> host_numbers_;
  std::vector<int> host_rows_;
};

}    // namespace equi

#endif
