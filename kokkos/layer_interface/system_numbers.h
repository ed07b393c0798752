// SPDX-License-Identifier: MIT
// Loops over numbers that sums over all atoms share, on hosts and devices.
#ifndef EQUI_SYSTEM_NUMBERS_H
#define EQUI_SYSTEM_NUMBERS_H

#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

// Adds numbers.
template <class A, class B>
struct AddNumbers {
  const A *from;
  B *to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    if constexpr (IS_DUAL<B>)
      to[n] += B(from[n]);
    else
      to[n] += value_of(from[n]);
  }
};
template <class A, class B>
struct SubtractNumbers {
  const A *from;
  B *to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    if constexpr (IS_DUAL<B>)
      to[n] -= B(from[n]);
    else
      to[n] -= value_of(from[n]);
  }
};
template <class D>
struct PutNumber {
  D number;
  D *to;
  EQUI_FUNCTION void operator()(int64_t n) const { to[n] = number; }
};

template <class D>
struct ValuesOfNumbers {
  const D *from;
  double *to;
  EQUI_FUNCTION void operator()(int64_t n) const { to[n] = value_of(from[n]); }
};
// The sum of `parts` arrays of `num` numbers, one after the other.
template <class D>
struct JoinParts {
  int64_t parts, num;
  const D *from;
  D *to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    D sum = from[n];
    for (int64_t p = 1; p < parts; p++) sum += from[p * num + n];
    to[n] = sum;
  }
};

}    // namespace equi

#endif
