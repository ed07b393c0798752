// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance in host memory.
#ifndef EQUI_HOST_CHANNEL_BALANCE_H
#define EQUI_HOST_CHANNEL_BALANCE_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/channel_balance/balanced_rows.h"

#include <cstdint>
#include <tuple>

namespace equi {

template <class T>
class HostChannelBalance {
  using D = DoubleOf<T>;

 public:
  // Adds in the order of rows, so sums do not depend on the number of threads.
  void add_up(const HostKernels<T> &, int count, const BalancedRows<T> &rows, D *sums) const {
    for (int64_t row = 0; row < count; row++)
      for (int n = 0; n < rows.num_terms; n++) sums[n] += rows.term(row, n);
  }
  auto members() const { return std::tie(); }
};

}    // namespace equi

#endif
