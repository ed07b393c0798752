// SPDX-License-Identifier: MIT
// The call of a device kernel of a symmetric contraction, for a batch of atoms with one lane per atom and channel.
// Generated kernels and the generic one (device_contraction.cpp) have the same call.
#ifndef EQUI_DEVICE_CONTRACTION_KERNEL_H
#define EQUI_DEVICE_CONTRACTION_KERNEL_H

#include "kokkos/kernel_interface/path_group_kernel.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>
#include <string>

namespace equi {

// The call must fit into a GPU's constant memory.
constexpr int MAX_CONTRACTION_BLOCKS = 24;

// Like ContractionFeature, in device memory. data points to the batch's first row; for duals, the tangents follow.
template <class T>
struct DeviceContractionFeature {
  Real<T> *data[MAX_CONTRACTION_BLOCKS];
  int64_t width[MAX_CONTRACTION_BLOCKS];
  int stride[MAX_CONTRACTION_BLOCKS];
  int tangents[MAX_CONTRACTION_BLOCKS];
};

template <class T>
struct DeviceContractionCall {
  int count, channels;    // atoms; channels with padding
  // Forward reads x and writes out. Backward reads out, the cotangent, and replaces x by its adjoint.
  DeviceContractionFeature<T> x, out;
  // [channel blocks][entries][CHANNEL_PAD] per species; species null: the same for all. For a grid: its table
  // (sphere_grid_tables.h), without entries.
  const Real<T> *coefficients;
  int num_entries;
  const int *species;    // [count]

  // For a lane: entry e of its channel is number e * CHANNEL_PAD.
  KOKKOS_FUNCTION const Real<T> *coefficients_of(int64_t row, int channel) const {
    const int64_t set = species ? species[row] : 0;
    return coefficients + (set * channels + channel / CHANNEL_PAD * CHANNEL_PAD) * num_entries + channel % CHANNEL_PAD;
  }
};

template <class T>
struct DeviceContractionKernel {
  const char *key;    // ContractionSchedule::key
  void (*forward)(const DeviceExec &, const DeviceContractionCall<T> &);
  void (*backward)(const DeviceExec &, const DeviceContractionCall<T> &);
};

// The generated kernel of contraction `key`, or null if it does not exist. No kernels are generated for duals.
template <class T>
const DeviceContractionKernel<T> *find_device_contraction(const std::string &key);

}    // namespace equi

#endif
