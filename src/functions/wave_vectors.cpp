// SPDX-License-Identifier: MIT
// Selects the wave vectors of an Ewald sum.
#include "src/functions/wave_vectors.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace equi {

namespace {

// A cubic cell may have wave vectors exactly on the surface. This margin keeps them out in every orientation.
constexpr double SURFACE = 1e-10;

// One of each pair of opposite integers, without 0.
bool is_chosen(int n1, int n2, int n3) {
  return n1 > 0 || (n1 == 0 && (n2 > 0 || (n2 == 0 && n3 > 0)));
}

}    // namespace

double cell_volume(const CellMatrix &cell) {
  return std::abs(dot(cell[0], cross(cell[1], cell[2])));
}

CellMatrix dual_basis(const CellMatrix &cell) {
  const double volume = dot(cell[0], cross(cell[1], cell[2]));
  // NaN fails this test.
  if (!(std::abs(volume) > 0.0) || !std::isfinite(volume))
    throw std::invalid_argument("an Ewald sum needs a cell with a volume");
  CellMatrix dual;
  for (int d = 0; d < 3; d++) {
    dual[d] = cross(cell[(d + 1) % 3], cell[(d + 2) % 3]);
    for (double &x : dual[d]) x /= volume;
  }
  return dual;
}

double WaveVectors::converged_cutoff(double sigma, double tolerance) {
  return std::sqrt(-2.0 * std::log(tolerance)) / sigma;
}

Vector3 WaveVectors::vector(int n1, int n2, int n3) const {
  Vector3 k;
  for (int a = 0; a < 3; a++)
    k[a] = TWO_PI * (n1 * reciprocal_[0][a] + n2 * reciprocal_[1][a] + n3 * reciprocal_[2][a]);
  return k;
}

void WaveVectors::deform(const CellMatrix &cell) {
  reciprocal_ = dual_basis(cell);
  volume_ = cell_volume(cell);
}

// |n_d| = |k . a_d| / 2 pi is less than a bound.
WaveVectors::Extent WaveVectors::extent(const CellMatrix &cell, double cutoff) {
  Extent extent{};
  double places = 1.0;
  for (int d = 0; d < 3; d++) {
    const double bound = cutoff * std::sqrt(dot(cell[d], cell[d])) / TWO_PI;
    places *= 2.0 * bound + 1.0;
    if (!(places < 8.0 * MAX_SIZE))
      throw std::invalid_argument("an Ewald sum with the cutoff " + std::to_string(cutoff) +
                                  "/Angstrom has too many wave vectors in this cell");
    extent.largest[d] = static_cast<int>(bound);
  }
  const auto &[n1, n2, n3] = extent.largest;
  extent.most = static_cast<int64_t>(n1 + 1) * (2 * n2 + 1) * (2 * n3 + LANES);
  return extent;
}

WaveVectors::WaveVectors(const CellMatrix &cell, double cutoff) {
  deform(cell);
  largest_ = extent(cell, cutoff).largest;
  const double square = cutoff * cutoff * (1.0 - SURFACE);
  const auto has = [&](int n1, int n2, int n3) {
    if (!is_chosen(n1, n2, n3)) return false;
    const Vector3 k = vector(n1, n2, n3);
    return dot(k, k) < square;
  };
  for (int n2 = -largest_[1]; n2 <= largest_[1]; n2++)
    for (int n3 = -largest_[2]; n3 <= largest_[2]; n3 += LANES) {
      Tile tile{n2, n3, largest_[0] + 1, 0, size()};
      for (int n1 = 0; n1 <= largest_[0]; n1++)
        for (int lane = 0; lane < LANES; lane++)
          if (n3 + lane <= largest_[2] && has(n1, n2, n3 + lane)) {
            tile.first_n1 = std::min(tile.first_n1, n1);
            tile.end_n1 = n1 + 1;
          }
      if (tile.end_n1 <= tile.first_n1) continue;
      for (int n1 = tile.first_n1; n1 < tile.end_n1; n1++)
        for (int lane = 0; lane < LANES; lane++) {
          const bool is_in = n3 + lane <= largest_[2] && has(n1, n2, n3 + lane);
          present_.push_back(is_in);
          count_ += is_in;
        }
      tiles_.push_back(tile);
    }
  if (size() > MAX_SIZE) throw std::invalid_argument("an Ewald sum has too many wave vectors in this cell");
}

}    // namespace equi
