// SPDX-License-Identifier: MIT
// The equivariant linear layer on rows in host memory.
#ifndef EQUI_HOST_LINEAR_H
#define EQUI_HOST_LINEAR_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layers/feature_rows.h"
#include "kokkos/layers/linear/linear_constants.h"

#include <cstddef>
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
  void forward(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, SpeciesOrder species, T *scratch,
               Planes planes = VALUES) const;
  // x_adj (+)= y_adj W^T
  void backward(int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add, SpeciesOrder species,
                T *scratch, Planes planes = VALUES) const;
  // The same with the call of other row mathematics; the instruction set selects the products.
  template <class Work, class... Arguments>
  void forward(const Work &, int64_t count, FeatureRows<const T> x, Arguments... arguments) const {
    forward(count, x, arguments...);
  }
  template <class Work, class... Arguments>
  void backward(const Work &, int64_t count, FeatureRows<const T> y_adj, Arguments... arguments) const {
    backward(count, y_adj, arguments...);
  }
  std::size_t bytes() const;

 private:
  struct Product {
    std::vector<PackedMatrix<T>> weight, transposed;    // like LinearConstants::Product::weight
  };
  void apply(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add, SpeciesOrder species,
             T *scratch, Planes planes) const;

  LinearConstants constants_;    // without the matrices
  std::vector<Product> products_;
  std::vector<std::vector<T>> bias_;
};

}    // namespace equi

#endif
