// SPDX-License-Identifier: MIT
// Searches the translations of a crystal that map its atoms onto themselves.
#include "src/hessian/lattice_translations.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace equi {

namespace {

using Place = std::array<double, 3>;

// Finds the atom at a place with a grid of cells that contain about one atom each.
class Finder {
 public:
  Finder(const std::vector<Place> &fractional, const std::vector<int> &kind, const double (&cell)[3][3],
         const bool (&periodic)[3], double tolerance)
      : fractional_(fractional), kind_(kind), cell_(cell), periodic_(periodic), tolerance_(tolerance) {
    side_ = std::max(1, static_cast<int>(std::cbrt(static_cast<double>(fractional.size()))));
    atoms_.resize(static_cast<size_t>(side_) * side_ * side_);
    for (size_t i = 0; i < fractional.size(); ++i) {
      int at[3];
      for (int k = 0; k < 3; ++k) at[k] = bin(fractional[i][k]);
      atoms_[index(at)].push_back(static_cast<int>(i));
    }
  }

  // Returns -1 if there is none. The bins next to that of the place are searched too.
  int at(const Place &place, int kind) const {
    int center[3];
    for (int k = 0; k < 3; ++k) center[k] = bin(place[k]);
    for (int n = 0; n < 27; ++n) {
      const int near[3] = {shifted(center[0] + n % 3 - 1), shifted(center[1] + n / 3 % 3 - 1),
                           shifted(center[2] + n / 9 - 1)};
      for (const int i : atoms_[index(near)])
        if (kind_[i] == kind && distance(place, fractional_[i]) < tolerance_) return i;
    }
    return -1;
  }

 private:
  int bin(double x) const { return shifted(static_cast<int>(std::floor((x - std::floor(x)) * side_))); }
  int shifted(int b) const { return (b + side_) % side_; }
  size_t index(const int (&b)[3]) const { return (static_cast<size_t>(b[0]) * side_ + b[1]) * side_ + b[2]; }
  double distance(const Place &a, const Place &b) const {
    double d[3] = {0.0, 0.0, 0.0};
    for (int k = 0; k < 3; ++k) {
      double x = a[k] - b[k];
      if (periodic_[k]) x -= std::round(x);
      for (int c = 0; c < 3; ++c) d[c] += x * cell_[k][c];
    }
    return std::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
  }

  const std::vector<Place> &fractional_;
  const std::vector<int> &kind_;
  const double (&cell_)[3][3];
  const bool (&periodic_)[3];
  double tolerance_;
  int side_;
  std::vector<std::vector<int>> atoms_;
};

}    // namespace

Translations::Translations(int num_atoms) : image_(1, std::vector<int>(num_atoms)), orbit_(num_atoms) {
  std::iota(image_[0].begin(), image_[0].end(), 0);
  std::iota(orbit_.begin(), orbit_.end(), 0);
}

std::vector<int> Translations::preimages(int from, int to) const {
  for (const std::vector<int> &image : image_) {
    if (image[from] != to) continue;
    std::vector<int> preimage(image.size());
    for (size_t i = 0; i < image.size(); ++i) preimage[image[i]] = static_cast<int>(i);
    return preimage;
  }
  throw std::logic_error("atoms " + std::to_string(from) + " and " + std::to_string(to) + " are of different orbits");
}

Translations find_translations(const std::vector<Place> &fractional, const std::vector<int> &kind,
                               const double (&cell)[3][3], const bool (&periodic)[3], double tolerance) {
  const int num_atoms = static_cast<int>(fractional.size());
  Translations t(num_atoms);
  const Finder finder(fractional, kind, cell, periodic, tolerance);
  // Atom 0 is mapped onto another atom of its kind; then all other atoms must have an image.
  for (int to = 1; to < num_atoms; ++to) {
    if (kind[to] != kind[0]) continue;
    std::vector<int> image(num_atoms);
    std::vector<bool> taken(num_atoms, false);
    bool maps = true;
    for (int i = 0; i < num_atoms && maps; ++i) {
      Place place = fractional[i];
      for (int k = 0; k < 3; ++k) place[k] += fractional[to][k] - fractional[0][k];
      image[i] = finder.at(place, kind[i]);
      maps = image[i] >= 0 && !taken[image[i]];
      if (maps) taken[image[i]] = true;
    }
    if (!maps) continue;
    for (int i = 0; i < num_atoms; ++i) t.orbit_[image[i]] = std::min(t.orbit_[image[i]], i);
    t.image_.push_back(std::move(image));
  }
  return t;
}

}    // namespace equi
