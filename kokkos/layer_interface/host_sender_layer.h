// SPDX-License-Identifier: MIT
// The interface of convolutions on the host. They read the features of senders, whose adjoints come from many
// receivers.
#ifndef EQUI_HOST_SENDER_LAYER_H
#define EQUI_HOST_SENDER_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/host_batch.h"

namespace equi {

// backward() adds adjoints of senders to batch.partial unless the evaluation gathers them.
template <class T>
class HostSenderLayer : public BatchLayer<HostBatch<T>> {
 public:
  // Computes the adjoint of the input in the rows of a batch of senders, from the edges that point at them. `sums`
  // has these rows and is overwritten. Called after backward of all receivers.
  virtual void gather(HostBatch<T> &senders, FeatureRows<Real<T>> sums) = 0;
  // Number of rows in a batch for gather().
  virtual int gather_size() const = 0;
  // Visits the buffers of a thread's scratch that the layer needs for this number of edges, in a forward and a
  // backward pass. It visits none if they are negligible.
  virtual void for_edge_scratch(const HostEvaluationState<T> &, HostScratch<T> &, int64_t, const ArrayVisitor &) const {
  }
};

}    // namespace equi

#endif
