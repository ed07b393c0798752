// SPDX-License-Identifier: MIT
// The gate on rows in host memory.
#ifndef EQUI_HOST_GATE_H
#define EQUI_HOST_GATE_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/gate/gate_constants.h"

#include <tuple>
#include <utility>

namespace equi {

template <class T>
class HostGate {
  using R = Real<T>;

 public:
  explicit HostGate(GateConstants constants) : constants_(std::move(constants)) {}
  // direction: for duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
               int direction = 0) const;
  // Replaces z by its adjoint.
  void backward(const HostKernels<T> &kernels, int64_t count, FeatureRows<R> z, FeatureRows<const R> x_adj,
                int direction = 0) const;
  auto members() const { return std::tie(); }

 private:
  GateCall<T> call(const GateConstants::Term &t, int64_t count, FeatureRows<R> z, FeatureRows<R> x,
                   int direction) const;

  GateConstants constants_;
};

}    // namespace equi

#endif
