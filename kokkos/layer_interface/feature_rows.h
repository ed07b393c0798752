// SPDX-License-Identifier: MIT
// The rows of features that layers work on.
#ifndef EQUI_FEATURE_ROWS_H
#define EQUI_FEATURE_ROWS_H

#include "kokkos/kernel_interface/feature_layout.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace equi {

// Rows first .. first + count - 1 of a feature that has `rows` rows at data (feature_layout.h).
template <class T>
struct FeatureRows {
  T *data;
  int64_t rows, first;
  T *group(const FeatureGroup &g) const { return data + rows * g.offset + first * g.width(); }
  // Converts to rows that are only read.
  template <class C, std::enable_if_t<std::is_same_v<C, const T> && !std::is_const_v<T>, int> = 0>
  operator FeatureRows<C>() const {
    return {data, rows, first};
  }
};

// Channel c of a group's first component, for all rows; for duals, with the tangents along a direction.
template <class T, class R>
Pointer<T> channel_of(FeatureRows<R> rows, const FeatureGroup &group, int c, int direction) {
  return make_pointer<T>(rows.group(group) + c, group.tangents(direction));
}

// Calls f(numbers of a, numbers of b, size) for each group of `count` rows.
template <class A, class B, class F>
void for_groups(const FeatureLayout &layout, int64_t count, FeatureRows<A> a, FeatureRows<B> b, const F &f) {
  for (const FeatureGroup &group : layout.groups()) f(a.group(group), b.group(group), count * group.width());
}

// Sets the planes of a group to 0 in `count` rows.
template <class T>
void set_to_zero(FeatureRows<T> rows, const FeatureGroup &group, int64_t count, Planes planes) {
  for (int64_t r = 0; r < count; r++)
    group.for_numbers(planes,
                      [&](int first, int n) { std::fill_n(rows.group(group) + r * group.width() + first, n, T(0)); });
}
template <class T>
void set_to_zero(FeatureRows<T> rows, const FeatureLayout &layout, int64_t count, Planes planes) {
  for (const FeatureGroup &group : layout.groups()) set_to_zero(rows, group, count, planes);
}

// The species of `count` rows. Species s has the rows order[begin[s]] .. order[begin[s+1]-1]. On devices only `begin`
// is host memory.
struct SpeciesOrder {
  const int *order;
  const int *begin;
  const int *species = nullptr;    // [count] of each row
  int count = 0;
};

}    // namespace equi

#endif
