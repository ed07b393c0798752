// SPDX-License-Identifier: MIT
// A batch of the evaluation on CPUs: a tile of receivers, which one thread computes.
#ifndef EQUI_HOST_BATCH_H
#define EQUI_HOST_BATCH_H

#include "kokkos/geometry/edges.h"
#include "kokkos/geometry/radial_set.h"
#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/feature_memory.h"
#include "kokkos/layer_interface/input_rows.h"
#include "kokkos/plan/evaluation_plan.h"
#include "kokkos/runtime/buffer.h"
#include "src/evaluation/evaluator.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace equi {

struct HostContext : LayerContext {
  InstructionSet set;
  InstructionSet target() const { return set; }
};

// The scratch of a thread while it works on a batch.
template <class T>
struct HostScratch {
  using R = Real<T>;
  Buffer<R> features, in_place, radial, weights, linear, bins_per_length, row, so2, edge_rows, sender_factor;
  Buffer<char> kernel;
  Buffer<int> table_row, order, receiver_row, function, moving_table_row;
  Buffer<int64_t> gather_begin;
  Buffer<DoubleOf<T>> gather_distance;
  Buffer<T> y_adj, gather_y, fraction, moving_fraction;

  auto members() const {
    return std::tie(features, in_place, radial, weights, linear, bins_per_length, row, so2, edge_rows, sender_factor,
                    kernel, table_row, order, receiver_row, function, moving_table_row, gather_begin, gather_distance,
                    y_adj, gather_y, fraction, moving_fraction);
  }
};

// The state of an evaluation, which all its batches share.
template <class T>
struct HostEvaluationState {
  using R = Real<T>;
  const HostKernels<T> &kernels;
  const EvaluationPlan &plan;
  FeatureMemory<R, Buffer<R>> &features;
  Edges<T> &edges;
  int num_species;
  bool is_gathering = false;    // whether adjoints of senders are gathered later, not scattered into partial ones

  int num_receivers = 0, num_rows = 0;
  const int *row_species = nullptr;    // [num_rows]
  const int *edge_partial_row =
      nullptr;                      // [edges] row of the sender in the partial adjoints of the receiver's thread
  DoubleOf<T> *energy = nullptr;    // [num_directions][num_receivers], added to
  bool energy_moments = false;      // EvaluatorOptions: each edge reads its own tangents of the sender (edge_rows.h)
  Planes planes = VALUES;           // planes that are computed
  bool has_backward = false;        // whether a backward pass follows the forward pass
  KeptOfEdges<R> kept = {};
  std::vector<char> row_moves =
      {};    // for passes over tangents only: whether any tangent of the exchanged input is not 0 in a row

  Edges<T> *far_edges = nullptr;    // edges within the largest far cutoff (LayerTraits), or null
  // [num_receivers][3] eV/Angstrom, for a model that predicts them; null: not requested
  double *direct_forces = nullptr;
  // [num_receivers][Model::num_observable_numbers()], added to; null: not requested
  double *observables = nullptr;
  // EvaluationRequest::observable_weights by receiver; null: 0
  const double *observable_weights = nullptr;

  auto members() const { return std::tie(row_moves); }
  const HostKernels<T> &work() const { return kernels; }
  bool tangents_alone() const { return planes.tangents_alone(); }
  int num_directions() const { return planes.num_directions(); }
  DoubleOf<T> *energy_of(int direction) const { return energy + static_cast<int64_t>(direction) * num_receivers; }
};

template <class T>
class HostBatch {
 public:
  using Number = T;
  using R = Real<T>;
  using Work = HostKernels<T>;    // the type that layers run on

  HostEvaluationState<T> &evaluation;
  HostScratch<T> &scratch;
  int first, count;
  const int *species;    // [count]
  const Step *step = nullptr;
  bool is_backward = false;                 // whether recomputed features are requested (EvaluationPlan)
  FeatureRows<R> partial{nullptr, 0, 0};    // adjoints of the exchanged input that this thread scatters

