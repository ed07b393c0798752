// SPDX-License-Identifier: MIT
// The density normalization on rows in host memory.
#ifndef EQUI_HOST_DENSITY_H
#define EQUI_HOST_DENSITY_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/host_batch.h"
#include "kokkos/layers/density/density_constants.h"

#include <cstdint>
#include <tuple>
#include <utility>

namespace equi {

// T: float, double or a Dual of them.
template <class T>
class HostDensity {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostDensity(InstructionSet, DensityConstants constants) : constants_(std::move(constants)) {}

  // y = x / norm, norm [batch.count]. direction: for duals, whose tangents are in plane 1 + direction.
  void forward(HostBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y, D *norm, int direction) const;
  // Replaces x by its adjoint, and adds the derivatives with respect to the distances of the batch's edges.
  void backward(HostBatch<T> &batch, FeatureRows<R> x, FeatureRows<R> y_adj, const D *norm, int direction) const;

  const DensityConstants &constants() const { return constants_; }
  void for_batch_arrays(int64_t, int64_t, const ArrayVisitor &) {}
  auto members() const { return std::tie(constants_); }

 private:
  DensityConstants constants_;
};

}    // namespace equi

#endif
