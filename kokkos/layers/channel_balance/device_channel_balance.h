// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance in device memory.
#ifndef EQUI_DEVICE_CHANNEL_BALANCE_H
#define EQUI_DEVICE_CHANNEL_BALANCE_H

#include "kokkos/layers/channel_balance/balanced_rows.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_sum.h"

#include <tuple>

namespace equi {

template <class T>
class DeviceChannelBalance {
  using D = DoubleOf<T>;

 public:
  // Waits for the sums. They do not depend on the order of threads.
  void add_up(const DeviceExec &exec, int count, const BalancedRows<T> &rows, D *sums);
  auto members() const { return std::tie(terms_, total_, sum_); }

 private:
  DeviceBuffer<D> terms_, total_;
  DeviceSum sum_;
};

}    // namespace equi

#endif
