// SPDX-License-Identifier: MIT
// Sums over many rows, in an order that is the same on every device and with any number of threads.
#ifndef EQUI_DEVICE_SUM_H
#define EQUI_DEVICE_SUM_H

#include "kokkos/runtime/device_exec.h"

namespace equi {

class DeviceSum {
 public:
  // total[c] = sum of rows[n][width] by column; all in memory that the device reads and writes.
  void add_up(const DeviceExec &exec, int64_t n, int width, const double *rows, double *total) {
    for (int level = 0; n > TERMS; level = 1 - level) {
      const int64_t fewer = (n + TERMS - 1) / TERMS;
      double *sums = level_[level].reserve(fewer * width);
      add_rows(exec, n, fewer, width, rows, sums);
      rows = sums;
      n = fewer;
    }
    add_rows(exec, n, 1, width, rows, total);
  }
  std::size_t bytes() const { return level_[0].bytes() + level_[1].bytes(); }

  // Row k of sums is that of rows k, k + fewer, ...: neighboring threads read neighboring numbers.
  static void add_rows(const DeviceExec &exec, int64_t n, int64_t fewer, int width, const double *rows, double *sums) {
    Kokkos::parallel_for(
        "equi:sum", DeviceRange(exec, 0, fewer * width), KOKKOS_LAMBDA(int64_t k) {
          double sum = 0.0;
          for (int64_t at = k; at < n * width; at += fewer * width) sum += rows[at];
          sums[k] = sum;
        });
  }

 private:
  static constexpr int64_t TERMS = 64;
  DeviceBuffer<double> level_[2];
};

}    // namespace equi

#endif
