// SPDX-License-Identifier: MIT
// The evaluation of a model: the stages of an EvaluationPlan, tile by tile and thread by thread, with the exchange of
// remote rows between stages.
//
// T is the type of the network (features, radial weights), G that of the geometry: single <float,float>, mixed
// <float,double>, double <double,double>. Energies, forces and virials are summed in float64 in a fixed order. With
// duals of these types (dual.h) the same stages give the derivatives along a direction too: features are twice as many
// numbers, those that ranks exchange as well.
//
// Each thread owns a contiguous run of tiles. Adjoints of sender features are scattered into a slab of the thread's
// own, which has rows for those senders only that its receivers can see, and the slabs are added up in the order of
// threads: no atomics, and the same result at every run with the same number of threads. With `deterministic` they are
// gathered over the transposed edges instead, which does not depend on the number of threads either but computes radial
// weights twice.
#ifndef EQUI_MODEL_KOKKOS_H
#define EQUI_MODEL_KOKKOS_H

#include "kokkos/evaluation/evaluation_plan.h"
#include "kokkos/geometry/edges.h"
#include "kokkos/layers/contraction/contraction_op.h"
#include "kokkos/layers/convolution/convolution_op.h"
#include "kokkos/layers/density/density_op.h"
#include "kokkos/layers/node/node_ops.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/evaluator.h"

#include <memory>
#include <variant>
#include <vector>

namespace equi {

template <class T, class G>
class ModelKokkos : public Evaluator {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  ModelKokkos(const Model &model, const EvaluatorOptions &options, InstructionSet set);

  std::string describe() const override;
  void set_neighborhood(const Neighborhood &n) override;
  EvaluationResult evaluate(const EvaluationRequest &request, GhostExchange &exchange) override;
  std::size_t exchange_bytes_per_row() const override { return plan_.max_exchanged_row_size * sizeof(R); }
  std::size_t memory_bytes() const override;
  int max_directions() const override { return plan_.keeps_values ? plan_.planes - 1 : 1; }

 private:
  struct Tile {
    int first, count;
  };
  // What one thread needs: its tiles, a slab for adjoints of senders, scratch.
  struct Thread {
    int first_tile = 0, last_tile = 0;    // [first, last)
    std::vector<int> slab_rows;           // row of each slab row
    Buffer<R> slab, features, radial, weights, linear, bins_per_length, row;
    Buffer<char> kernel;
    Buffer<int> table_row, order, receiver_row, function, moving_table_row;
    Buffer<int64_t> gather_begin;
    Buffer<G> gather_distance;
    Buffer<T> y_adj, gather_y, fraction, moving_fraction;
  };
  struct ReadoutOp {
    int feature, group, channel, mul;
    Network network;
    std::unique_ptr<Buffer<R>> adjoint;    // [N][planes][mul] of the input, for an energy of one
  };
  struct NormalizationOp {
    DensityOp<T> density;
    Buffer<D> norm;    // [directions][N]
  };
  using Op = std::variant<std::monostate, LinearOp<R>, std::unique_ptr<ConvolutionOp<T>>, GateOp<T>,
                          std::unique_ptr<NormalizationOp>, std::unique_ptr<ContractionOp<T>>, ReadoutOp>;

  void evaluate_fixed_features();
  void divide_tiles();
  void build_slabs();
  template <class F>
  void on_threads(const char *label, const F &f);

