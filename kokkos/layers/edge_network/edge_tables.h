// SPDX-License-Identifier: MIT
// Tables of the functions of the distance with which a network of edges begins (src/functions/radial_expansion.h),
// for hosts and devices. In a window of distances fewer functions suffice: sums of the functions for all distances.
// This saves products with a matrix if edges of the same window are adjacent.
#ifndef EQUI_EDGE_TABLES_H
#define EQUI_EDGE_TABLES_H

#include "kokkos/geometry/radial_set.h"
#include "kokkos/geometry/radial_windows.h"
#include "src/generator/kernel_layout.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// The polynomials of all bins of a set's tables, one table after another. R: float or double.
template <class R>
struct EdgeTables {
  RadialSet set;            // without rows
  RadialWindows windows;    // or none: then the functions of each bin are those of the set
  int num_functions;
  std::vector<R> powers;         // [bin][coefficient][function of the bin's window, and zeros]
  std::vector<int> first_bin;    // first bin of each table

  // windows: empty or of this set. least_functions: zeros follow the functions up to this number.
  EdgeTables(RadialSet tables, RadialWindows of_tables, int least_functions = 0)
      : set(std::move(tables)),
        windows(std::move(of_tables)),
        num_functions(
            std::max(least_functions, windows.functions.empty() ? set.num_outputs() : windows.functions.front().rows)) {
    const int64_t of_bin = static_cast<int64_t>(set.num_coefficients()) * num_functions;
    int bins = 0;
    for (int k = 0; k < set.num_functions(); k++) {
      first_bin.push_back(bins);
      bins += set.table(k).num_bins();
      std::vector<double> of_table(set.table(k).num_bins() * of_bin, 0.0);
      set.for_polynomials(k, [&](int bin, int column, const double *p) {
        for (int n = 0; n < set.num_coefficients(); n++) {
          double *const to = &of_table[bin * of_bin + static_cast<int64_t>(n) * num_functions];
          if (windows.functions.empty()) {
            to[column] = p[n];
            continue;
          }
          const Matrix &functions = windows.functions[windows.of_bin[first_bin[k] + bin]];
          for (int j = 0; j < functions.rows; j++) to[j] += functions(j, column) * p[n];
        }
      });
      powers.insert(powers.end(), of_table.begin(), of_table.end());
    }
    set.drop_rows();
  }
  // The bin of an edge, with the bins of all tables numbered consecutively, and the position in it.
  struct Position {
    int64_t bin;
    RadialTable::BinPosition at;
  };
  Position find(double distance, int receiver_species, int sender_species) const {
    const int k = set.table_index(receiver_species, sender_species);
    const RadialTable::BinPosition at = set.table(k).bin_of(distance);
    return {first_bin[k] + at.bin, at};
  }
  auto members() const { return std::tie(powers, first_bin); }
};

// The functions of the distance for an edge, from the polynomials of its bin.
template <class T>
struct EdgeTableRow {
  using R = Real<T>;
  const R *powers;     // polynomials of the bin
  int coefficients;    // coefficients of a polynomial
  int64_t functions;
  R fraction, per_length;    // position in the bin, and its derivative with respect to the distance
  R tangent;                 // for duals: tangent of the distance

  // Writes function n and its derivative with respect to the distance.
  EQUI_FUNCTION void set(int64_t n, Pointer<T> value, Pointer<T> slope) const {
    if (coefficients == CUBIC_ROWS)
      set_of<CUBIC_ROWS>(n, value, slope);
    else if (coefficients == QUINTIC_ROWS)
      set_of<QUINTIC_ROWS>(n, value, slope);
    else
      set_of<SEPTIC_ROWS>(n, value, slope);
  }
  // Writes all of them, in loops that compilers vectorize.
  void set_all(Pointer<T> values, Pointer<T> slopes) const {
    if (coefficients == CUBIC_ROWS)
      set_all_of<CUBIC_ROWS>(values, slopes);
    else if (coefficients == QUINTIC_ROWS)
      set_all_of<QUINTIC_ROWS>(values, slopes);
    else
      set_all_of<SEPTIC_ROWS>(values, slopes);
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
