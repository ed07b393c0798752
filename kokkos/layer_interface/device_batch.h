// SPDX-License-Identifier: MIT
// A batch of the evaluation on a device: the receivers of a launch.
#ifndef EQUI_DEVICE_BATCH_H
#define EQUI_DEVICE_BATCH_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_radial_bins.h"
#include "kokkos/geometry/device_radial_set.h"
#include "kokkos/kernel_interface/device_path_group.h"
#include "kokkos/layer_interface/device_rows.h"
#include "kokkos/layer_interface/feature_memory.h"
#include "kokkos/layer_interface/input_rows.h"
#include "kokkos/plan/evaluation_plan.h"
#include "kokkos/runtime/device_exec.h"

#include <tuple>
#include <vector>

namespace equi {

struct DeviceContext : LayerContext {
  const DeviceExec &exec;
  const DeviceExec &target() const { return exec; }
};

// Memory that SO(2) convolutions use for some edges at a time.
template <class T>
struct DeviceSo2Scratch {
  DeviceBuffer<int> rows;
  DeviceBuffer<T> numbers;            // rotations and other numbers stored once per edge
  DeviceBuffer<DoubleOf<T>> exact;    // rotations in float64, if T is not
  DeviceBuffer<Real<T>> work;         // features in the frames of edges
  auto members() const { return std::tie(rows, numbers, exact, work); }
};

// Memory for the rigid edges of a batch. R: the type of plain numbers.
template <class R>
struct DeviceRigidScratch {
  DeviceRadialBins<R> bins;
  DeviceBuffer<R> y, coupled, parts;
  auto members() const { return std::tie(bins, y, coupled, parts); }
};

// Memory that all convolutions share; it is filled for one batch at a time.
template <class T>
struct DeviceConvScratch {
  DeviceRadialBins<T> bins;
  DeviceBuffer<T> coupled, parts, y;    // y: harmonics of edges that are not adjacent
  // Harmonics of the batch's edges, row after row, as kernels read them.
  const T *harmonics = nullptr;
  const DeviceEdgeRecord<T> *records = nullptr;
  const Real<T> *bins_per_length = nullptr;
  DeviceRigidScratch<Real<T>> rigid;
  // Memory for exact radial functions.
  DeviceBuffer<int> table_row;
  DeviceBuffer<T> fraction;
  DeviceBuffer<Real<T>> exact_rows;
  // Memory for a network that reads atoms' features: rows of the two atoms of an edge, its scratch, weights and
  // their adjoints. Networks of SO(2) convolutions use it, too.
  DeviceBuffer<int> own_row, other_row;
  DeviceBuffer<Real<T>> network, weights, weights_adj;
  DeviceBuffer<Real<T>> edge_rows;    // what edges read in an evaluation of energy moments (device_edge_rows.h)
  DeviceRadialEdges<DoubleOf<T>> edges;
  DeviceSo2Scratch<T> so2;
  std::vector<T> host_fraction;
  std::vector<Real<T>> host_rows, host_bins;
  std::vector<int> host_table_row;
  auto members() const {    // in the device's memory
    return std::tie(bins, coupled, parts, y, rigid, table_row, fraction, exact_rows, own_row, other_row, network,
                    weights, weights_adj, edge_rows, edges, so2);
  }
};

// The state of an evaluation, which all its batches share.
template <class T>
struct DeviceEvaluationState {
  using R = Real<T>;
  const EvaluationPlan &plan;
  FeatureMemory<R, DeviceBuffer<R>> &features;
  DeviceEdges<T> &edges;
  int num_species;

