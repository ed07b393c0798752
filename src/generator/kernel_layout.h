// SPDX-License-Identifier: MIT
// The constants of the memory layout that the generator, the kernels and their callers share. A library of kernels is
// compiled with them: a change of one raises PATH_GROUP_KERNEL_ABI.
#ifndef EQUI_KERNEL_LAYOUT_H
#define EQUI_KERNEL_LAYOUT_H

namespace equi {

// Channels of a block are padded to a multiple of this, and radial weights come in channel blocks of as many.
constexpr int CHANNEL_PAD = 16;
// Coupled harmonics of so many edges lie side by side, so that they are computed by SIMD over edges. Sums over
// neighbors are made in blocks of as many: with a hundred neighbors this keeps float32 sums three times more accurate.
constexpr int EDGE_BLOCK = 16;
// Channels of the output whose weights lie side by side in the table of a uvw path.
constexpr int UVW_BLOCK = 4;
// Rows of a bin of a radial table, the coefficients of its polynomial: cubic, quintic, of degree 7.
constexpr int CUBIC_ROWS = 4, QUINTIC_ROWS = 6, SEPTIC_ROWS = 8;
// In float64 the kernels for CPUs read polynomials of degree 7 from fewer rows: the first coefficients as they are,
// then two of the others in a row, as float32: of so many channels side by side the first, then the second. Since
// polynomials are about the middle of their bin, rounding them costs little (SPLIT_TOLERANCE).
constexpr int FLOAT64_COEFFICIENTS = 4, SPLIT_CHANNELS = 8;
constexpr int SPLIT_ROWS = FLOAT64_COEFFICIENTS + (SEPTIC_ROWS - FLOAT64_COEFFICIENTS) / 2;

}    // namespace equi

#endif
