// SPDX-License-Identifier: MIT
// The features of senders as each edge reads them in an evaluation of energy moments.
//
// A feature x_i of atom i has the tangent t_i = sum over k of dx_i/dr_k . v_k and the moments
//   m_i = sum over k of (r_i - r_k) (dx_i/dr_k . v_k),
// where k counts all atoms and their images. Let a layer compute x_i' = f(x_i, {x_j, r_ij}) from edges
// r_ij = r_j - r_i. Because r_i - r_k = (r_i - r_j) + (r_j - r_k),
//   m_i' = df/dx_i m_i + sum over j of df/dx_j [m_j + (r_i - r_j) t_j] + sum over j of df/dr_ij (r_i - r_j) v_j.
// This is a tangent of f. The sender's tangent is the bracket, and the edge's is (r_i - r_j) v_j (EdgeArrays::set).
// The position r_i itself has none because r_i - r_i = 0. Positions enter only through the vectors of edges, so
// periodic images need no special case.
#ifndef EQUI_EDGE_ROWS_H
#define EQUI_EDGE_ROWS_H

#include "kokkos/layer_interface/feature_rows.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

// Factor of t_j in the bracket, by direction: 0 for t itself, (r_i - r_j)_c for m_c. The vector of the edge points
// from i to j.
template <class R, class G>
EQUI_FUNCTION R sender_factor(const G &distance, const G *unit, int direction) {
  return direction > 0 ? static_cast<R>(-value_of(distance) * value_of(unit[direction - 1])) : R(0);
}

// The planes of a feature are values, t and the three m. Rows for edges have all of them, or the values and the
// tangents along one direction.
constexpr int ALL_DIRECTIONS = -1;
// The plane of the feature that goes to this plane of the rows for edges.
EQUI_FUNCTION int plane_of_edge_row(int plane, int direction) {
  return plane > 0 && direction != ALL_DIRECTIONS ? 1 + direction : plane;
}
// A number of a row for an edge. x: that number in the plane of values of the feature. back: the factor of t, which
// applies to the m.
template <class R>
EQUI_FUNCTION R edge_row_number(const R *x, int channels, int plane, R back) {
  return plane > 1 ? x[plane * channels] + back * x[channels] : x[plane * channels];
}

// Copies row `row` of x to row `to_row` of `to`, as an edge reads it. Without an edge (distance null) all numbers are
// plain copies.
template <class R, class G>
void copy_edge_row(const FeatureLayout &layout, FeatureRows<const R> x, int64_t row, const G *distance, const G *unit,
                   int direction, const FeatureLayout &to_layout, FeatureRows<R> to, int64_t to_row) {
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g), &to_group = to_layout.group(g);
    const int channels = group.channels;
    const R *from = x.data + x.rows * group.offset + row * group.width();
    R *at = to.data + to.rows * to_group.offset + to_row * to_group.width();
    for (int m = 0; m < group.irrep.dim(); m++, from += group.stride())
      for (int p = 0; p < to_group.planes; p++, at += channels) {
        const int plane = plane_of_edge_row(p, direction);
        const R back = distance ? sender_factor<R>(*distance, unit, plane - 1) : R(0);
        for (int u = 0; u < channels; u++) at[u] = edge_row_number(from + u, channels, plane, back);
      }
  }
}

}    // namespace equi

#endif
