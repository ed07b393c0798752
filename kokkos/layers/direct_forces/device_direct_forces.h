// SPDX-License-Identifier: MIT
// Vectors among the features of rows in device memory.
#ifndef EQUI_DEVICE_DIRECT_FORCES_H
#define EQUI_DEVICE_DIRECT_FORCES_H

#include "kokkos/layers/feature_rows.h"
#include "kokkos/runtime/device_exec.h"

namespace equi {

// to [count][3] = scale x, x the vectors (l = 1) in a channel of a group.
template <class R>
void write_vectors(const DeviceExec &exec, int64_t count, FeatureRows<const R> x, const FeatureGroup &group,
                   int channel, double scale, double *to);

}    // namespace equi

#endif
