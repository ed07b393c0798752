// SPDX-License-Identifier: MIT
// Symmetric contractions and node products on rows in host memory.
#ifndef EQUI_HOST_CONTRACTION_H
#define EQUI_HOST_CONTRACTION_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/input_rows.h"
#include "kokkos/layers/contraction/contraction_constants.h"

#include <functional>
#include <tuple>
#include <vector>

namespace equi {

template <class T>
class HostContraction {
  using R = Real<T>;

 public:
  explicit HostContraction(ContractionConstants<T> constants);
  // Uses the kernel that the build or a library has for this instruction set.
  HostContraction(InstructionSet set, ContractionConstants<T> constants);

  // Uses the kernel that find(schedule) returns, or the generic one if it returns null. Until this call the kernel
  // is generic.
  void select_kernel(const std::function<const ContractionKernel<T> *(const ContractionSchedule &)> &find);

  const ContractionConstants<T> &constants() const { return constants_; }
  bool is_generic() const { return kernel_ == nullptr; }
  auto members() const { return std::tie(constants_); }
  // Bytes of scratch that a call needs, for any number of rows.
  std::size_t scratch_bytes(const HostKernels<T> &kernels) const;

  // Writes y. species: order of the rows; without per_species() all form one group. direction: for duals, whose
  // tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y, const SpeciesOrder &species,
               void *scratch, int direction = 0) const;
  // Replaces x by its adjoint.
  void backward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y_adj, const SpeciesOrder &species,
                void *scratch, int direction = 0) const;

 private:
  template <class F>
  void with_view(const F &f) const;
  template <class F>
  void for_channel_blocks(const InputRows<R> &x, FeatureRows<R> y, const SpeciesOrder &species, int direction,
                          const F &f) const;

  ContractionConstants<T> constants_;
  std::vector<int> in_stride_, out_stride_, in_dim_, out_dim_, in_channels_, out_channels_;    // per block
  std::vector<int64_t> in_width_, out_width_;
  const ContractionKernel<T> *kernel_ = nullptr;
};

}    // namespace equi

#endif
