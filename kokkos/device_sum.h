// Sums over many rows, in an order that is the same on every device and with any number of threads.
#ifndef EQUI_DEVICE_SUM_H
#define EQUI_DEVICE_SUM_H

#include "device_exec.h"

#include <algorithm>
#include <vector>

namespace equi {

template <class Exec>
class DeviceSum {
 public:
  // total[c] += sum of rows[n][width] by column, rows in device memory. Waits.
  void add(const Exec &exec, int64_t n, int width, const double *rows, double *total) {
    for (int level = 0; n > HOST_ROWS; level = 1 - level) {
      const int64_t fewer = (n + TERMS - 1) / TERMS;
      double *sums = level_[level].reserve(fewer * width);
      add_up(exec, n, fewer, width, rows, sums);
      rows = sums;
      n = fewer;
    }
    host_.resize(n * width);
    copy_to_host(exec, host_.data(), rows, n * width);
    for (int64_t i = 0; i < n; i++)
      for (int c = 0; c < width; c++) total[c] += host_[i * width + c];
  }
  std::size_t bytes() const { return level_[0].bytes() + level_[1].bytes(); }

  // Row k of sums is that of rows k, k + fewer, ...: neighboring threads read neighboring numbers.
  static void add_up(const Exec &exec, int64_t n, int64_t fewer, int width, const double *rows, double *sums) {
    Kokkos::parallel_for(
        "equi:sum", DeviceRange<Exec>(exec, 0, fewer * width), KOKKOS_LAMBDA(int64_t k) {
          double sum = 0.0;
          for (int64_t at = k; at < n * width; at += fewer * width) sum += rows[at];
          sums[k] = sum;
        });
  }

 private:
  static constexpr int64_t TERMS = 64, HOST_ROWS = 1024;
  DeviceBuffer<Exec, double> level_[2];
  std::vector<double> host_;
};

}    // namespace equi

#endif