  DeviceExec exec = {};
  int num_rows = 0, num_receivers = 0;
  // Number of receivers if each edge between two of them has its reverse; else 0. If it is not 0, backward and
  // gather can be one pass (the fused pass of device kernels).
  int num_reversible = 0;
  const int *row_species = nullptr;    // [num_rows] device memory
  DoubleOf<T> *energy = nullptr;       // [directions][receivers] device memory, added to
  Planes planes = VALUES;              // planes that are computed
  bool has_backward = false;           // whether a backward pass follows the forward pass
  // Adjoints of a stage's senders by edge (DeviceSenderLayer::sender_adjoints_per_edge); null: not kept.
  R *sender_adjoints = nullptr;
  KeptOfEdges<R> kept = {};
  DeviceEdges<T> *far_edges = nullptr;    // edges within the largest far cutoff (LayerTraits), or null
  // Whether the convolutions know the bin of each edge in their tables (DeviceSenderLayer::add_search).
  bool has_bins = false;
  bool energy_moments = false;    // EvaluatorOptions: each edge reads its own tangents of the sender (edge_rows.h)
  // [num_receivers][3] in device memory, eV/Angstrom, for a model that predicts them; null: not requested
  double *direct_forces = nullptr;
  // [num_receivers][Model::num_observable_numbers()] in device memory, added to; null: not requested
  double *observables = nullptr;
  const double *observable_weights = nullptr;    // as those of HostEvaluationState
  DeviceBuffer<R> in_place = {};
  DeviceBuffer<R> layer_scratch = {};    // shared by layers that run one after the other, BatchLayer::scratch_size
  DeviceConvScratch<T> scratch = {};

  auto members() const { return std::tie(in_place, layer_scratch, scratch); }
  const DeviceExec &work() const { return exec; }
  bool tangents_alone() const { return planes.tangents_alone(); }
  int num_directions() const { return planes.num_directions(); }
  DoubleOf<T> *energy_of(int direction) const { return energy + static_cast<int64_t>(direction) * num_receivers; }
};

template <class T>
class DeviceBatch {
 public:
  using Number = T;
  using R = Real<T>;
  using Work = DeviceExec;    // the type that layers run on

  DeviceEvaluationState<T> &evaluation;
  int first, count;
  const int *species;                  // [count] device memory
  const int *order, *species_begin;    // SpeciesOrder
  R *features = nullptr;               // features with storage batch
  int cut = 0;                         // cut of DeviceEdges at which the batch begins; it ends at the next one
  int64_t stage_first = 0;             // first row in the slice
  int exchanged_input = -1;            // exchanged input of the stage, or -1
  const Step *step = nullptr;
  bool is_backward = false;    // whether recomputed features are requested (EvaluationPlan)

  FeatureRows<R> rows(int feature, bool adjoint = false) const {
    return evaluation.features.rows({first, count, features, stage_first, is_backward}, feature, adjoint);
  }
  const FeatureLayout &layout(int feature) const { return evaluation.plan.features[feature].layout; }
  // Adjoints of the exchanged input begin with the sums gathered for earlier slices.
  bool adds(int feature) const {
    return step->adds(feature) || evaluation.plan.features[feature].memory == exchanged_input;
  }
  DeviceBatchEdges edges(bool by_species = false, EdgePart part = EdgePart::all) const {
    return evaluation.edges.receivers(cut, first, count, by_species, part);
  }

  SpeciesOrder species_order(bool) const { return {order, species_begin, species, count}; }

  void zero_planes(const FeatureLayout &layout, FeatureRows<R> rows, Planes planes) const {
    equi::zero_planes(evaluation.exec, count, layout, planes, rows);
  }
  // Copies or adds rows of species, [species][row], to the rows of atoms.
  void copy_species_rows(const FeatureLayout &layout, const R *species_rows, FeatureRows<R> to, bool add) const {
    equi::copy_species_rows<R>(evaluation.exec, count, layout, {species_rows, evaluation.num_species, 0}, species, to,
                               add);
  }
  // Memory that layers use one after the other.
  R *layer_scratch(int64_t size) const { return evaluation.layer_scratch.reserve(size); }

  void copy_planes(const FeatureLayout &layout, FeatureRows<const R> from, FeatureRows<R> to, Planes planes) const {
    equi::copy_planes(evaluation.exec, count, layout, planes, from, to);
  }
  void add_planes(const FeatureLayout &layout, FeatureRows<const R> from, FeatureRows<R> to, Planes planes) const {
    equi::add_planes(evaluation.exec, count, layout, planes, from, to);
  }
  // Calls replace_by_adjoints() of input_rows.h for one feature or two; the second may be -1, none.
  template <class F>
  void replace_by_adjoint(int feature, const F &f) {
    replace_by_adjoints({feature, -1}, [&](const InputRows<R> &x, int direction) { f(x[0], direction); });
  }
  template <class F>
  void replace_by_adjoints(const InputFeatures &features, const F &f) {
    equi::replace_by_adjoints(*this, features, evaluation.in_place, f);
  }
};

}    // namespace equi

#endif
