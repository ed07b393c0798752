// SPDX-License-Identifier: MIT
// The equivariant linear layer on rows in device memory.
#ifndef EQUI_DEVICE_LINEAR_H
#define EQUI_DEVICE_LINEAR_H

#include "kokkos/layer_interface/device_rows.h"
#include "kokkos/layers/linear/linear_constants.h"
#include "kokkos/runtime/device_exec.h"

#include <tuple>
#include <vector>

namespace equi {

// The rows of FeatureRows are in device memory. T: float or double, also for features of duals, because the same
// matrix transforms their tangents. One product transforms all requested planes. Tangents have no bias.
template <class T>
class DeviceLinear {
 public:
  DeviceLinear(const DeviceExec &exec, const LinearConstants &constants);
  bool per_species() const { return per_species_; }
  // Scratch for `count` rows, in numbers of T.
  int64_t scratch_size(int64_t count) const { return count * scratch_row_; }
  // y (+)= x W (+ b)
  void forward(const DeviceExec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
               const SpeciesOrder &species, T *scratch, Planes planes) const;
  // x_adj (+)= y_adj W^T
  void backward(const DeviceExec &exec, int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add,
                const SpeciesOrder &species, T *scratch, Planes planes) const;
  auto members() const { return std::tie(weight_, transposed_, bias_); }

 private:
  struct Product {
    int in, out;                    // groups
    std::vector<int64_t> weight;    // offsets of one matrix, or of one per species, also of its transpose
  };
  struct Bias {
    int group;
    int64_t offset;
  };
  void apply(const DeviceExec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add,
             const SpeciesOrder &species, T *scratch, Planes planes) const;

  FeatureLayout in_, out_;
  bool per_species_, accumulate_;
  int num_species_;
  int64_t scratch_row_;
  std::vector<Product> products_;
  std::vector<Bias> biases_;
  // Both are kept: cuBLAS multiplies by a matrix [in, out] 2 to 25 % faster than by one that it must transpose
  // (H200).
  DeviceBuffer<T> weight_, transposed_;
  DeviceBuffer<T> bias_;
};

}    // namespace equi

#endif
