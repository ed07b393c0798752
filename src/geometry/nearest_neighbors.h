// SPDX-License-Identifier: MIT
// Models that use only the nearest of an atom's neighbors. Energy and forces jump where the farthest of these leaves
// the set and another replaces it.
#ifndef EQUI_NEAREST_NEIGHBORS_H
#define EQUI_NEAREST_NEIGHBORS_H

#include "src/numbers/host_device.h"

#include <cstdint>

namespace equi {

// An atom with more than `count` neighbors within the cutoff uses the `count` nearest. With a tolerance, in Angstrom^2,
// it also uses neighbors whose squared distance exceeds that of neighbor number count + 1 by at most the tolerance.
struct NearestNeighbors {
  int count = 0;              // 0: all neighbors are used
  double tolerance = -1.0;    // negative: none
  bool operator==(const NearestNeighbors &other) const { return count == other.count && tolerance == other.tolerance; }
};

// Calls drop(c) for the neighbors that are not used, among the candidates first .. last - 1 of one atom. square(c): the
// squared distance of a neighbor, negative for a candidate that is no neighbor. A square that is not a number ranks as
// the nearest. Without a tolerance, the first candidates are used among those that are equally far.
template <class Square, class Drop>
EQUI_FUNCTION void drop_far_neighbors(const NearestNeighbors &nearest, int64_t first, int64_t last,
                                      const Square &square, const Drop &drop) {
  if (nearest.count == 0) return;
  const auto is_neighbor = [](double s) { return !(s < 0.0); };
  int64_t num = 0;
  for (int64_t c = first; c < last; ++c) num += is_neighbor(square(c));
  if (num <= nearest.count) return;
  // Search the squared distance of the neighbor number `wanted`, distance by distance.
  const bool is_strict = nearest.tolerance < 0.0;
  const int64_t wanted = nearest.count + (is_strict ? 0 : 1);
  double limit = -1.0;
  int64_t nearer = 0, found = 0;    // numbers of neighbors nearer than the limit, and up to it
  while (found < wanted) {
    double next = -1.0;
    int64_t same = 0;
    for (int64_t c = first; c < last; ++c) {
      double s = square(c);
      if (!is_neighbor(s)) continue;
      if (!(s >= 0.0)) s = 0.0;
      if (!(s > limit)) continue;
      if (next < 0.0 || s < next) {
        next = s;
        same = 0;
      }
      same += s == next;
    }
    limit = next;
    nearer = found;
    found += same;
  }
  int64_t room = is_strict ? nearest.count - nearer : num;    // remaining places for neighbors at the limit
  if (!is_strict) limit += nearest.tolerance;
  for (int64_t c = first; c < last; ++c) {
    const double s = square(c);
    if (!is_neighbor(s)) continue;
    if (s > limit || (s == limit && --room < 0)) drop(c);
  }
}

}    // namespace equi

#endif
