// SPDX-License-Identifier: MIT
// The convolution of edge_convolution.h on a device, with the kernels of DevicePathGroups. This header needs neither
// Kokkos nor CUDA, so the files that use Torch can include it.
//
// The convolution is linear in x, in y and in w. Its double backward therefore consists of forward and backward
// passes with one argument replaced by its tangent. With H = <x', dL/dx> + <y', dL/dy> + <w', dL/dw> = L(g, x', y,
// w) + L(g, x, y', w) + L(g, x, y, w'), each derivative of H is the sum of the same derivative of these three.
#ifndef EQUI_DEVICE_EDGE_CONVOLUTION_H
#define EQUI_DEVICE_EDGE_CONVOLUTION_H

#include "kokkos/training/edge_convolution.h"

#include <cstddef>
#include <functional>
#include <memory>

namespace equi {

// The stream and the memory of a call.
struct DeviceWork {
  void *stream;    // a cudaStream_t; a host needs none
  // Returns device memory, aligned for any number, that nobody else writes until the work queued on the stream has
  // ended.
  std::function<void *(std::size_t bytes)> allocate;
};

// An EdgeList in device memory, and the numbers of its edges in the order of receivers and of senders, ascending for
// each node. by_sender is needed only for derivatives.
struct DeviceEdgeList {
  EdgeList edges;
  const int64_t *by_receiver, *by_sender;
};

template <class T>
struct DeviceEdgePathGroups;

// T: float or double. The functions are those of EdgeConvolution; all arrays are in device memory. They queue work
// on the stream and wait once, to check that all edges name existing rows. Results are reproducible to the last bit.
// Threads may call the functions at the same time.
template <class T>
class DeviceEdgeConvolution {
 public:
  // Kokkos must start before and end after this object. is_generated: if false, all path groups use the generic
  // kernel.
  explicit DeviceEdgeConvolution(const OperatorProduct &product, bool is_generated = true);
  ~DeviceEdgeConvolution();

  using Operand = typename EdgeConvolution<T>::Operand;
  void forward(const DeviceWork &work, const DeviceEdgeList &edges, const T *x, const T *y, const T *w, T *out) const;
  void backward(const DeviceWork &work, const DeviceEdgeList &edges, const T *x, const T *y, const T *w, const T *g,
                T *x_adj, T *y_adj, T *w_adj) const;
  void double_backward(const DeviceWork &work, const DeviceEdgeList &edges, Operand x, Operand y, Operand w, const T *g,
                       T *g_adj, T *x_adj, T *y_adj, T *w_adj) const;

  int num_generic_path_groups() const;

 private:
  std::unique_ptr<DeviceEdgePathGroups<T>> path_groups_;
};

}    // namespace equi

#endif
