// SPDX-License-Identifier: MIT
// Conversion of features between the order of irreps.h, which tests use, and the memory of the kernels
// (kokkos/kernel_interface/feature_layout.h).
#ifndef EQUI_TEST_PACKED_FEATURE_H
#define EQUI_TEST_PACKED_FEATURE_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "kokkos/runtime/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// Rows of a feature in the order of irreps.h.
using Rows = std::vector<std::vector<double>>;

template <class T>
AlignedVector<T> nan_vector(std::size_t n) {
  return AlignedVector<T>(n, std::numeric_limits<T>::quiet_NaN());
}

// Position of component m of channel u of a block in row r of a plane of a feature with `rows` rows.
inline std::size_t packed_index(const FeatureLayout &layout, int64_t rows, int64_t r, int block, int u, int m,
                                int plane = 0) {
  const FeatureBlock &b = layout.block(block);
  const FeatureGroup &g = layout.group(b.group);
  return rows * g.offset + r * g.width() + m * g.stride() + plane * g.channels + b.channel + u;
}

// Padded channels are zero. planes: the rows of each.
template <class T>
AlignedVector<T> pack_planes(const Irreps &irreps, const std::vector<Rows> &planes) {
  const std::size_t rows = planes[0].size();
  const FeatureLayout layout(irreps, static_cast<int>(planes.size()));
  AlignedVector<T> packed(rows * layout.row_size(), T(0));
  for (std::size_t p = 0; p < planes.size(); ++p)
    for (std::size_t r = 0; r < rows; ++r)
      for (int b = 0; b < irreps.size(); ++b)
        for (int u = 0; u < irreps[b].mul; ++u)
          for (int m = 0; m < irreps[b].irrep.dim(); ++m)
            packed[packed_index(layout, rows, r, b, u, m, static_cast<int>(p))] =
                static_cast<T>(planes[p][r][irreps.offset(b) + u * irreps[b].irrep.dim() + m]);
  return packed;
}
template <class T>
AlignedVector<T> pack(const Irreps &irreps, const Rows &x) {
  return pack_planes<T>(irreps, {x});
}

template <class T>
Rows unpack_plane(const Irreps &irreps, const AlignedVector<T> &packed, std::size_t rows, int planes, int plane) {
  const FeatureLayout layout(irreps, planes);
  Rows x(rows, std::vector<double>(irreps.dim()));
  for (std::size_t r = 0; r < rows; ++r)
    for (int b = 0; b < irreps.size(); ++b)
      for (int u = 0; u < irreps[b].mul; ++u)
        for (int m = 0; m < irreps[b].irrep.dim(); ++m)
          x[r][irreps.offset(b) + u * irreps[b].irrep.dim() + m] =
              packed[packed_index(layout, rows, r, b, u, m, plane)];
  return x;
}
template <class T>
Rows unpack(const Irreps &irreps, const AlignedVector<T> &packed, std::size_t rows) {
  return unpack_plane<T>(irreps, packed, rows, 1, 0);
}

// Sum of the magnitudes of all padded channels; NaN if one of them is.
template <class T>
double padding(const Irreps &irreps, const AlignedVector<T> &packed, std::size_t rows) {
  const FeatureLayout layout(irreps);
  double sum = 0.0;
  for (std::size_t r = 0; r < rows; ++r)
    for (int b = 0; b < irreps.size(); ++b)
      for (int u = irreps[b].mul; u < padded(irreps[b].mul); ++u)
        for (int m = 0; m < irreps[b].irrep.dim(); ++m) {
          const double v = packed[packed_index(layout, rows, r, b, u, m)];
          sum += v < 0 ? -v : v;
        }
  return sum;
}

inline double largest(const Rows &rows) {
  double most = 0.0;
  for (const auto &row : rows)
    for (const double v : row) most = std::max(most, std::fabs(v));
  return most;
}

// relative: to the largest expected number.
inline void expect_near_relative(const Rows &found, const Rows &expected, double relative, const std::string &what) {
  const double tolerance = relative * largest(expected);
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t r = 0; r < found.size(); ++r)
    for (size_t k = 0; k < found[r].size(); ++k)
      ASSERT_NEAR(found[r][k], expected[r][k], tolerance) << what << ", row " << r << ", number " << k;
}

}    // namespace testing
}    // namespace equi

#endif
