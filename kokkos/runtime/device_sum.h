// SPDX-License-Identifier: MIT
// Sums over many rows, in an order that is the same on every device and for any number of threads.
#ifndef EQUI_DEVICE_SUM_H
#define EQUI_DEVICE_SUM_H

#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
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
  static constexpr std::size_t MAX_TERMS = 5;

  // Computes the totals of all terms, which share launches.
  void add_up(const DeviceExec &exec, const std::vector<Term> &terms) {
    if (terms.size() > MAX_TERMS) throw std::logic_error("too many terms for a launch");
    Kernel kernel{};
    for (std::size_t k = 0; k < terms.size(); k++) kernel.sums[k].term = terms[k];
    // Each sum adds a few rows, round by round, until each term has one row. Terms that have one row earlier are
    // copied along.
    int64_t most = 1;
    for (const Term &t : terms) most = std::max(most, t.n);
    for (int level = 0;; level = 1 - level) {
      const bool is_last = most <= MOST_ROWS;
      int64_t num_sums = 0;
      for (std::size_t k = 0; k < terms.size(); k++) {
        auto &[term, num] = kernel.sums[k];
        num = num_rows_of_sums(term.n) * term.width;
        term.total = is_last ? terms[k].total : level_[level][k].reserve(num);
        num_sums += num;
      }
      Kokkos::parallel_for("equi:sum", DeviceRange(exec, 0, num_sums), kernel);
      if (is_last) return;
      for (auto &[term, num] : kernel.sums) term = {term.total, num_rows_of_sums(term.n), term.width, nullptr};
      most = num_rows_of_sums(most);
    }
  }
  auto members() const { return std::tie(level_); }

  // One round; public because nvcc requires it of kernels. Row k of the sums adds rows k, k + fewer, ..., so
  // neighboring threads read neighboring numbers.
  struct Sums {
    Term term;
    int64_t num;    // numbers of all rows of sums
  };
  struct Kernel {
    static constexpr int AT_ONCE = 8;    // loads in flight
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
  // Rows of a sum in one round: fewer need more rounds, more need longer ones.
  static constexpr int64_t MOST_ROWS = 32;
  static int64_t num_rows_of_sums(int64_t n) { return std::max<int64_t>(1, (n + MOST_ROWS - 1) / MOST_ROWS); }

  // One for each term, so that it grows only with the rows of that term (device_recorder.h).
  DeviceBuffer<double> level_[2][MAX_TERMS];
};

}    // namespace equi

#endif
