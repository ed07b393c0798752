// SPDX-License-Identifier: MIT
// The equivariant linear layer on rows in host memory.
#ifndef EQUI_HOST_LINEAR_H
#define EQUI_HOST_LINEAR_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/linear/linear_constants.h"

#include <tuple>
#include <vector>

namespace equi {

// T: float or double, also for features of duals, because the same matrix transforms their tangents.
template <class T>
class HostLinear {
 public:
  // set: instruction set of the dense products.
  HostLinear(InstructionSet set, LinearConstants constants);

  bool per_species() const { return constants_.per_species; }
  // Scratch for `count` rows, in numbers of T.
  int64_t scratch_size(int64_t count) const { return constants_.per_species ? count * constants_.scratch_row : 0; }

  // y (+)= x W (+ b). species is read only if per_species(). Planes other than these are neither read nor written.
  // Work: HostKernels of T or of its duals; the products are those of the instruction set above.
  template <class Work>
  void forward(const Work &, int64_t count, FeatureRows<const T> x, FeatureRows<T> y, SpeciesOrder species, T *scratch,
               Planes planes = VALUES) const {
    apply(count, x, y, false, constants_.accumulate, species, scratch, planes);
    add_biases(count, y, planes);
  }
  // x_adj (+)= y_adj W^T
  template <class Work>
  void backward(const Work &, int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add,
                SpeciesOrder species, T *scratch, Planes planes = VALUES) const {
    apply(count, y_adj, x_adj, true, add, species, scratch, planes);
  }
  auto members() const { return std::tie(products_, bias_); }

 private:
  struct Product {
    std::vector<PackedMatrix<T>> weight, transposed;    // like LinearConstants::Product::weight
    auto members() const { return std::tie(weight, transposed); }
  };
  void apply(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add, SpeciesOrder species,
             T *scratch, Planes planes) const;
  void add_biases(int64_t count, FeatureRows<T> y, Planes planes) const;

  LinearConstants constants_;    // without the matrices
  std::vector<Product> products_;
  std::vector<std::vector<T>> bias_;
};

}    // namespace equi

#endif