  FeatureRows<R> rows(int feature, bool adjoint = false) const {
    return evaluation.features.rows({first, count, scratch.features.data(), first, is_backward}, feature, adjoint);
  }
  const FeatureLayout &layout(int feature) const { return evaluation.plan.features[feature].layout; }
  // Whether a layer that reads this feature adds to its adjoint; else it is the first to write it.
  bool adds(int feature) const { return step->adds(feature); }

  // The numbers of the rows in the order of their species; without per_species all rows form one group.
  SpeciesOrder species_order(bool per_species) {
    const int num_species = per_species ? evaluation.num_species : 1;
    int *begin = scratch.order.reserve(num_species + 2 + count), *order = begin + num_species + 2;
    const auto key = [&](int row) { return per_species ? species[row] : 0; };
    std::fill_n(begin, num_species + 2, 0);
    for (int a = 0; a < count; a++) begin[key(a) + 2]++;
    for (int s = 0; s < num_species; s++) begin[s + 2] += begin[s + 1];
    for (int a = 0; a < count; a++) order[begin[key(a) + 1]++] = a;
    return {order, begin, species, count};
  }

  // The function of `set` for each edge of these rows, or of all rows starting at row `from`. Null if all edges have
  // the same.
  const int *functions(const RadialSet &set, int from) {
    const int *all = functions(set);
    return all ? all + (evaluation.edges.begin()[from] - evaluation.edges.begin()[first]) : nullptr;
  }
  const int *functions(const RadialSet &set) {
    if (set.has_one_table()) return nullptr;
    const int64_t *begin = evaluation.edges.begin() + first;
    int *function = scratch.function.reserve(begin[count] - begin[0]);
    for (int a = 0; a < count; a++)
      for (int64_t e = begin[a]; e < begin[a + 1]; e++)
        function[e - begin[0]] = set.table_index(species[a], evaluation.edges.sender_species()[e]);
    return function;
  }

  void zero_planes(const FeatureLayout &layout, FeatureRows<R> rows, Planes planes) const {
    set_to_zero(rows, layout, count, planes);
  }
  // Copies or adds rows of species, [species][row], to the rows of atoms.
  void copy_species_rows(const FeatureLayout &layout, const R *species_rows, FeatureRows<R> to, bool add) const {
    const FeatureRows<const R> from{species_rows, evaluation.num_species, 0};
    for (const FeatureGroup &group : layout.groups())
      for (int64_t a = 0; a < count; a++) {
        const R *f = from.group(group) + static_cast<int64_t>(species[a]) * group.width();
        R *t = to.group(group) + a * group.width();
        for (int c = 0; c < group.width(); c++) t[c] = add ? t[c] + f[c] : f[c];
      }
  }
  // Memory that layers use one after the other.
  R *layer_scratch(int64_t size) const { return scratch.linear.reserve(size); }

  void copy_planes(const FeatureLayout &layout, FeatureRows<R> from, FeatureRows<R> to, Planes planes) const {
    for (const FeatureGroup &group : layout.groups())
      for (int64_t a = 0; a < count; a++)
        group.for_numbers(planes, [&](int begin, int n) {
          std::copy_n(from.group(group) + a * group.width() + begin, n, to.group(group) + a * group.width() + begin);
        });
  }
  void add_planes(const FeatureLayout &layout, FeatureRows<R> from, FeatureRows<R> to, Planes planes) const {
    for (const FeatureGroup &group : layout.groups())
      for (int64_t a = 0; a < count; a++)
        group.for_numbers(planes, [&](int begin, int n) {
          for (int64_t k = a * group.width() + begin; k < a * group.width() + begin + n; k++)
            to.group(group)[k] += from.group(group)[k];
        });
  }
  // Calls replace_by_adjoints() of input_rows.h for one feature or two; the second may be -1, none.
  template <class F>
  void replace_by_adjoint(int feature, const F &f) {
    replace_by_adjoints({feature, -1}, [&](const InputRows<R> &x, int direction) { f(x[0], direction); });
  }
  template <class F>
  void replace_by_adjoints(const InputFeatures &features, const F &f) {
    equi::replace_by_adjoints(*this, features, scratch.in_place, f);
  }
};

}    // namespace equi

#endif
