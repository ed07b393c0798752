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
// Rows of a bin of a radial table, the coefficients of its polynomial: cubic, quintic, of degree 9.
constexpr int CUBIC_ROWS = 4, QUINTIC_ROWS = 6, NONIC_ROWS = 10;

}    // namespace equi

#endif
