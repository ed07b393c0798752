// SPDX-License-Identifier: MIT
#include "kokkos/layers/channel_balance/device_channel_balance.h"

#include "src/numbers/number_types.h"

#include <cstdint>

namespace equi {

namespace {

// Number k of a row is channel k % count of plane k / count.
struct BalancedNumber {
  int64_t width;
  int first, count, channels;
  explicit BalancedNumber(const BalancedChannels &c)
      : width(c.group.width()), first(c.first), count(c.count), channels(c.group.channels) {}
  KOKKOS_FUNCTION int64_t at(int64_t row, int64_t k) const {
    return row * width + k / count * channels + first + k % count;
  }
};

}    // namespace

template <class T>
void DeviceChannelBalance<T>::sum(const DeviceExec &exec, int count, FeatureRows<const R> rows, double *sums) {
  const BalancedNumber number(channels_);
  const R *from = rows.group(channels_.group);
  const int64_t per_row = width(), size = count * per_row;
  double *terms = terms_.reserve(size), *total = numbers_.reserve(per_row);
  Kokkos::parallel_for(
      "equi:balance_terms", DeviceRange(exec, 0, size),
      KOKKOS_LAMBDA(int64_t k) { terms[k] = from[number.at(k / per_row, k % per_row)]; });
  sum_.add_up(exec, count, width(), terms, total);
  copy_to_host(exec, sums, total, per_row);
}

template <class T>
void DeviceChannelBalance<T>::add(const DeviceExec &exec, int count, FeatureRows<R> rows, const double *numbers) {
  const BalancedNumber number(channels_);
  R *to = rows.group(channels_.group);
  const int64_t per_row = width();
  double *added = numbers_.reserve(per_row);
  copy_to_device(exec, added, numbers, per_row);
  Kokkos::parallel_for(
      "equi:balance_add", DeviceRange(exec, 0, count * per_row), KOKKOS_LAMBDA(int64_t k) {
        R &x = to[number.at(k / per_row, k % per_row)];
        x = static_cast<R>(x + added[k % per_row]);
      });
}

EQUI_INSTANTIATE_NUMBERS(DeviceChannelBalance)

}    // namespace equi
