// SPDX-License-Identifier: MIT
// Sums over many rows, in an order that is the same on every device and with any number of threads.
#ifndef EQUI_DEVICE_SUM_H
#define EQUI_DEVICE_SUM_H

#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace equi {

class DeviceSum {
 public:
  // total[c] = sum of rows[n][width] by column; all in memory that the device reads and writes.
  struct Term {
    const double *rows;
    int64_t n;
    int width;
    double *total;
  };
  static constexpr std::size_t MAX_TERMS = 4;

  // The totals of all terms, which share launches.
  void add_up(const DeviceExec &exec, const std::vector<Term> &terms) {
    if (terms.size() > MAX_TERMS) throw std::logic_error("too many terms for a launch");
    Kernel kernel{};
    for (std::size_t k = 0; k < terms.size(); k++) kernel.sums[k].term = terms[k];
    // Each sum takes a few rows. What is more than one row then is added up in the next round.
    for (int level = 0, num_left = static_cast<int>(terms.size()); num_left > 0; level = 1 - level) {
      num_left = 0;
      int64_t num_sums = 0;
      for (std::size_t k = 0; k < terms.size(); k++) {
        auto &[term, num] = kernel.sums[k];
        const int64_t fewer = std::max<int64_t>(1, (term.n + MOST_ROWS - 1) / MOST_ROWS);
        num = term.total ? fewer * term.width : 0;
        num_sums += num;
        if (num == 0) continue;
        if (fewer > 1) term.total = level_[level][k].reserve(num);
        num_left += fewer > 1;
      }
      Kokkos::parallel_for("equi:sum", DeviceRange(exec, 0, num_sums), kernel);
      for (std::size_t k = 0; k < terms.size(); k++) {
        auto &[term, num] = kernel.sums[k];
        const bool is_left = num > term.width;
        term = {term.total, num / std::max(1, term.width), term.width, is_left ? terms[k].total : nullptr};
      }
    }
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto &buffers : level_)
      for (const auto &buffer : buffers) sum += buffer.bytes();
    return sum;
  }

  // One round; nvcc wants kernels public. Row k of the sums is that of rows k, k + fewer, ...: neighboring threads read
  // neighboring numbers.
  struct Sums {
    Term term;
    int64_t num;    // numbers of all rows of sums, 0 where the total is known
  };
  struct Kernel {
    static constexpr int AT_ONCE = 8;    // loads on their way
    Sums sums[MAX_TERMS];
    KOKKOS_FUNCTION void operator()(int64_t k) const {
      int n = 0;
      while (k >= sums[n].num) k -= sums[n++].num;
      const Sums &own = sums[n];
      const int64_t size = own.term.n * own.term.width;
      double sum = 0.0;
      for (int64_t at = k; at < size; at += AT_ONCE * own.num) {
        double number[AT_ONCE];
        EQUI_UNROLL for (int row = 0; row < AT_ONCE; row++) {
          const int64_t place = at + row * own.num;
          number[row] = place < size ? own.term.rows[place] : 0.0;
        }
        EQUI_UNROLL for (int row = 0; row < AT_ONCE; row++) sum += number[row];
      }
      own.term.total[k] = sum;
    }
  };

 private:
  // Of a sum in one round: fewer take more rounds, more take longer.
  static constexpr int64_t MOST_ROWS = 32;
  // One for each term, so that it grows with the rows of that one alone (device_recorder.h).
  DeviceBuffer<double> level_[2][MAX_TERMS];
};

}    // namespace equi

#endif
