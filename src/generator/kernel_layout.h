// SPDX-License-Identifier: MIT
// The constants of the memory layout that the generator, the kernels and their callers share. A library of kernels is
// compiled with them, so a change of one raises PATH_GROUP_KERNEL_ABI.
#ifndef EQUI_KERNEL_LAYOUT_H
#define EQUI_KERNEL_LAYOUT_H

namespace equi {

// Channels of a block are padded to a multiple of this number, which is also the size of a channel block of radial
// weights.
constexpr int CHANNEL_PAD = 16;
// Coupled harmonics of this number of edges are adjacent, so SIMD over edges computes them. Sums over neighbors are
// made in blocks of the same size. With a hundred neighbors this makes float32 sums three times more accurate.
constexpr int EDGE_BLOCK = 16;
// Channels of the output whose weights are adjacent in the table of a uvw path.
constexpr int UVW_BLOCK = 4;
// Rows of a bin of a radial table, which are the coefficients of its polynomial: cubic, quintic, of degree 7.
constexpr int CUBIC_ROWS = 4, QUINTIC_ROWS = 6, SEPTIC_ROWS = 8;
// In float64 the kernels for CPUs read polynomials of degree 7 from fewer rows. The first coefficients are stored as
// they are. Two of the others share a row, as float32: SPLIT_CHANNELS channels of the first, then the same of the
// second. Polynomials are about the middle of their bin, so rounding them costs little (SPLIT_TOLERANCE).
constexpr int FLOAT64_COEFFICIENTS = 4, SPLIT_CHANNELS = 8;
constexpr int SPLIT_ROWS = FLOAT64_COEFFICIENTS + (SEPTIC_ROWS - FLOAT64_COEFFICIENTS) / 2;

}    // namespace equi

#endif
