// SPDX-License-Identifier: MIT
// Symmetric contractions and node products on rows in device memory. They do what host_contraction.h does on the
// host.
#ifndef EQUI_DEVICE_CONTRACTION_H
#define EQUI_DEVICE_CONTRACTION_H

#include "kokkos/kernel_interface/device_contraction_kernel.h"
#include "kokkos/layer_interface/input_rows.h"
#include "kokkos/layers/contraction/contraction_constants.h"
#include "kokkos/runtime/device_exec.h"

#include <functional>
#include <string>
#include <tuple>

namespace equi {

template <class T>
class DeviceContraction {
  using R = Real<T>;

 public:
  // find(key): the kernel of a contraction, or null for the generic one. Throws std::invalid_argument if a kernel
  // cannot read that many blocks, or if the generic kernel cannot hold that many components.
  using Finder = std::function<const DeviceContractionKernel<T> *(const std::string &key)>;
  DeviceContraction(const DeviceExec &exec, ContractionConstants<T> constants,
                    const Finder &find = find_device_contraction<T>);

  // Writes y. direction: for duals, whose tangents are in plane 1 + direction. The calls are those of
  // HostContraction, but need no scratch.
  void forward(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y, const SpeciesOrder &species, void *,
               int direction) const;
  // Replaces x by its adjoint.
  void backward(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y_adj, const SpeciesOrder &species,
                void *, int direction) const;
  std::size_t scratch_bytes(const DeviceExec &) const { return 0; }

  const ContractionConstants<T> &constants() const { return constants_; }
  bool is_generic() const { return kernel_ == nullptr; }
  auto members() const { return std::tie(coefficients_, nodes_, outputs_, place_, functions_); }

  // Component of a feature: its block and its place in a row of the block's group, channel 0.
  struct Component {
    int block, place;
  };

 private:
  template <bool BACKWARD>
  void launch(const DeviceExec &exec, const InputRows<R> &x, FeatureRows<R> y, const SpeciesOrder &species,
              int direction) const;

  ContractionConstants<T> constants_;
  const DeviceContractionKernel<T> *kernel_;
  DeviceBuffer<R> coefficients_;
  // For the generic kernel.
  DeviceBuffer<ContractionNode> nodes_;
  DeviceBuffer<int> outputs_;
  DeviceBuffer<Component> place_;    // places of the input's components, then of the output's
  struct DeviceFunction {
    DeviceBuffer<RingValue> values;
    DeviceBuffer<RingPart> parts;
    DeviceBuffer<CircleTerm> terms;
    auto members() const { return std::tie(values, parts, terms); }
  };
  DeviceFunction functions_[3];    // for a grid: the first factor, the second and the output
};

}    // namespace equi

#endif
