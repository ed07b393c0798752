// SPDX-License-Identifier: MIT
// The scalar product of numbers, and of nested containers of them.
#ifndef EQUI_TEST_DOT_H
#define EQUI_TEST_DOT_H

#include <cstddef>
#include <type_traits>

namespace equi {
namespace testing {

// Sums in float64. Containers must have equal sizes.
template <class T>
double dot(const T &a, const T &b) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(a) * static_cast<double>(b);
  } else {
    double sum = 0.0;
    for (std::size_t k = 0; k < a.size(); ++k) sum += dot(a[k], b[k]);
    return sum;
  }
}

}    // namespace testing
}    // namespace equi

#endif
