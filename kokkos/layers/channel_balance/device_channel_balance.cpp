// SPDX-License-Identifier: MIT
// Sums over rows of a channel balance on a device.
#include "kokkos/layers/channel_balance/device_channel_balance.h"

#include "src/numbers/number_types.h"

#include <cstdint>

namespace equi {

template <class T>
void DeviceChannelBalance<T>::add_up(const DeviceExec &exec, int count, const BalancedRows<T> &rows, D *sums) {
  const BalancedRows<T> balanced = rows;
  const int num_terms = rows.num_terms;
  D *terms = terms_.reserve(static_cast<int64_t>(count) * num_terms), *total = total_.reserve(num_terms);
  Kokkos::parallel_for(
      "equi:balance_terms", DeviceRange(exec, 0, static_cast<int64_t>(count) * num_terms),
      KOKKOS_LAMBDA(int64_t n) { terms[n] = balanced.term(n / num_terms, static_cast<int>(n % num_terms)); });
  sum_.add_up(exec, {{reinterpret_cast<const double *>(terms), count, num_terms * PLANES<D>,
                      reinterpret_cast<double *>(total)}});
  copy_to_host(exec, sums, total, num_terms);
}

EQUI_INSTANTIATE_NUMBERS(DeviceChannelBalance)

}    // namespace equi
