// SPDX-License-Identifier: MIT
// Tables of the functions of the distance that a network of edges begins with (src/functions/radial_expansion.h), for
// hosts and devices.
#ifndef EQUI_EDGE_TABLES_H
#define EQUI_EDGE_TABLES_H

#include "kokkos/geometry/radial_set.h"
#include "src/generator/kernel_layout.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace equi {

// The polynomials of all bins of a set's tables, one table after another. R: float or double.
template <class R>
struct EdgeTables {
  RadialSet set;                 // without rows
  std::vector<R> powers;         // [bin][coefficient][function]
  std::vector<int> first_bin;    // of each table

  explicit EdgeTables(RadialSet tables) : set(std::move(tables)) {
    const int64_t functions = set.num_outputs(), of_bin = set.num_coefficients() * functions;
    int bins = 0;
    for (int k = 0; k < set.num_functions(); k++) {
      first_bin.push_back(bins);
      bins += set.table(k).num_bins();
      powers.resize(bins * of_bin);
      R *const to = powers.data() + first_bin[k] * of_bin;
      set.for_polynomials(k, [&](int bin, int column, const double *p) {
        for (int n = 0; n < set.num_coefficients(); n++)
          to[bin * of_bin + n * functions + column] = static_cast<R>(p[n]);
      });
    }
    set.drop_rows();
  }
  std::size_t bytes() const { return powers.size() * sizeof(R); }
};

// The functions at an edge, from the polynomials of its bin.
template <class T>
struct EdgeTableRow {
  using R = Real<T>;
  const R *powers;     // of the bin
  int coefficients;    // of a polynomial
  int64_t functions;
  R fraction, per_length;    // of the bin, and its derivative by the distance
  R tangent;                 // of duals: of the distance

  // Writes function n and its derivative by the distance.
  EQUI_FUNCTION void set(int64_t n, Pointer<T> value, Pointer<T> slope) const {
    if (coefficients == CUBIC_ROWS)
      set_of<CUBIC_ROWS>(n, value, slope);
    else if (coefficients == QUINTIC_ROWS)
      set_of<QUINTIC_ROWS>(n, value, slope);
    else
      set_of<NONIC_ROWS>(n, value, slope);
  }
  // All of them, in loops that a compiler makes vectors of.
  void set_all(Pointer<T> values, Pointer<T> slopes) const {
    if (coefficients == CUBIC_ROWS)
      set_all_of<CUBIC_ROWS>(values, slopes);
    else if (coefficients == QUINTIC_ROWS)
      set_all_of<QUINTIC_ROWS>(values, slopes);
    else
      set_all_of<NONIC_ROWS>(values, slopes);
  }

 private:
  template <int ROWS>
  EQUI_FUNCTION void set_of(int64_t n, Pointer<T> value, Pointer<T> slope) const {
    R p = powers[(ROWS - 1) * functions + n], d1 = R(0), half_d2 = R(0);
    for (int k = ROWS - 2; k >= 0; k--) {
      half_d2 = half_d2 * fraction + d1;
      d1 = d1 * fraction + p;
      p = p * fraction + powers[k * functions + n];
    }
    d1 *= per_length;
    put(value, n, make_number<T>(p, d1 * tangent));
    put(slope, n, make_number<T>(d1, R(2) * half_d2 * per_length * per_length * tangent));
  }
  template <int ROWS>
  void set_all_of(Pointer<T> values, Pointer<T> slopes) const {
    for (int64_t n = 0; n < functions; n++) set_of<ROWS>(n, values, slopes);
  }
};

}    // namespace equi

#endif
