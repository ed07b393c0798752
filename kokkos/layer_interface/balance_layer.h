// SPDX-License-Identifier: MIT
// The interfaces of layers that sum over all atoms of all ranks between two stages. A balance changes a feature, or its
// adjoint, in place. A system sum computes what all atoms give to each, from the values that it reads.
#ifndef EQUI_BALANCE_LAYER_H
#define EQUI_BALANCE_LAYER_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/layer_interface/batch_layer.h"
#include "src/evaluation/evaluator.h"
#include "src/evaluation/ghost_exchange.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace equi {

template <class Batch>
class BalanceLayer : public BatchLayer<Batch> {
 public:
  using R = typename Batch::R;
  void forward(Batch &) override {}    // a batch does not have all atoms
  // x, adjoint: rows of all `count` receivers of this rank. If the adjoint replaces the values in memory, both are
  // the same. Collective.
  virtual void balance(const typename Batch::Work &work, FeatureRows<R> x, FeatureRows<R> adjoint, int count,
                       bool is_adjoint, GhostExchange &exchange) = 0;
};

// The atoms, and the results, of an evaluation. Its arrays are in host memory.
struct HostSystem {
  int64_t step;    // number of the evaluation, from 1 on: layers share what they compute from positions and cell
  const EvaluationRequest &request;
  const Neighborhood &neighborhood;
  EvaluationResult &result;
};

// The same with arrays in device memory. Sums add to the results, which begin with zeros.
template <class D>
struct DeviceSystem {
  int64_t step;    // as of HostSystem
  const PeriodicBox &box;
  const double (*cell_direction)[3];    // [3], as in EvaluationRequest
  const double *positions;              // [atoms][3]
  DeviceDirections directions;
  const double *image_shifts;    // [atoms][3], as in EvaluationRequest
  const int *receiver;           // [receivers] their atoms
  // Minus the forces on the receivers, [receivers][3]; null: not requested.
  D *gradient;
  // Virials as in EvaluationResult, with their tangents, which the host may read after a fence; null: not requested.
  D *virial;
  // Virials of the receivers, [receivers][6], in the order of EvaluationResult; null: not requested.
  double *atom_virial;
};

inline const PeriodicBox &box_of(const HostSystem &system) {
  return system.neighborhood.box;
}
template <class D>
const PeriodicBox &box_of(const DeviceSystem<D> &system) {
  return system.box;
}

template <class Batch>
using SystemOfStep = std::conditional_t<std::is_same_v<typename Batch::Work, DeviceExec>,
                                        DeviceSystem<DoubleOf<typename Batch::Number>>, HostSystem>;

// forward() and backward() of the batches use what sum_up() has computed for all receivers.
template <class Batch>
class SystemSumLayer : public BatchLayer<Batch> {
 public:
  using R = typename Batch::R;
  // x: rows of all `count` receivers of this rank. Adds its own part of forces and virials. Collective.
  virtual void sum_up(const typename Batch::Work &work, FeatureRows<const R> x, int count,
                      const SystemOfStep<Batch> &system, GhostExchange &exchange) = 0;
  // Bytes that a sum over this many receivers in a box adds to bytes().
  virtual std::size_t additional_bytes(const PeriodicBox &box, int count) const = 0;
  // For a layer that writes a feature, after the batches of the backward pass: adds to the adjoint of x, to forces and
  // to virials. Collective.
  virtual void sum_adjoint(const typename Batch::Work &, FeatureRows<R>, int, const SystemOfStep<Batch> &,
                           GhostExchange &) {}
};

}    // namespace equi

#endif
