// SPDX-License-Identifier: MIT
// The geometry of edges on a CPU and their bins in radial tables, several edges side by side in float64. Plain
// functions on plain data, for all instruction sets (host_kernels.h).
#ifndef EQUI_EDGE_KERNELS_H
#define EQUI_EDGE_KERNELS_H

#include "kokkos/kernel_interface/harmonics.h"

#include <cstdint>

namespace equi {

constexpr int MAX_EDGE_LANES = 8;

// Arrays are [..][lanes], aligned to 64 bytes.
struct EdgeKernels {
  int lanes;    // edges side by side
  // Computes for vectors [3] their lengths, the unit vectors along them [3], which are 0 if the length is, and
  // harmonics y [(lmax+1)^2].
  void (*harmonics)(const HarmonicsNorms &norms, int lmax, const double *vector, double *length, double *unit,
                    double *y);
  // Computes the derivative with respect to the vector [3] from those with respect to harmonics [(lmax+1)^2]; slot 0
  // is for the length.
  void (*gradient)(const HarmonicsNorms &norms, int lmax, const double *length, const double *unit, const double *y_adj,
                   double *gradient);
  // to += from, n numbers.
  void (*add_float32)(int64_t n, const float *from, double *to);
};

// The pieces of the radial tables of a convolution (RadialTable), with numbers by [table][num_pieces]. A table with
// fewer pieces has additional ones beyond all distances.
struct TablePieces {
  int num_pieces, rows_per_bin;
  const double *begin, *bins_per_length;
  const double *first_row;    // row of the first bin
  const double *last_bin;     // its number in the piece
};

// Finds for edges the first row of their bin and RadialTable::BinPosition. R: float or double.
template <class R>
struct BinCall {
  TablePieces pieces;
  int64_t count;
  const double *distance;
  const int *table;    // null: all edges use the first one
  int *row;
  R *fraction, *bins_per_length;
};

}    // namespace equi

#endif
