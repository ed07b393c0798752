// SPDX-License-Identifier: MIT
// The readout of rows in device memory.
#ifndef EQUI_DEVICE_READOUT_H
#define EQUI_DEVICE_READOUT_H

#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/runtime/device_exec.h"
#include "src/functions/network.h"

#include <tuple>
#include <vector>

namespace equi {

// energy[i] += scale[species[i]] network(x_i) in float64, and its gradient with respect to x_i.
template <class T>
class DeviceReadout {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  DeviceReadout(const DeviceExec &exec, const Network &network, const FeatureGroup &group, int channel);
  // direction: for duals, whose tangents are in plane 1 + direction. adjoint: [batch.count][num_inputs()].
  void forward(DeviceBatch<T> &batch, FeatureRows<R> x, const double *scale, T *adjoint, int direction) const;
  auto members() const { return std::tie(data_); }

 private:
  int total_width() const;
  // Per team: outputs, slopes and adjoints of all layers.
  std::size_t scratch_bytes() const { return 3 * sizeof(D) * total_width() + 64; }

  FeatureGroup group_;
  int channel_;
  std::vector<int> widths_;
  Activation activation_;
  double activation_scale_;
  DeviceBuffer<double> data_;             // per matrix: weights, then biases (zeros if it has none)
  std::vector<int64_t> weight_, bias_;    // offsets
};

}    // namespace equi

#endif
