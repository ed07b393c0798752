// SPDX-License-Identifier: MIT
// The matrices of a grid network in the memory layout of features, and the order of its operations, for hosts and
// devices. The first and the last matrix mix channels in the same way at all points. They are applied to components
// instead, which are fewer:
//   u = x W_first    z = to u    h = a(z + b)    ...    v = from^T h    y = v W_last + b_last (sum over points of
// from)
#ifndef EQUI_GRID_NETWORK_CONSTANTS_H
#define EQUI_GRID_NETWORK_CONSTANTS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/grid_network.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// The components of a feature's channels; block b begins at first[b].
struct FeatureComponents {
  FeatureLayout layout;
  std::vector<int> first;
  int count = 0;

  explicit FeatureComponents(const FeatureLayout &layout) : layout(layout) {
    for (int b = 0; b < layout.num_blocks(); b++) {
      first.push_back(count);
      count += group(b).irrep.dim();
    }
  }
  const FeatureGroup &group(int b) const { return layout.group(layout.block(b).group); }
  int dim(int b) const { return group(b).irrep.dim(); }
};

// Widths are padded; the matrices have zeros there.
struct GridNetworkConstants {
  FeatureComponents in, out;
  int num_points;
  Matrix to, from;                          // [points][components]
  Matrix first, last;                       // first: to the first hidden layer; last: from the last hidden layer
  std::vector<Matrix> between;              // from a hidden layer to the next
  std::vector<std::vector<double>> bias;    // bias of each hidden layer, [width] or empty
  std::vector<double> last_bias;            // [components of the output][width], or empty
  Activation activation;
  double scale;

  GridNetworkConstants(const GridNetwork &layer, const FeatureLayout &in_layout, const FeatureLayout &out_layout)
      : in(in_layout),
        out(out_layout),
        num_points(layer.num_points()),
        to(layer.to_points),
        from(layer.from_points),
        activation(layer.network.activation),
        scale(layer.network.activation_scale) {
    const Network &network = layer.network;
    const size_t hidden = network.weights.size() - 1;
    for (size_t k = 0; k <= hidden; k++) {
      Matrix wide = with_zeros(network.weights[k]);
      (k == 0 ? first : k == hidden ? last : between.emplace_back()) = std::move(wide);
    }
    for (size_t k = 0; k < hidden; k++) {
      bias.emplace_back();
      if (!network.has_bias(k)) continue;
      bias.back() = network.biases[k];
      bias.back().resize(padded(network.weights[k].cols), 0.0);
    }
    if (!network.has_bias(hidden)) return;
    last_bias.resize(static_cast<size_t>(out.count) * last.cols, 0.0);
    for (int c = 0; c < out.count; c++) {
      double sum = 0.0;
      for (int q = 0; q < num_points; q++) sum += from(q, c);
      for (size_t u = 0; u < network.biases[hidden].size(); u++)
        last_bias[static_cast<size_t>(c) * last.cols + u] = sum * network.biases[hidden][u];
    }
  }

  int num_hidden() const { return static_cast<int>(bias.size()); }
  int width(int k) const { return k == 0 ? first.cols : between[k - 1].cols; }    // width of hidden layer k
  int widest() const {
    int most = 0;
    for (int k = 0; k < num_hidden(); k++) most = std::max(most, width(k));
    return most;
  }

 private:
  static Matrix with_zeros(const Matrix &m) {
    Matrix wide{padded(m.rows), padded(m.cols), {}};
    wide.data.resize(static_cast<size_t>(wide.rows) * wide.cols, 0.0);
    for (int i = 0; i < m.rows; i++)
      for (int j = 0; j < m.cols; j++) wide.data[static_cast<size_t>(i) * wide.cols + j] = m(i, j);
    return wide;
  }
};

// Arrays for n atoms, [planes][...][width] each.
template <class R>
struct GridNetworkWork {
  int n;
  R *features;            // on devices
  R *components;          // between the matrices
  R *hidden;              // numbers of all hidden layers, before their activations
  R *values, *adjoint;    // those of one hidden layer
  R *rest;                // the arrays that follow
};

// Divides the scratch into these arrays, for a number of atoms that have about this many points.
class GridNetworkScratch {
 public:
  // features: size of an atom's features, or 0 if they are not copied.
  GridNetworkScratch(const GridNetworkConstants &constants, int planes, int points_at_a_time, int64_t features)
      : planes_(planes),
        most_atoms_(std::max(1, points_at_a_time / constants.num_points)),
        features_(features),
        components_(std::max(int64_t(constants.in.count) * constants.first.cols,
                             int64_t(constants.out.count) * constants.last.rows)),
        values_(int64_t(constants.num_points) * constants.widest()) {
    hidden_begin_.push_back(0);
    for (int k = 0; k < constants.num_hidden(); k++)
      hidden_begin_.push_back(hidden_begin_.back() + int64_t(constants.num_points) * constants.width(k));
  }

  int atoms_at_a_time(int64_t count) const { return static_cast<int>(std::min<int64_t>(count, most_atoms_)); }
  // Size of the scratch for a call with this many rows.
  int64_t size(int64_t count) const {
    return planes_ * atoms_at_a_time(count) * (features_ + components_ + hidden_begin_.back() + 2 * values_);
  }
  template <class R>
  GridNetworkWork<R> cut(R *scratch, int n) const {
    const auto take = [&](int64_t of_atom) {
      R *const array = scratch;
      scratch += planes_ * n * of_atom;
      return array;
    };
    R *const features = take(features_), *const components = take(components_),
             *const hidden = take(hidden_begin_.back()), *const values = take(values_), *const adjoint = take(values_);
    return {n, features, components, hidden, values, adjoint, scratch};
  }
  // Numbers of hidden layer k, before its activation.
  template <class R>
  R *hidden(const GridNetworkWork<R> &work, int k) const {
    return work.hidden + planes_ * work.n * hidden_begin_[k];
  }

 private:
  int planes_, most_atoms_;
  int64_t features_, components_, values_;    // numbers per atom
  std::vector<int64_t> hidden_begin_;         // numbers per atom of the hidden layers before each
};

// For the log.
inline std::string describe_grid_network(const GridNetwork &layer) {
  return "grid network: " + std::to_string(layer.network.weights.size()) + " matrices at " +
         std::to_string(layer.num_points()) + " points of the sphere";
}

}    // namespace equi

#endif
