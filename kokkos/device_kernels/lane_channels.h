// SPDX-License-Identifier: MIT
// A lane's numbers for its channels: one channel, or two of neighboring channel blocks. Two channels share the edge
// data that the lanes read together, and the exchanges that sum over the lanes.
#ifndef EQUI_LANE_CHANNELS_H
#define EQUI_LANE_CHANNELS_H

#include "kokkos/runtime/device_exec.h"

#include <type_traits>

namespace equi {

// A number for each of a lane's two channels.
template <class T>
struct TwoChannels {
  T first, second;

  TwoChannels() = default;
  KOKKOS_FORCEINLINE_FUNCTION TwoChannels(T both) : first(both), second(both) {}
  KOKKOS_FORCEINLINE_FUNCTION TwoChannels(T first, T second) : first(first), second(second) {}
  KOKKOS_FORCEINLINE_FUNCTION friend TwoChannels operator+(TwoChannels a, TwoChannels b) {
    return {a.first + b.first, a.second + b.second};
  }
  KOKKOS_FORCEINLINE_FUNCTION friend TwoChannels operator-(TwoChannels a, TwoChannels b) {
    return {a.first - b.first, a.second - b.second};
  }
  KOKKOS_FORCEINLINE_FUNCTION friend TwoChannels operator-(TwoChannels a) { return {-a.first, -a.second}; }
  KOKKOS_FORCEINLINE_FUNCTION friend TwoChannels operator*(TwoChannels a, TwoChannels b) {
    return {a.first * b.first, a.second * b.second};
  }
  KOKKOS_FORCEINLINE_FUNCTION TwoChannels &operator+=(TwoChannels b) { return *this = *this + b; }
  KOKKOS_FORCEINLINE_FUNCTION TwoChannels &operator-=(TwoChannels b) { return *this = *this - b; }
  KOKKOS_FORCEINLINE_FUNCTION TwoChannels &operator*=(TwoChannels b) { return *this = *this * b; }
};

// For N channels. T may be a Dual only for one channel.
template <class T, int N>
using OfChannels = std::conditional_t<N == 1, T, TwoChannels<T>>;

// sum += a b, over the channels.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void add_product(T &sum, T a, T b) {
  sum += a * b;
}
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void add_product(T &sum, TwoChannels<T> a, TwoChannels<T> b) {
  sum += a.first * b.first;
  sum += a.second * b.second;
}

}    // namespace equi

#endif
