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

#include "kokkos/layers/feature_rows.h"
#include "src/numbers/dual.h"

#include <algorithm>

namespace equi {

// Factor of t_j in the bracket, by direction: 0 for t itself, (r_i - r_j)_c for m_c. The vector of the edge points
// from i to j.
template <class R, class G>
R sender_factor(const G &distance, const G *unit, int direction) {
  return direction > 0 ? static_cast<R>(-value_of(distance) * value_of(unit[direction - 1])) : R(0);
}

// Copies row `row` of x to row `to_row` of `to`. The planes of x are values, t and the three m. With an edge, m gets
// r_i - r_j, the negative vector of the edge, times t. Without one (distance null) all planes are plain copies.
template <class R, class G>
void copy_edge_row(const FeatureLayout &layout, FeatureRows<const R> x, int64_t row, const G *distance, const G *unit,
                   FeatureRows<R> to, int64_t to_row) {
  for (const FeatureGroup &group : layout.groups()) {
    const int channels = group.channels;
    const R *from = x.data + x.rows * group.offset + row * group.width();
    R *at = to.data + to.rows * group.offset + to_row * group.width();
    if (!distance) {
      std::copy_n(from, group.width(), at);
      continue;
    }
    R back[3];
    for (int c = 0; c < 3; c++) back[c] = sender_factor<R>(*distance, unit, 1 + c);
    for (int m = 0; m < group.irrep.dim(); m++, from += group.stride(), at += group.stride()) {
      std::copy_n(from, 2 * channels, at);
      const R *t = from + channels;
      for (int c = 0; c < 3; c++)
        for (int u = 0; u < channels; u++) at[(2 + c) * channels + u] = from[(2 + c) * channels + u] + back[c] * t[u];
    }
  }
}

// The same for one plane of tangents, 1 + direction. The rows of `to` have two planes: values and this one.
template <class R, class G>
void copy_edge_row(const FeatureLayout &layout, FeatureRows<const R> x, int64_t row, const G *distance, const G *unit,
                   int direction, const FeatureLayout &to_layout, FeatureRows<R> to, int64_t to_row) {
  for (int g = 0; g < layout.num_groups(); g++) {
    const FeatureGroup &group = layout.group(g), &to_group = to_layout.group(g);
    const int channels = group.channels;
    const R *from = x.data + x.rows * group.offset + row * group.width();
    R *at = to.data + to.rows * to_group.offset + to_row * to_group.width();
    const R back = distance ? sender_factor<R>(*distance, unit, direction) : R(0);
    for (int m = 0; m < group.irrep.dim(); m++, from += group.stride(), at += to_group.stride()) {
      std::copy_n(from, channels, at);
      const R *t = from + channels, *tangent = from + (1 + direction) * channels;
      for (int u = 0; u < channels; u++) at[channels + u] = tangent[u] + back * t[u];
    }
  }
}

}    // namespace equi

#endif
