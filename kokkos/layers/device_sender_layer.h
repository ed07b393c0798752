// SPDX-License-Identifier: MIT
// The interface of convolutions on a device: they read the features of senders, whose adjoints come from many
// receivers, and they work on edges.
#ifndef EQUI_DEVICE_SENDER_LAYER_H
#define EQUI_DEVICE_SENDER_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/device_batch.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace equi {

template <class T, class G>
class DeviceSenderLayer : public BatchLayer<DeviceBatch<T, G>> {
 public:
  // x_adj += what the edges of these senders, x_adj.first and the following, add to the adjoint of the input. The edges
  // count receivers from the first of a slice on.
  virtual void gather(DeviceEvaluationState<T, G> &evaluation, const DeviceSenders &senders, int slice_first,
                      FeatureRows<Real<T>> x_adj) = 0;

  // Whether a pass over tangents only treats rigid edges separately (EdgePart).
  virtual bool divides_edges() const { return false; }

  // Numbers of each edge that backward() would leave for gather(), which else evaluates the edges again
  // (DeviceEvaluationState::sender_adjoints).
  virtual int64_t kept_per_edge() const { return 0; }

  // Whether fused() takes the place of backward() and of gather() for receivers' own rows, where all edges between
  // receivers have their reverse ones.
  virtual bool can_fuse() const { return false; }
  bool is_fused(const DeviceEvaluationState<T, G> &evaluation) const {
    return evaluation.num_reversible > 0 && can_fuse();
  }
  // backward() for these receivers, x_adj.first and the following, and what edges from them add to x_adj, after all
  // adjoints of the output are known.
  virtual void fused(DeviceEvaluationState<T, G> &, const DeviceBatchEdges &, FeatureRows<Real<T>>) {
    throw std::logic_error("a convolution whose backward pass and gather are two");
  }

  // Adds the search for the bins of all edges of an evaluation, whose number is given, in the layer's tables, if it has
  // any. The layer keeps the bins, and reads them where DeviceEvaluationState::has_bins.
  virtual void add_search(int64_t, std::vector<DeviceStepSearch<T>> &) {}
  virtual std::size_t additional_bin_bytes(int64_t) const { return 0; }    // bytes that this will add

  // Bytes that batches of num_edges edges will add to the scratch.
  virtual std::size_t additional_scratch_bytes(const DeviceEvaluationState<T, G> &evaluation,
                                               int64_t num_edges) const = 0;
};

}    // namespace equi

#endif
