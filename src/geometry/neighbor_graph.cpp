// SPDX-License-Identifier: MIT
// Builds structures of periodic images and their candidate neighbors.
#include "src/geometry/neighbor_graph.h"

#include "src/numbers/vector3.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

namespace equi {

namespace {

// The range of images of an atom that can be within the cutoff of another atom.
class ImageRange {
 public:
  ImageRange(const double cell[3][3], const bool periodic[3], double cutoff) : cutoff_(cutoff) {
    // For each periodic direction, the unit vector along the part of its lattice vector that is orthogonal to the other
    // periodic ones. Along it a lattice vector advances by `height` and all others by zero. So the images within the
    // cutoff of a pair are bounded direction by direction, for any shape of the cell.
    for (int k = 0; k < 3; ++k) {
      periodic_[k] = periodic[k];
      if (!periodic[k]) continue;
      Vector3 rest = {cell[k][0], cell[k][1], cell[k][2]};
      const double length = std::sqrt(dot(rest, rest));
      std::vector<Vector3> basis;    // orthonormal basis of the other periodic directions
      for (int o = 0; o < 3; ++o) {
        if (o == k || !periodic[o]) continue;
        Vector3 b = {cell[o][0], cell[o][1], cell[o][2]};
        for (const Vector3 &e : basis) {
          const double c = dot(b, e);
          for (int d = 0; d < 3; ++d) b[d] -= c * e[d];
        }
        const double norm = std::sqrt(dot(b, b));
        if (!(norm > 0.0)) continue;    // reported when this direction is k
        for (int d = 0; d < 3; ++d) b[d] /= norm;
        basis.push_back(b);
      }
      for (const Vector3 &e : basis) {
        const double c = dot(rest, e);
        for (int d = 0; d < 3; ++d) rest[d] -= c * e[d];
      }
      height_[k] = std::sqrt(dot(rest, rest));
      if (!(height_[k] > 1e-10 * length) || !std::isfinite(height_[k]))
        throw std::invalid_argument("the periodic lattice vectors are not independent");
      for (int d = 0; d < 3; ++d) normal_[k][d] = rest[d] / height_[k];
    }
  }

  // Shifts low .. high along each lattice vector, for an atom at `d` from the other one.
  void shifts(const Vector3 &d, int low[3], int high[3]) const {
    constexpr double FARTHEST = 1e9;    // fits into an int
    for (int k = 0; k < 3; ++k) {
      low[k] = high[k] = 0;
      if (!periodic_[k]) continue;
      const double along = dot(d, normal_[k]), slack = 1e-9 * height_[k];    // rounding must not lose an image
      const double first = std::ceil((-cutoff_ - slack - along) / height_[k]);
      const double last = std::floor((cutoff_ + slack - along) / height_[k]);
      if (!(std::fabs(first) < FARTHEST && std::fabs(last) < FARTHEST))
        throw std::invalid_argument("positions lie too many lattice vectors apart");
      low[k] = static_cast<int>(first);
      high[k] = static_cast<int>(last);
    }
  }

 private:
  double cutoff_;
  bool periodic_[3] = {};
  Vector3 normal_[3] = {};
  double height_[3] = {};
};

Vector3 difference(const Vector3 &a, const Vector3 &b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

}    // namespace

double num_image_candidates(const std::vector<Vector3> &positions, const double cell[3][3], const bool periodic[3],
                            double cutoff) {
  const ImageRange range(cell, periodic, cutoff);
  double sum = 0.0;
  for (const Vector3 &receiver : positions)
    for (const Vector3 &sender : positions) {
      int low[3], high[3];
      range.shifts(difference(sender, receiver), low, high);
      double images = 1.0;
      for (int k = 0; k < 3; ++k) images *= std::max(0.0, high[k] - static_cast<double>(low[k]) + 1.0);
      sum += images;
    }
  return sum;
}

ImageStructure build_image_structure(const std::vector<Vector3> &positions, const std::vector<int> &species,
                                     const double cell[3][3], const bool periodic[3], double cutoff) {
  if (species.size() != positions.size())
    throw std::invalid_argument("structure with " + std::to_string(positions.size()) + " positions and " +
                                std::to_string(species.size()) + " species");

  const ImageRange range(cell, periodic, cutoff);
  const int n = static_cast<int>(positions.size());
  ImageStructure s;
  s.positions = positions;
  for (int i = 0; i < n; ++i) s.owner.push_back(i);
  Neighborhood &nb = s.neighborhood;
  nb.num_receivers = nb.num_interior = nb.num_rows = n;
  nb.row_species = species;
  nb.first.push_back(0);
  for (int k = 0; k < 3; ++k) {
    nb.box.periodic[k] = periodic[k];
    nb.box.vectors[k] = {cell[k][0], cell[k][1], cell[k][2]};
  }

  std::map<std::array<int, 4>, int> image_atom;    // (owner, shifts) -> atom
  for (int i = 0; i < n; ++i) {
    nb.receiver.push_back(i);
    for (int j = 0; j < n; ++j) {
      int low[3], high[3];
      range.shifts(difference(positions[j], positions[i]), low, high);
      for (int a = low[0]; a <= high[0]; ++a)
        for (int b = low[1]; b <= high[1]; ++b)
          for (int c = low[2]; c <= high[2]; ++c) {
            const bool is_home = a == 0 && b == 0 && c == 0;
            if (is_home && i == j) continue;
            Vector3 position = positions[j];
            double r2 = 0.0;
            for (int x = 0; x < 3; ++x) {
              position[x] += a * cell[0][x] + b * cell[1][x] + c * cell[2][x];
              const double difference = position[x] - positions[i][x];
              r2 += difference * difference;
            }
            if (!(r2 <= cutoff * cutoff)) continue;
            int atom = j;
            if (!is_home) {
              auto [it, is_new] = image_atom.try_emplace({j, a, b, c}, static_cast<int>(s.positions.size()));
              if (is_new) {
                s.positions.push_back(position);
                s.owner.push_back(j);
              }
              atom = it->second;
            }
            nb.sender_atom.push_back(atom);
            nb.sender_row.push_back(j);
          }
    }
    nb.first.push_back(static_cast<int64_t>(nb.sender_atom.size()));
  }
  nb.num_atoms = static_cast<int>(s.positions.size());
  return s;
}

}    // namespace equi
