// SPDX-License-Identifier: MIT
// The numbers that a channel balance sums and changes.
#ifndef EQUI_BALANCED_ROWS_H
#define EQUI_BALANCED_ROWS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/numbers/dual.h"

#include <cstdint>

namespace equi {

// What a balance does with one number of one row. With w_i the weight of an atom, f_i^2, f_i or 1, and W = sum of w_j +
// epsilon:
//   forward   y_i = x_i + w_i a,  a = (target - sum x_j) / W
//   backward  x_adj_i = y_adj_i - m,  m = (sum w_j y_adj_j) / W,  and f_adj_i += (dw/df)_i a x_adj_i
// With hardnesses f_i, w_i = 1 / f_i and the numbers before the change are -w_i x_i:
//   forward   y_i = w_i (a - x_i),  a = (target + sum w_j x_j) / W
//   backward  x_adj_i = -w_i (y_adj_i - m),  f_adj_i += x_adj_i y_i
template <class T>
struct BalancedRows {
  using R = Real<T>;
  using D = DoubleOf<T>;
  int channels, num_terms;    // channels of the balance; number of sums of a row, forward or backward
  bool is_adjoint;
  int power;                                      // w = f^power: 2, 1, or -1 for hardnesses
  int64_t width, share_width;                     // numbers of a row
  Pointer<T> x, share, adjoint, share_adjoint;    // share: f; null if all weights are 1. Adjoints: backward only

  EQUI_FUNCTION D weight(int64_t row, int k) const {
    const D f = share ? static_cast<D>(share[row * share_width + k]) : D(1);
    return power < 0 ? D(1) / f : power == 1 ? f : f * f;
  }
  EQUI_FUNCTION D before(int64_t row, int k) const {
    const D number = static_cast<D>(x[row * width + k]);
    return power < 0 ? D(-1) * weight(row, k) * number : number;
  }
  // Term n that a row adds to the sums: numbers before the change or terms of w y_adj, then, in the forward pass, terms
  // of w, and with power 1 their magnitudes.
  EQUI_FUNCTION D term(int64_t row, int n) const {
    if (n >= 2 * channels) {
      const D w = weight(row, n - 2 * channels);
      return value_of(w) < 0.0 ? D(-1) * w : w;
    }
    if (n >= channels) return weight(row, n - channels);
    if (!is_adjoint) return before(row, n);
    return weight(row, n) * static_cast<D>(adjoint[row * width + n]);
  }
  // Changes channel k of a row, with a and m of this channel.
  EQUI_FUNCTION void change(int64_t row, int k, D a, D m) const {
    const int64_t at = row * width + k, share_at = row * share_width + k;
    if (!is_adjoint) {
      put(x, at, static_cast<T>(before(row, k) + weight(row, k) * a));
      return;
    }
    const D of_y = static_cast<D>(adjoint[at]) - m, of_x = power < 0 ? D(-1) * weight(row, k) * of_y : of_y;
    put(adjoint, at, static_cast<T>(of_x));
    if (!share) return;
    D factor = a;
    if (power < 0) factor = static_cast<D>(x[at]);
    if (power == 2) factor = D(2) * static_cast<D>(share[share_at]) * a;
    put(share_adjoint, share_at, static_cast<T>(static_cast<D>(share_adjoint[share_at]) + factor * of_x));
  }
};

// Changes the channels of rows, with a and m of all channels.
template <class T>
struct BalanceChange {
  BalancedRows<T> rows;
  const DoubleOf<T> *a, *m;

  template <int LANES>
  EQUI_FUNCTION void channels(int64_t row, int u) const {
    for (int k = u; k < u + LANES && k < rows.channels; k++) rows.change(row, k, a[k], m[k]);
  }
};

}    // namespace equi

#endif
