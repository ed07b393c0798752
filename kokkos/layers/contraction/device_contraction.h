// SPDX-License-Identifier: MIT
// A symmetric contraction or a node product of a model on a device. It does what contraction_op.h does on the host.
#ifndef EQUI_DEVICE_CONTRACTION_H
#define EQUI_DEVICE_CONTRACTION_H

#include "kokkos/kernel_interface/device_contraction_kernel.h"
#include "kokkos/layers/contraction/contraction_op.h"
#include "kokkos/runtime/device_exec.h"

#include <functional>
#include <string>

namespace equi {

template <class T>
class DeviceContraction {
  using R = Real<T>;

 public:
  // find(key): the kernel of a contraction, or null for the generic one. Throws std::invalid_argument for more blocks
  // or components than a kernel takes.
  using Finder = std::function<const DeviceContractionKernel<T> *(const std::string &key)>;
  DeviceContraction(const DeviceExec &exec, ContractionOp<T> op, const Finder &find = find_device_contraction<T>);

  // species [count] of the rows. Writes y.
  void forward(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y, const int *species) const;
  // x is replaced by its adjoint.
  void backward(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y_adj,
                const int *species) const;

  const ContractionOp<T> &host() const { return op_; }
  bool is_generic() const { return kernel_ == nullptr; }
  std::size_t bytes() const { return coefficients_.bytes() + nodes_.bytes() + outputs_.bytes() + place_.bytes(); }

  // Component of a feature: its block and its place in a row of the block's group, channel 0.
  struct Component {
    int block, place;
  };

 private:
  template <bool BACKWARD>
  void launch(const DeviceExec &exec, int count, const InputRows<R> &x, FeatureRows<R> y, const int *species) const;

  ContractionOp<T> op_;
  const DeviceContractionKernel<T> *kernel_;
  DeviceBuffer<R> coefficients_;
  // For the generic kernel.
  DeviceBuffer<ContractionNode> nodes_;
  DeviceBuffer<int> outputs_;
  DeviceBuffer<Component> place_;    // of the input's components, then of the output's
};

}    // namespace equi

#endif
