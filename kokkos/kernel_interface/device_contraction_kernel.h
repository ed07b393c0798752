// SPDX-License-Identifier: MIT
// The call of a device's kernel of a symmetric contraction: a batch of atoms, with one lane per atom and channel.
// Generated kernels and the generic one (device_contraction.cpp) take the same call.
#ifndef EQUI_DEVICE_CONTRACTION_KERNEL_H
#define EQUI_DEVICE_CONTRACTION_KERNEL_H

#include "kokkos/kernel_interface/path_group_kernel.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>
#include <string>

namespace equi {

// The call has to fit into a GPU's memory for constants.
constexpr int MAX_CONTRACTION_BLOCKS = 24;

// As ContractionFeature, in device memory; data at the batch's first row, and of duals the tangents behind it.
template <class T>
struct DeviceContractionFeature {
  Real<T> *data[MAX_CONTRACTION_BLOCKS];
  int64_t width[MAX_CONTRACTION_BLOCKS];
  int stride[MAX_CONTRACTION_BLOCKS];
  int tangents[MAX_CONTRACTION_BLOCKS];
};

template <class T>
struct DeviceContractionCall {
  int count, channels;    // atoms; padded channels
  // Forward reads x and writes out. Backward reads out, the cotangent, and replaces x by its adjoint.
  DeviceContractionFeature<T> x, out;
  // Per species [channel blocks][entries][CHANNEL_PAD]; species null: one for all. Or the table of a grid
  // (sphere_grid_tables.h), without entries.
  const Real<T> *coefficients;
  int num_entries;
  const int *species;    // [count]

  // Of a lane: entry e of its channel is number e * CHANNEL_PAD.
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

// The generated kernel of contraction `key`, null if there is none; there are none of duals.
template <class T>
const DeviceContractionKernel<T> *find_device_contraction(const std::string &key);

}    // namespace equi

#endif
