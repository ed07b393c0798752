// SPDX-License-Identifier: MIT
// The interface of layers that sum over all atoms of all ranks. They change a feature, or its adjoint, in place
// between two stages.
#ifndef EQUI_BALANCE_LAYER_H
#define EQUI_BALANCE_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
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

}    // namespace equi

#endif
