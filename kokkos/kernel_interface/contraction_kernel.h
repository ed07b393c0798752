// SPDX-License-Identifier: MIT
// The call of a kernel of a symmetric contraction, for the atoms of one species and one channel block. It is plain
// data, as in path_group_kernel.h.
#ifndef EQUI_CONTRACTION_KERNEL_H
#define EQUI_CONTRACTION_KERNEL_H

#include "src/numbers/dual.h"

#include <cstdint>

namespace equi {

// Rows of a feature: component m of block b in row r is at data[b] + r * width[b] + m * stride[b]; channels are
// adjacent. T: float, double or a Dual of them.
template <class T>
struct ContractionFeature {
  const Pointer<T> *data;
  const int64_t *width;
  const int *stride;
};

template <class T>
struct ContractionCall {
  int count;         // atoms
  const int *row;    // [count]
  // Forward reads x and writes out. Backward reads out, the cotangent, and replaces x by its adjoint.
  ContractionFeature<T> x, out;
  const Real<T> *coefficients;    // [entries][CHANNEL_PAD]; or the table of a grid (sphere_grid_tables.h)
};

template <class T>
struct ContractionKernel {
  const char *key;    // ContractionSchedule::key
  void (*forward)(const ContractionCall<T> &);
  void (*backward)(const ContractionCall<T> &);
};

}    // namespace equi

#endif
