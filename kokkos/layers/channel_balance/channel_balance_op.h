// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance in host memory.
#ifndef EQUI_CHANNEL_BALANCE_OP_H
#define EQUI_CHANNEL_BALANCE_OP_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layers/channel_balance/channel_balance_layer.h"

#include <cstddef>
#include <cstdint>

namespace equi {

template <class T>
class ChannelBalanceOp {
  using R = Real<T>;

 public:
  ChannelBalanceOp(const ChannelBalance &layer, const FeatureLayout &layout) : numbers_(layer, layout, PLANES<T>) {}
  int size() const { return numbers_.size; }

  // In the order of rows, so that sums do not depend on the number of threads.
  void sum(const HostKernels<T> &, int count, FeatureRows<const R> rows, double *sums) const {
    const R *from = rows.group(numbers_.group);
    for (int64_t row = 0; row < count; row++)
      for (int k = 0; k < size(); k++) sums[k] += from[numbers_.at(row, k)];
  }
  void add(const HostKernels<T> &, int count, FeatureRows<R> rows, const double *added) const {
    R *to = rows.group(numbers_.group);
    for (int64_t row = 0; row < count; row++)
      for (int k = 0; k < size(); k++) {
        R &x = to[numbers_.at(row, k)];
        x = static_cast<R>(x + added[k]);
      }
  }
  std::size_t bytes() const { return 0; }

 private:
  BalancedNumbers numbers_;
};

}    // namespace equi

#endif
