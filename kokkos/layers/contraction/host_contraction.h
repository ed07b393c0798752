// SPDX-License-Identifier: MIT
// Polynomials of the channels of features, prepared for the host kernels: a symmetric contraction or a node product
// of a model. It has a tree with coefficients by species and channel block, or a grid.
#ifndef EQUI_HOST_CONTRACTION_H
#define EQUI_HOST_CONTRACTION_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/layers/input_rows.h"
#include "kokkos/runtime/buffer.h"
#include "src/generator/contraction_schedule.h"
#include "src/model/model.h"

#include <functional>
#include <string>
#include <vector>

namespace equi {

template <class T>
class HostContraction {
  using R = Real<T>;

 public:
  // in: layouts of the features that are read; their consecutive blocks are those of the product's input. form: form
  // of a Gaunt product.
  HostContraction(const ContractionProduct &product, const std::vector<FeatureLayout> &in, const FeatureLayout &out,
                  int num_species, GauntForm form = GauntForm::faster);

  // Uses the kernel that find(schedule) returns, or the generic one if it returns null. Until this call the kernel
  // is generic.
  void select_kernel(const std::function<const ContractionKernel<T> *(const ContractionSchedule &)> &find);

  const ContractionSchedule &schedule() const { return schedule_; }
  bool is_generic() const { return kernel_ == nullptr; }
  bool per_species() const { return coefficients_.size() > 1; }
  std::size_t bytes() const;
  // Bytes of scratch that a call needs, for any number of rows.
  std::size_t scratch_bytes(const HostKernels<T> &kernels) const;

  // Writes y. order: the rows of each species; without per_species() all rows form one group. direction: for duals,
  // whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y, SpeciesOrder order,
               void *scratch, int direction = 0) const;
  // Replaces x by its adjoint.
  void backward(const HostKernels<T> &kernels, const InputRows<R> &x, FeatureRows<R> y_adj, SpeciesOrder order,
                void *scratch, int direction = 0) const;

  // The constants that the layer on a device copies.
  const std::vector<FeatureLayout> &in() const { return in_; }
  int num_in() const { return static_cast<int>(in_dim_.size()); }    // blocks
  const FeatureLayout &out() const { return out_; }
  int channels() const { return channels_; }
  const std::vector<AlignedVector<R>> &coefficients() const { return coefficients_; }

  // "410 products to degree 3, 0.2 MB"; "a grid of 7 rings, 0.0 MB"
  std::string describe() const;

 private:
  template <class F>
  void with_view(const F &f) const;
  template <class F>
  void for_channel_blocks(const InputRows<R> &x, FeatureRows<R> y, SpeciesOrder order, int direction, const F &f) const;

  std::vector<FeatureLayout> in_;
  FeatureLayout out_;
  ContractionSchedule schedule_;
  int channels_;    // with padding
  // One vector, or one per species: [channel blocks][entries][CHANNEL_PAD]; or the table of a grid.
  std::vector<AlignedVector<R>> coefficients_;
  std::vector<int> in_stride_, out_stride_, in_dim_, out_dim_, in_channels_, out_channels_;    // per block
  std::vector<int64_t> in_width_, out_width_;
  const ContractionKernel<T> *kernel_ = nullptr;
};

}    // namespace equi

#endif
