// SPDX-License-Identifier: MIT
// The interface of convolutions on a device. They read the features of senders, whose adjoints come from many
// receivers, and work on edges.
#ifndef EQUI_DEVICE_SENDER_LAYER_H
#define EQUI_DEVICE_SENDER_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/device_batch.h"

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace equi {

template <class T>
class DeviceSenderLayer : public BatchLayer<DeviceBatch<T>> {
 public:
  // x_adj += contributions of the edges of these senders to the adjoint of the input. The senders' rows begin at
  // x_adj.first; the edges count receivers from the first row of a slice.
  virtual void gather(DeviceEvaluationState<T> &evaluation, const DeviceSenders &senders, int slice_first,
                      FeatureRows<Real<T>> x_adj) = 0;

  // Whether a pass over tangents only treats rigid edges separately (EdgePart).
  virtual bool divides_edges() const { return false; }

  // Numbers per edge that backward() can leave for gather(); without them gather() evaluates the edges again
  // (DeviceEvaluationState::sender_adjoints).
  virtual int64_t sender_adjoints_per_edge() const { return 0; }

  // Whether fused() can replace backward(), and gather() for receivers' own rows, if all edges between receivers
  // have their reverse edges.
  virtual bool can_fuse() const { return false; }
  bool is_fused(const DeviceEvaluationState<T> &evaluation) const {
    return evaluation.num_reversible > 0 && can_fuse();
  }
  // Does the work of backward() for these receivers, whose rows begin at x_adj.first, and adds what edges from them
  // contribute to x_adj. Called after all adjoints of the output are known.
  virtual void fused(DeviceEvaluationState<T> &, const DeviceBatchEdges &, FeatureRows<Real<T>>) {
    throw std::logic_error("a convolution whose backward pass and gather are two");
  }

  // Adds the search for the bins of all edges of an evaluation in the layer's tables, if it has any; the argument is
  // the number of edges. The layer keeps the bins, and reads them if DeviceEvaluationState::has_bins.
  virtual void add_search(int64_t, std::vector<DeviceStepSearch<T>> &) {}
  // Visits the arrays that the search needs for this number of edges.
  virtual void for_bins(int64_t, const ArrayVisitor &) {}

  // Visits the arrays of the scratch that batches of num_edges edges need.
  virtual void for_edge_scratch(DeviceEvaluationState<T> &evaluation, int64_t num_edges,
                                const ArrayVisitor &f) const = 0;
};

}    // namespace equi

#endif
