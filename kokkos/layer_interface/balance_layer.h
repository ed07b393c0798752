// SPDX-License-Identifier: MIT
// The interfaces of layers that sum over all atoms of all ranks between two stages. A balance changes a feature, or its
// adjoint, in place. A system sum computes what all atoms give to each, from the values that it reads.
#ifndef EQUI_BALANCE_LAYER_H
#define EQUI_BALANCE_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "src/evaluation/evaluator.h"
#include "src/evaluation/ghost_exchange.h"

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
struct SystemOfStep {
  const EvaluationRequest &request;
  const Neighborhood &neighborhood;
  EvaluationResult &result;
};

// forward() and backward() of the batches use what sum_up() has computed for all receivers.
template <class Batch>
class SystemSumLayer : public BatchLayer<Batch> {
 public:
  using R = typename Batch::R;
  // x: rows of all `count` receivers of this rank. Adds its own part of forces and virials. Collective.
  virtual void sum_up(FeatureRows<const R> x, int count, const SystemOfStep &system, GhostExchange &exchange) = 0;
};

}    // namespace equi

#endif
