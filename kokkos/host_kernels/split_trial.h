// SPDX-License-Identifier: MIT
// Compares products by matrix units with those by vector registers.
#ifndef EQUI_SPLIT_TRIAL_H
#define EQUI_SPLIT_TRIAL_H

#include "kokkos/host_kernels/host_kernels.h"

namespace equi {

// Results for one product of a middle size.
struct SplitTrial {
  double error, plain_error;        // largest difference from float64, divided by that of an average rounding
  double seconds, plain_seconds;    // shortest time of some
  // Units may be slow, for example in a virtual machine that emulates them.
  bool pays() const { return error <= 2 * plain_error && seconds < 0.9 * plain_seconds; }
};
SplitTrial try_split_products(const SplitKernels &split, const HostKernels<float> &plain);

}    // namespace equi

#endif
