// SPDX-License-Identifier: MIT
// Layers that act on each atom alone: linear and gate, forward and backward, on the rows of a tile.
#ifndef EQUI_NODE_OPS_H
#define EQUI_NODE_OPS_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/runtime/buffer.h"
#include "src/model/model.h"

#include <algorithm>
#include <vector>

namespace equi {

// Rows first .. first + count - 1 of a feature that has `rows` rows at data (feature_layout.h).
template <class T>
struct FeatureRows {
  T *data;
  int64_t rows, first;
  T *group(const FeatureGroup &g) const { return data + rows * g.offset + first * g.width(); }
  operator FeatureRows<const T>() const { return {data, rows, first}; }
};

// Sets the planes of a group to 0 in `count` rows.
template <class T>
void set_to_zero(FeatureRows<T> rows, const FeatureGroup &group, int64_t count, Planes planes) {
  for (int64_t r = 0; r < count; r++)
    group.for_numbers(planes,
                      [&](int first, int n) { std::fill_n(rows.group(group) + r * group.width() + first, n, T(0)); });
}
template <class T>
void set_to_zero(FeatureRows<T> rows, const FeatureLayout &layout, int64_t count, Planes planes) {
  for (int g = 0; g < layout.num_groups(); g++) set_to_zero(rows, layout.group(g), count, planes);
}

// Which rows of a tile belong to which species: rows order[begin[s]] .. order[begin[s+1]-1].
struct SpeciesOrder {
  const int *order;
  const int *begin;
};

// y = x W + b between groups of equal irreps; one matrix per pair of groups, padded with zeros, folded over blocks. T:
// float or double, also for features of duals, whose tangents the same matrix transforms.
template <class T>
class LinearOp {
 public:
  LinearOp(const Linear &linear, const FeatureLayout &in, const FeatureLayout &out, int num_species);

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
    int in, out;                                 // groups
    bool first_in, first_out;                    // no earlier product has this group on this side
    std::vector<AlignedVector<T>> weight;        // one, or one per species: [channels in, channels out]
    std::vector<AlignedVector<T>> transposed;    // the same as [channels out, channels in]
  };
  // What a device's copy of the layer is made of.
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

// x = c a(z) for scalars, x[m] = z[m] c a(gate) for gated blocks.
template <class T>
class GateOp {
  using R = Real<T>;

 public:
  GateOp(const Gate &gate, const FeatureLayout &in, const FeatureLayout &out);
  // direction: of duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, int64_t count, FeatureRows<const R> z, FeatureRows<R> x,
               int direction = 0) const;
  // z is replaced by its adjoint.
  void backward(const HostKernels<T> &kernels, int64_t count, FeatureRows<const R> x_adj, FeatureRows<R> z,
                int direction = 0) const;

  struct Term {
    int in, out, gate;    // groups; gate = -1 for scalars
    int in_channel, out_channel, gate_channel, mul;
    Activation activation;
    R scale;
  };
  // Channels of the input that no term reads have a zero adjoint: [group, first, end).
  struct Unread {
    int group, first, end;
  };
  // What a device's copy of the layer is made of.
  const std::vector<Term> &terms() const { return terms_; }
  const std::vector<Unread> &unread() const { return unread_; }
  const FeatureLayout &in() const { return in_; }
  const FeatureLayout &out() const { return out_; }

 private:
  GateCall<T> call(const Term &t, int64_t count, FeatureRows<R> z, FeatureRows<R> x, int direction) const;

  FeatureLayout in_, out_;
  std::vector<Term> terms_;
  std::vector<Unread> unread_;
};

}    // namespace equi

#endif