  // f(buffer, numbers) for what an evaluation keeps of the rows.
  template <class Self, class F>
  static void for_row_buffers(Self &self, const F &f);
  // memory_bytes() with what an evaluation of num_edges edges will add, but for scratch that does not grow with the
  // atoms.
  std::size_t memory_estimate(int64_t num_edges) const;
  void reserve();
  void find_slab_rows();
  FeatureRows<R> rows_of(Thread &thread, const Tile &tile, int feature, bool adjoint);
  SpeciesOrder sort_by_species(Thread &thread, const Tile &tile);
  void forward_stage(Thread &thread, const Stage &stage);
  void backward_stage(Thread &thread, const Stage &stage);
  // Per edge of a tile, null if there is one function for all.
  const int *tile_functions(Thread &thread, const RadialSet &set, const Tile &tile);
  DensityEdges<G> density_edges(Thread &thread, const RadialSet &set, const Tile &tile, int direction);
  SpeciesOrder contraction_order(Thread &thread, const ContractionOp<T> &op, const Tile &tile);
  void add_repulsion();
  template <class F>
  void for_runs(const ConvolutionOp<T> &op, const Tile &tile, const F &f);
  void find_moving_senders(const Stage &stage);
  int find_not_finite(const EvaluationRequest &request) const;
  ConvEdges<T> rigid_edges(Thread &thread, const Tile &tile, const ConvEdges<T> &edges);
  ConvEdges<T> rigid_edges_of_moving_senders(Thread &thread, const Step &step, const Tile &tile,
                                             const ConvEdges<T> &edges);
  template <class F>
  void for_moving_edges(Thread &thread, const Tile &tile, const ConvEdges<T> &edges, const F &f);
  void forward_tangents(Thread &thread, const Step &step, const Tile &tile, FeatureRows<R> x, FeatureRows<R> y);
  void begin_adjoint_in_place(Thread &thread, const Tile &tile, int feature, int direction);
  NetworkEdges<T, G> network_edges(Thread &thread, const Step &step, const Tile &run);
  RadialRows<R> network_weights(Thread &thread, const ConvolutionOp<T> &op, const NetworkEdges<T, G> &of,
                                int *table_row, T *fraction, R *bins_per_length);
  ConvEdges<T> run_edges(Thread &thread, const Step &step, const Tile &run, int direction = 0);
  ConvEdges<T> conv_edges(Thread &thread, const ConvolutionOp<T> &op, int count, const int64_t *begin,
                          const int *other_row, const T *harmonics, const RadialRows<R> &radial);
  char *kernel_scratch(Thread &thread, const ConvolutionOp<T> &op, const ConvEdges<T> &edges);
  bool writes_receivers(const Step &step) const;
  void backward_convolution(Thread &thread, const Step &step, const Tile &tile);
  void add_slabs(int stage);
  void gather_senders(int stage);
  R *exchanged_adjoint(int stage) {
    return plan_.keeps_values ? adjoint_[plan_.stages[stage].exchanged_input]->data()
                              : exchanged_adjoint_[stage % 2].data();
  }
  const FeaturePieces<R> &pieces(int feature, R *data);    // valid until the next call
  int num_owned() const { return neighborhood_ ? neighborhood_->num_receivers : 0; }
  // Of the evaluation at hand. With values there is one direction at most.
  bool tangents_alone() const { return planes_.begin > 0; }
  int num_directions() const { return tangents_alone() ? planes_.count() : 1; }
  static Planes plane_of(int direction) { return {1 + direction, 2 + direction}; }    // of duals

  Model model_;
  EvaluatorOptions options_;
  InstructionSet set_;
  const HostKernels<T> *kernels_;
  EvaluationPlan plan_;
  std::vector<Op> ops_;    // per layer of the model
  ScaleShift scale_shift_;
  struct Repulsion {
    PairRepulsion pair;
    bool is_scaled;
  };
  std::vector<Repulsion> repulsions_;

  const Neighborhood *neighborhood_ = nullptr;
  Edges<T, G> edges_;
  std::vector<int> receiver_species_;
  std::vector<Tile> tiles_;
  std::vector<std::unique_ptr<Thread>> threads_;
  // Where the rows of the slabs go: contributions of row r are slab_part_[slab_begin_[r]..slab_begin_[r+1]).
  struct SlabPart {
    int thread, slab_row;
  };
  std::vector<int64_t> slab_begin_;
  std::vector<SlabPart> slab_part_;
  std::vector<int> candidate_slab_row_;    // [candidates] slab row of the sender in the slab of the receiver's thread
  Buffer<int> edge_slab_row_;

  std::vector<std::unique_ptr<Buffer<R>>> feature_;    // fixed, rows and owned features
  std::vector<std::unique_ptr<Buffer<R>>> adjoint_;    // with kept values: adjoints of the storages rows and owned
  std::vector<AlignedVector<R>>
      fixed_result_;    // per linear layer with fixed input and other output: a row per species
  FeaturePieces<R> pieces_;
  Buffer<R> stage_scratch_;
  // Without kept values: adjoints of exchanged inputs. That of one stage is read while that of the stage before is
  // written.
  Buffer<R> exchanged_adjoint_[2];
  Buffer<D> energy_;

  bool values_are_kept_ = false;    // of the positions of the last evaluation
  Planes planes_ = VALUES;          // that the evaluation at hand is to compute
  std::vector<char> row_moves_;     // whether the input of the stage's convolution has tangents that are not 0
};

}    // namespace equi

#endif
