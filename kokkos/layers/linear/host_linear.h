// SPDX-License-Identifier: MIT
// The equivariant linear layer: its matrices, and forward and backward on rows in host memory.
#ifndef EQUI_HOST_LINEAR_H
#define EQUI_HOST_LINEAR_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layers/feature_rows.h"
#include "src/model/model.h"

#include <vector>

namespace equi {

// y = x W + b between groups of equal irreps; one matrix per pair of groups, padded with zeros, folded over blocks. T:
// float or double, also for features of duals, whose tangents the same matrix transforms.
template <class T>
class HostLinear {
 public:
  // set: whose products are taken.
  HostLinear(const Linear &linear, const FeatureLayout &in, const FeatureLayout &out, int num_species,
             InstructionSet set = best_instruction_set());

  bool per_species() const { return per_species_; }
  // Numbers of T of scratch that a tile of `count` rows needs.
  int64_t scratch_size(int64_t count) const { return per_species_ ? count * scratch_row_ : 0; }

  // y (+)= x W (+ b). species is read only if per_species(). Other planes than these are neither read nor written.
  void forward(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, SpeciesOrder species, T *scratch,
               Planes planes = VALUES) const;
  // x_adj (+)= y_adj W^T
  void backward(int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add, SpeciesOrder species,
                T *scratch, Planes planes = VALUES) const;

  struct Product {
    int in, out;                                // groups
    bool first_in, first_out;                   // no earlier product has this group on this side
    std::vector<PackedMatrix<T>> weight;        // one, or one per species: [channels in, channels out]
    std::vector<PackedMatrix<T>> transposed;    // the same as [channels out, channels in]
  };
  // The constants that the layer on a device copies.
  const std::vector<Product> &products() const { return products_; }
  const std::vector<std::vector<T>> &bias() const { return bias_; }
  const FeatureLayout &in() const { return in_; }
  const FeatureLayout &out() const { return out_; }
  bool accumulate() const { return accumulate_; }

 private:
  void apply(int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add, SpeciesOrder species,
             T *scratch, Planes planes) const;

  FeatureLayout in_, out_;
  bool per_species_, accumulate_;
  int num_species_;
  int64_t scratch_row_ = 0;
  std::vector<Product> products_;
  std::vector<int> unread_, unwritten_;    // groups of the input and of the output without a product
  std::vector<std::vector<T>> bias_;       // per output group: empty or [channels]
};

}    // namespace equi

#endif
