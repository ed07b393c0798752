// SPDX-License-Identifier: MIT
// The grid network of rows in host memory, some atoms at a time. Sums over components and over points are also dense
// products, with the features of an atom as the matrix. The backward pass evaluates the hidden layers again.
#ifndef EQUI_HOST_GRID_NETWORK_H
#define EQUI_HOST_GRID_NETWORK_H

#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/grid_network/grid_network_constants.h"
#include "kokkos/runtime/buffer.h"

#include <tuple>
#include <vector>

namespace equi {

template <class T>
class HostGridNetwork {
  using R = Real<T>;

 public:
  // set: instruction set of the dense products.
  HostGridNetwork(InstructionSet set, const GridNetworkConstants &constants);

  // Size of the scratch for a call with this many rows; the scratch is aligned to ALIGNMENT.
  int64_t scratch_size(int count) const { return scratch_.size(count) + packed_size_; }
  // direction: for duals, whose tangents are in plane 1 + direction.
  void forward(const HostKernels<T> &kernels, int count, FeatureRows<const R> x, FeatureRows<R> y, R *scratch,
               int direction) const;
  // Replaces x by its adjoint.
  void backward(const HostKernels<T> &kernels, int count, FeatureRows<R> x, FeatureRows<const R> y_adj, R *scratch,
                int direction) const;
  auto members() const {
    return std::tie(to_, from_, to_transposed_, from_transposed_, first_, first_transposed_, last_, last_transposed_,
                    between_, between_transposed_, bias_, last_bias_);
  }

 private:
  // Components are stored block after block, [block][atom][component]. In all other arrays the rows of an atom form
  // a matrix of a product.
  using Work = GridNetworkWork<R>;

  // Convert between a feature and the components of its atoms first .. first + n - 1.
  void read(const PackedMatrix<R> &w, const FeatureComponents &components, FeatureRows<const R> x, int first,
            int direction, const Work &work) const;
  void write(const PackedMatrix<R> &w, const FeatureComponents &components, FeatureRows<R> y, int first, int direction,
             const Work &work) const;
  // Convert between components and points; matrix: [points][components], or [components][points].
  void to_points(const HostKernels<T> &kernels, const AlignedVector<R> &matrix, const FeatureComponents &components,
                 int width, const Work &work, R *values) const;
  void to_components(const HostKernels<T> &kernels, const AlignedVector<R> &matrix, const FeatureComponents &components,
                     int width, const Work &work, const R *values) const;
  GateCall<T> activation(int k, const Work &work, R *h) const;
  // Evaluates the hidden layers, up to z of the last one.
  void evaluate(const HostKernels<T> &kernels, FeatureRows<const R> x, int first, int direction,
                const Work &work) const;

  FeatureComponents in_, out_;
  int num_points_;
  GridNetworkScratch scratch_;
  int64_t packed_size_;
  Activation activation_;
  R scale_;
  AlignedVector<R> to_, from_, to_transposed_, from_transposed_;
  PackedMatrix<R> first_, first_transposed_, last_, last_transposed_;
  std::vector<PackedMatrix<R>> between_, between_transposed_;
  std::vector<int> width_;                // widths of hidden layers
  std::vector<AlignedVector<R>> bias_;    // biases of hidden layers
  AlignedVector<R> last_bias_;
};

}    // namespace equi

#endif
