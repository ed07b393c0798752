// SPDX-License-Identifier: MIT
// Radial tables of random numbers, for code that compares kernels with one another.
#ifndef EQUI_RANDOM_BINS_H
#define EQUI_RANDOM_BINS_H

#include "kokkos/kernel_libraries/convolution_tables.h"

#include <algorithm>
#include <random>
#include <vector>

namespace equi {

// Number of bins, and rows per bin, as many as any kernel reads: bin b begins at row b * ROWS_OF_RANDOM_BIN.
constexpr int RANDOM_BINS = 4, ROWS_OF_RANDOM_BIN = std::max(QUINTIC_ROWS, SPLIT_ROWS),
              RANDOM_ROWS = RANDOM_BINS * ROWS_OF_RANDOM_BIN;

// Coefficients from -1 to 1. The upper ones of split bins are small enough to hide how kernels round them in
// float32, but large enough to have a visible effect.
template <class R, class T>
void fill_random_bins(const ConvolutionTables<T> &tables, std::mt19937 &random, R *table) {
  constexpr double SMALL = 0x1p-24;
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::generate_n(table, RANDOM_ROWS * tables.columns(), [&] { return static_cast<R>(uniform(random)); });
  if constexpr (IS_SPLIT<R, SPLIT_ROWS>)
    for (const ConvPathGroup<T> &path_group : tables.path_groups())
      for (int64_t block = 0; block < path_group.channel_blocks; block++)
        for (int bin = 0; bin < RANDOM_BINS; bin++)
          for (int lane = 0; lane < path_group.row; lane++) {
            const int stride = path_group.row;
            const WeightColumn column{path_group.first_column + block * stride, stride, lane, 1.0};
            R *first = table + RANDOM_ROWS * column.first + static_cast<int64_t>(bin) * SPLIT_ROWS * stride;
            for (int n = FLOAT64_COEFFICIENTS; n < SEPTIC_ROWS; n++)
              set_coefficient(first, column, n, SPLIT_ROWS, tables.layout(), SMALL * uniform(random));
          }
}

}    // namespace equi

#endif
