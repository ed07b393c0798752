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
  void add_up(const DeviceExec &exec, std::vector<Term> terms) {
    if (terms.size() > MAX_TERMS) throw std::logic_error("too many terms for a launch");
    for (int level = 0; !terms.empty(); level = 1 - level) {
      // Each sum takes a few rows. What is more than one row then is added up in the next round.
      std::vector<Term> left;
      Kernel kernel{};
      int64_t num_sums = 0, num_left = 0;
      for (std::size_t k = 0; k < terms.size(); k++) {
        const Term &t = terms[k];
        const int64_t fewer = std::max<int64_t>(1, (t.n + MOST_ROWS - 1) / MOST_ROWS);
        kernel.sums[k] = {t, fewer * t.width};
        num_sums += fewer * t.width;
        if (fewer == 1) continue;
        left.push_back({nullptr, fewer, t.width, t.total});
        num_left += fewer * t.width;
      }
      double *to = level_[level].reserve(num_left);
      auto of_left = left.begin();
      for (Sums &s : kernel.sums) {
        if (s.num <= s.term.width) continue;
        of_left++->rows = s.term.total = to;
        to += s.num;
      }
      Kokkos::parallel_for("equi:sum", DeviceRange(exec, 0, num_sums), kernel);
      terms = std::move(left);
    }
  }
  std::size_t bytes() const { return level_[0].bytes() + level_[1].bytes(); }

  // One round; nvcc wants kernels public. Row k of the sums is that of rows k, k + fewer, ...: neighboring threads read
  // neighboring numbers.
  struct Sums {
    Term term;
    int64_t num;    // numbers of all rows of sums
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
  DeviceBuffer<double> level_[2];
};

}    // namespace equi

#endif
