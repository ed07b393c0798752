// SPDX-License-Identifier: MIT
// What convolutions on a device have beside other layers: they read the features of senders, whose adjoints come from
// many receivers, and they work on edges.
#ifndef EQUI_DEVICE_SENDER_OP_H
#define EQUI_DEVICE_SENDER_OP_H

#include "kokkos/layers/device_batch.h"
#include "kokkos/layers/layer_op.h"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace equi {

template <class T, class G>
class DeviceSenderOp : public LayerOp<DeviceBatch<T, G>> {
 public:
  // x_adj += what the edges of these senders, x_adj.first and the following, add to the adjoint of the input. The edges
  // count receivers from the first of a slice on.
  virtual void gather(DeviceStep<T, G> &step, const DeviceSenders &senders, int slice_first,
                      FeatureRows<Real<T>> x_adj) = 0;

  // Whether rigid edges are told from others where tangents alone are wanted (EdgePart).
  virtual bool divides_edges() const { return false; }

  // Numbers of each edge that backward() would leave for gather(), which else evaluates the edges again
  // (DeviceStep::sender_adjoints).
  virtual int64_t kept_per_edge() const { return 0; }

  // Whether fused() takes the place of backward() and of gather() for receivers' own rows, where all edges between
  // receivers have their reverse ones.
  virtual bool can_fuse() const { return false; }
  bool is_fused(const DeviceStep<T, G> &step) const { return step.num_reversible > 0 && can_fuse(); }
  // backward() for these receivers, x_adj.first and the following, and what edges from them add to x_adj, after all
  // adjoints of the output are known.
  virtual void fused(DeviceStep<T, G> &, const DeviceBatchEdges &, FeatureRows<Real<T>>) {
    throw std::logic_error("a convolution whose backward pass and gather are two");
  }

  // Adds the search for the bins of all edges of a step, whose number is given, in the op's tables, if it has some. The
  // op keeps what is found, and reads it where DeviceStep::has_bins.
  virtual void add_search(int64_t, std::vector<DeviceStepSearch<T>> &) {}
  virtual std::size_t bins_growth(int64_t) const { return 0; }    // bytes that this will add

  // Bytes that batches of num_edges edges will add to the scratch.
  virtual std::size_t scratch_growth(const DeviceStep<T, G> &step, int64_t num_edges) const = 0;
};

}    // namespace equi

#endif
