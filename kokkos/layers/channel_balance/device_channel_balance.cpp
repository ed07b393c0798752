// SPDX-License-Identifier: MIT
#include "kokkos/layers/channel_balance/device_channel_balance.h"

#include "src/numbers/number_types.h"

#include <cstdint>

namespace equi {

template <class T>
void DeviceChannelBalance<T>::sum(const DeviceExec &exec, int count, FeatureRows<const R> rows, double *sums) {
  const BalancedNumbers balanced = balanced_;
  const R *from = rows.group(balanced.group);
  const int64_t per_row = size();
  double *terms = terms_.reserve(count * per_row), *total = numbers_.reserve(per_row);
  Kokkos::parallel_for(
      "equi:balance_terms", DeviceRange(exec, 0, count * per_row),
      KOKKOS_LAMBDA(int64_t k) { terms[k] = from[balanced.at(k / per_row, k % per_row)]; });
  sum_.add_up(exec, count, size(), terms, total);
  copy_to_host(exec, sums, total, per_row);
}

template <class T>
void DeviceChannelBalance<T>::add(const DeviceExec &exec, int count, FeatureRows<R> rows, const double *numbers) {
  const BalancedNumbers balanced = balanced_;
  R *to = rows.group(balanced.group);
  const int64_t per_row = size();
  double *added = numbers_.reserve(per_row);
  copy_to_device(exec, added, numbers, per_row);
  Kokkos::parallel_for(
      "equi:balance_add", DeviceRange(exec, 0, count * per_row), KOKKOS_LAMBDA(int64_t k) {
        R &x = to[balanced.at(k / per_row, k % per_row)];
        x = static_cast<R>(x + added[k % per_row]);
      });
}

EQUI_INSTANTIATE_NUMBERS(DeviceChannelBalance)

}    // namespace equi
