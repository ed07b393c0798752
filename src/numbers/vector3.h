// SPDX-License-Identifier: MIT
// Products of vectors in space.
#ifndef EQUI_VECTOR3_H
#define EQUI_VECTOR3_H

#include <array>

namespace equi {

using Vector3 = std::array<double, 3>;

inline double dot(const Vector3 &a, const Vector3 &b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

inline Vector3 cross(const Vector3 &a, const Vector3 &b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

}    // namespace equi

#endif
