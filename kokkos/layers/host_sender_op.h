// SPDX-License-Identifier: MIT
// What convolutions on the host have beside other layers: they read the features of senders, whose adjoints come from
// many receivers.
#ifndef EQUI_HOST_SENDER_OP_H
#define EQUI_HOST_SENDER_OP_H

#include "kokkos/layers/host_batch.h"
#include "kokkos/layers/layer_op.h"

namespace equi {

// In backward(), adjoints of senders go to batch.partial unless the step is gathering them.
template <class T, class G>
class HostSenderOp : public LayerOp<HostBatch<T, G>> {
 public:
  // The adjoint of the input in the rows of a batch, of senders, from the edges that point at them: `sums` has these
  // rows and is set. After backward of all receivers.
  virtual void gather(HostBatch<T, G> &senders, FeatureRows<Real<T>> sums) = 0;
  // Rows of a batch for gather().
  virtual int gather_size() const = 0;
  // Visits the buffers of a thread's scratch that the op needs for edges, of which there are so many, in a forward and
  // backward pass. Nothing if it is as good as nothing.
  virtual void for_edge_scratch(const HostStep<T, G> &, HostScratch<T, G> &, int64_t, const ArrayVisitor &) const {}
};

}    // namespace equi

#endif
