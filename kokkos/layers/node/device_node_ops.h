// SPDX-License-Identifier: MIT
// Layers that act on each atom alone, on a device: what node_ops.h does on the host, from the same constants.
#ifndef EQUI_DEVICE_NODE_OPS_H
#define EQUI_DEVICE_NODE_OPS_H

#include "kokkos/layers/node/node_ops.h"
#include "kokkos/runtime/device_exec.h"

#include <vector>

namespace equi {

// Which rows of a chunk belong to which species: rows order[begin[s]] .. order[begin[s+1]-1] of the chunk. order:
// device memory, begin: host memory.
struct DeviceSpeciesOrder {
  const int *order;
  const int *begin;
};

// The rows of FeatureRows are device memory throughout. T: float or double, also for features of duals, whose tangents
// the same matrix transforms.
template <class Exec, class T>
class DeviceLinear {
 public:
  DeviceLinear(const Exec &exec, const LinearOp<T> &op, int num_species);
  bool per_species() const { return per_species_; }
  // y (+)= x W (+ b)
  void forward(const Exec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y,
               const DeviceSpeciesOrder &species);
  // x_adj (+)= y_adj W^T
  void backward(const Exec &exec, int64_t count, FeatureRows<const T> y_adj, FeatureRows<T> x_adj, bool add,
                const DeviceSpeciesOrder &species);
  std::size_t bytes() const { return weight_.bytes() + bias_.bytes() + scratch_.bytes(); }

 private:
  struct Product {
    int in, out;                    // groups
    std::vector<int64_t> weight;    // offsets of one matrix, or of one per species
  };
  struct Bias {
    int group;
    int64_t offset;
  };
  void apply(const Exec &exec, int64_t count, FeatureRows<const T> x, FeatureRows<T> y, bool transpose, bool add,
             const DeviceSpeciesOrder &species);

  FeatureLayout in_, out_;
  bool per_species_, accumulate_;
  int num_species_;
  int64_t scratch_row_ = 0;
  std::vector<Product> products_;
  std::vector<Bias> biases_;
  DeviceBuffer<Exec, T> weight_, bias_, scratch_;
};

template <class Exec, class T>
class DeviceGate {
  using R = Real<T>;

 public:
  explicit DeviceGate(const GateOp<T> &op) : op_(op) {}
  void forward(const Exec &exec, int64_t count, FeatureRows<const R> z, FeatureRows<R> x) const;
  // z is replaced by its adjoint.
  void backward(const Exec &exec, int64_t count, FeatureRows<const R> x_adj, FeatureRows<R> z) const;

 private:
  GateOp<T> op_;
};

// energy[i] += scale[species[i]] network(x_i) in float64, and its gradient by x_i.
template <class Exec, class T>
class DeviceReadout {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  DeviceReadout(const Exec &exec, const Network &network, const FeatureGroup &group, int channel);
  int num_inputs() const { return widths_.front(); }
  // x: rows of the feature; adjoint [count][num_inputs()].
  void forward(const Exec &exec, int64_t count, FeatureRows<const R> x, const int *species, const double *scale,
               D *energy, T *adjoint) const;
  // x_adj += adjoint
  void backward(const Exec &exec, int64_t count, const T *adjoint, FeatureRows<R> x_adj) const;
  std::size_t bytes() const { return data_.bytes(); }

 private:
  FeatureGroup group_;
  int channel_;
  std::vector<int> widths_;
  Activation activation_;
  double activation_scale_;
  DeviceBuffer<Exec, double> data_;       // per matrix: weights, then biases (zeros if it has none)
  std::vector<int64_t> weight_, bias_;    // offsets
};

// Rows of `result` (one per species) copied or added to y.
template <class Exec, class T>
void copy_species_rows(const Exec &exec, int64_t count, const FeatureLayout &layout, FeatureRows<const T> result,
                       const int *species, FeatureRows<T> y, bool add);

// to[i] = value[species[i]]; D: double, or a Dual of it.
template <class Exec, class D>
void fill_by_species(const Exec &exec, int64_t count, const int *species, const double *value, D *to);

// What DeviceSpeciesOrder tells of each chunk; chunk k has the rows first_row[k] up to first_row[k+1], begin
// [chunks][num_species + 1], order [rows] by chunk. All in device memory.
template <class Exec>
void order_by_species(const Exec &exec, int num_chunks, const int *first_row, const int *species, int num_species,
                      int *begin, int *order);

}    // namespace equi

#endif
