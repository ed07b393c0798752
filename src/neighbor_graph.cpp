#include "neighbor_graph.h"

#include <cmath>
#include <map>
#include <stdexcept>

namespace equi {

namespace {

using Vector = std::array<double, 3>;

double dot(const Vector &a, const Vector &b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

}    // namespace

ImageStructure build_image_structure(const std::vector<Vector> &positions, const std::vector<int> &species,
                                     const double cell[3][3], const bool periodic[3], double cutoff) {
  if (species.size() != positions.size())
    throw std::invalid_argument("structure with " + std::to_string(positions.size()) + " positions and " +
                                std::to_string(species.size()) + " species");

  // For each periodic direction the unit vector along the part of its lattice vector that is orthogonal to the other
  // periodic ones. Along it a lattice vector advances by `height` and all others by nothing, so the images within the
  // cutoff of a pair are bounded direction by direction, whatever the shape of the cell.
  Vector normal[3] = {};
  double height[3] = {};
  for (int k = 0; k < 3; ++k) {
    if (!periodic[k]) continue;
    Vector rest = {cell[k][0], cell[k][1], cell[k][2]};
    const double length = std::sqrt(dot(rest, rest));
    std::vector<Vector> basis;    // orthonormal, of the other periodic directions
    for (int o = 0; o < 3; ++o) {
      if (o == k || !periodic[o]) continue;
      Vector b = {cell[o][0], cell[o][1], cell[o][2]};
      for (const Vector &e : basis) {
        const double c = dot(b, e);
        for (int d = 0; d < 3; ++d) b[d] -= c * e[d];
      }
      const double norm = std::sqrt(dot(b, b));
      if (!(norm > 0.0)) continue;    // found again when this direction is k
      for (int d = 0; d < 3; ++d) b[d] /= norm;
      basis.push_back(b);
    }
    for (const Vector &e : basis) {
      const double c = dot(rest, e);
      for (int d = 0; d < 3; ++d) rest[d] -= c * e[d];
    }
    height[k] = std::sqrt(dot(rest, rest));
    if (!(height[k] > 1e-10 * length) || !std::isfinite(height[k]))
      throw std::invalid_argument("the periodic lattice vectors are not independent");
    for (int d = 0; d < 3; ++d) normal[k][d] = rest[d] / height[k];
  }

  const int n = static_cast<int>(positions.size());
  ImageStructure s;
  s.positions = positions;
  for (int i = 0; i < n; ++i) s.owner.push_back(i);
  Neighborhood &nb = s.neighborhood;
  nb.num_receivers = nb.num_interior = nb.num_rows = n;
  nb.row_species = species;
  nb.first.push_back(0);

  std::map<std::array<int, 4>, int> image_atom;    // (owner, shifts) -> atom
  for (int i = 0; i < n; ++i) {
    nb.receiver.push_back(i);
    for (int j = 0; j < n; ++j) {
      const Vector d = {positions[j][0] - positions[i][0], positions[j][1] - positions[i][1],
                        positions[j][2] - positions[i][2]};
      int low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
      for (int k = 0; k < 3; ++k) {
        if (!periodic[k]) continue;
        const double along = dot(d, normal[k]), slack = 1e-9 * height[k];    // rounding must not lose an image
        low[k] = static_cast<int>(std::ceil((-cutoff - slack - along) / height[k]));
        high[k] = static_cast<int>(std::floor((cutoff + slack - along) / height[k]));
      }
      for (int a = low[0]; a <= high[0]; ++a)
        for (int b = low[1]; b <= high[1]; ++b)
          for (int c = low[2]; c <= high[2]; ++c) {
            const bool is_home = a == 0 && b == 0 && c == 0;
            if (is_home && i == j) continue;
            Vector position = positions[j];
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
