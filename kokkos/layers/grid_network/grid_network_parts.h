// SPDX-License-Identifier: MIT
// The matrices of a grid network in the memory layout of features, and the order in which it works, for hosts and
// devices. The first and the last matrix mix channels as they do at points, and are applied to components, of which
// there are fewer:
//   u = x W_first    z = to u    h = a(z + b)    ...    v = from^T h    y = v W_last + b_last (sum over points of from)
#ifndef EQUI_GRID_NETWORK_PARTS_H
#define EQUI_GRID_NETWORK_PARTS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/layers/grid_network.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace equi {

// The components of a feature's channels: those of block b begin with first[b].
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

// Widths are padded, with zeros in the matrices.
struct GridNetworkParts {
  FeatureComponents in, out;
  int num_points;
  Matrix to, from;                          // [points][components]
  Matrix first, last;                       // to the first hidden layer, and from the last one
  std::vector<Matrix> between;              // from a hidden layer to the next
  std::vector<std::vector<double>> bias;    // of each hidden layer, [width] or empty
  std::vector<double> last_bias;            // [components of the output][width], or empty
  Activation activation;
  double scale;

  GridNetworkParts(const GridNetwork &layer, const FeatureLayout &in_layout, const FeatureLayout &out_layout)
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
      if (!has_bias(network, k)) continue;
      bias.back() = network.biases[k];
      bias.back().resize(padded(network.weights[k].cols), 0.0);
    }
    if (!has_bias(network, hidden)) return;
    last_bias.resize(static_cast<size_t>(out.count) * last.cols, 0.0);
    for (int c = 0; c < out.count; c++) {
      double sum = 0.0;
      for (int q = 0; q < num_points; q++) sum += from(q, c);
      for (size_t u = 0; u < network.biases[hidden].size(); u++)
        last_bias[static_cast<size_t>(c) * last.cols + u] = sum * network.biases[hidden][u];
    }
  }

  int num_hidden() const { return static_cast<int>(bias.size()); }
  int width(int k) const { return k == 0 ? first.cols : between[k - 1].cols; }    // of hidden layer k
  int widest() const {
    int most = 0;
    for (int k = 0; k < num_hidden(); k++) most = std::max(most, width(k));
    return most;
  }
  // Numbers of an atom's components between the matrices.
  int64_t components_size() const { return std::max(int64_t(in.count) * first.cols, int64_t(out.count) * last.rows); }
  int64_t hidden_size() const {    // of all hidden layers of an atom
    int64_t sum = 0;
    for (int k = 0; k < num_hidden(); k++) sum += int64_t(num_points) * width(k);
    return sum;
  }

 private:
  static bool has_bias(const Network &network, size_t k) {
    return k < network.biases.size() && !network.biases[k].empty();
  }
  static Matrix with_zeros(const Matrix &m) {
    Matrix wide{padded(m.rows), padded(m.cols), {}};
    wide.data.resize(static_cast<size_t>(wide.rows) * wide.cols, 0.0);
    for (int i = 0; i < m.rows; i++)
      for (int j = 0; j < m.cols; j++) wide.data[static_cast<size_t>(i) * wide.cols + j] = m(i, j);
    return wide;
  }
};

// For the log.
inline std::string describe_grid_network(const GridNetwork &layer) {
  return "grid network: " + std::to_string(layer.network.weights.size()) + " matrices at " +
         std::to_string(layer.num_points()) + " points of the sphere";
}

}    // namespace equi

#endif
