// SPDX-License-Identifier: MIT
// Calls vesin, and turns its pairs into receivers, senders and images.
#include "src/library/structure_neighbors.h"

#include "src/numbers/vector3.h"

#include <vesin.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

namespace equi {

namespace {

bool is_finite(const Vector3 &v) {
  return std::isfinite(v[0]) && std::isfinite(v[1]) && std::isfinite(v[2]);
}

// Subtracts the parts of v along the unit vectors, and scales it to length 1. Returns its length before that.
double make_orthonormal(Vector3 &v, const std::vector<Vector3> &units) {
  for (const Vector3 &unit : units) {
    const double along = dot(v, unit);
    for (int d = 0; d < 3; ++d) v[d] -= along * unit[d];
  }
  const double length = std::sqrt(dot(v, v));
  for (int d = 0; d < 3; ++d) v[d] /= length;
  return length;
}

// A box with periodicity in all directions that has the same neighbors: along the directions without it, the vectors
// are normal to all others and longer than the structure and the cutoff together. heights: distances of opposite
// faces; extents: those, or the length of the structure where there is no periodicity.
struct FullBox {
  double vectors[3][3];
  double heights[3], extents[3];
  Vector3 inverse[3];    // r . inverse[k] is the fractional coordinate k
};

FullBox make_full_box(const PeriodicCell &cell, const std::vector<Vector3> &positions, double reach) {
  constexpr double DEPENDENT = 1e-10;    // ratio of a height and the length of the vector
  FullBox box{};
  std::vector<Vector3> units;
  for (int k = 0; k < 3; ++k) {
    if (!cell.periodic[k]) continue;
    Vector3 v = {cell.vectors[k][0], cell.vectors[k][1], cell.vectors[k][2]};
    if (!is_finite(v)) throw std::invalid_argument("a vector of the cell is not finite");
    const double length = std::sqrt(dot(v, v));
    if (!(length > 1e-6))
      throw std::invalid_argument("periodic direction " + std::to_string(k + 1) + " without a cell vector");
    std::copy_n(cell.vectors[k], 3, box.vectors[k]);
    if (!(make_orthonormal(v, units) > DEPENDENT * length))
      throw std::invalid_argument("the cell has no volume: its periodic vectors are not independent");
    units.push_back(v);
  }
  for (int k = 0; k < 3; ++k) {
    if (cell.periodic[k]) continue;
    Vector3 normal{};
    double longest = 0.0;
    for (int axis = 0; axis < 3; ++axis) {
      Vector3 trial{};
      trial[axis] = 1.0;
      const double length = make_orthonormal(trial, units);
      if (length <= longest) continue;
      longest = length;
      normal = trial;
    }
    make_orthonormal(normal, units);    // once more, against rounding
    double low = std::numeric_limits<double>::max(), high = -low;
    for (const Vector3 &r : positions) {
      low = std::min(low, dot(r, normal));
      high = std::max(high, dot(r, normal));
    }
    box.extents[k] = high - low;
    for (int d = 0; d < 3; ++d) box.vectors[k][d] = normal[d] * (box.extents[k] + reach + 1.0);
    units.push_back(normal);
  }
  // Without any periodicity, a long structure gets a cube: see check_size().
  const double longest = *std::max_element(box.extents, box.extents + 3) + reach + 1.0;
  if (!cell.periodic[0] && !cell.periodic[1] && !cell.periodic[2] && longest > 50.0 * reach)
    for (int k = 0; k < 3; ++k)
      for (int d = 0; d < 3; ++d) box.vectors[k][d] = units[k][d] * longest;
  Vector3 rows[3];
  for (int k = 0; k < 3; ++k) std::copy_n(box.vectors[k], 3, rows[k].data());
  const double volume = dot(rows[0], cross(rows[1], rows[2]));
  for (int k = 0; k < 3; ++k) {
    Vector3 normal = cross(rows[(k + 1) % 3], rows[(k + 2) % 3]);
    box.heights[k] = std::fabs(volume) / std::sqrt(dot(normal, normal));
    if (cell.periodic[k]) box.extents[k] = box.heights[k];
    for (double &component : normal) component /= volume;
    box.inverse[k] = normal;
  }
  return box;
}

// Refuses what would overflow vesin's integers, or the memory.
void check_size(const PeriodicCell &cell, const FullBox &box, const std::vector<Vector3> &positions, double reach,
                double memory) {
  constexpr double FARTHEST = 1e8;    // cells from the origin
  for (const Vector3 &r : positions)
    for (const Vector3 &inverse : box.inverse)
      if (!(std::fabs(dot(r, inverse)) < FARTHEST))
        throw std::invalid_argument("positions lie too many lattice vectors apart");
  // vesin reduces the number of its cells to this one by the same factor in each direction. None may be left without a
  // cell.
  constexpr double MOST_CELLS = 1e5;
  double num_cells = 1.0, fewest = std::numeric_limits<double>::max();
  for (const double height : box.heights) {
    const double count = std::max(1.0, std::trunc(height / reach));
    num_cells *= count;
    fewest = std::min(fewest, count);
  }
  if (num_cells > MOST_CELLS && fewest * std::cbrt(MOST_CELLS / num_cells) < 2.0)
    throw std::invalid_argument("the search for neighbors needs a structure that is less flat or thin for its length");
  // Pairs within spheres, if the density is uniform, with the bytes of a pair in all lists.
  constexpr double BYTES = 60.0, SPHERE_IN_CUBE = 0.52;
  const double num_atoms = static_cast<double>(positions.size());
  double pairs = SPHERE_IN_CUBE * num_atoms * num_atoms;
  for (int k = 0; k < 3; ++k) {
    const double share = 2.0 * reach / std::max(box.extents[k], 1e-6);
    pairs *= cell.periodic[k] ? share : std::min(1.0, share);
  }
  if (memory > 0.0 && BYTES * pairs > memory) {
    char text[200];
    std::snprintf(text, sizeof text,
                  "the cell is so small that its %zu atoms have about %.2g neighbors, which need %.2g GB",
                  positions.size(), pairs, BYTES * pairs * 1e-9);
    throw std::invalid_argument(text);
  }
}

// The list of vesin, freed at the end of its life.
struct VesinPairs {
  VesinNeighborList list;
  VesinPairs() = default;
  ~VesinPairs() { vesin_free(&list); }
  VesinPairs(const VesinPairs &) = delete;
  VesinPairs &operator=(const VesinPairs &) = delete;
};

void find_pairs(const FullBox &box, const std::vector<Vector3> &positions, double reach, VesinPairs &pairs) {
  VesinOptions options{};
  options.cutoff = reach;
  options.full = true;
  options.algorithm = VesinAutoAlgorithm;
  options.n_threads = 1;    // threads of its own would compete with those of OpenMP
  options.return_shifts = true;
  const bool periodic[3] = {true, true, true};
  const char *fault = nullptr;
  if (vesin_neighbors(reinterpret_cast<const double(*)[3]>(positions.data()), positions.size(), box.vectors, periodic,
                      {VesinCPU, 0}, options, &pairs.list, &fault) != 0)
    throw std::runtime_error(std::string("the neighbor list failed: ") + (fault ? fault : "no reason is known"));
}

struct ImageHash {
  std::size_t operator()(const std::array<int, 4> &image) const {
    std::size_t hash = 0;
    for (const int number : image) hash = hash * 1000003u ^ static_cast<unsigned>(number);
    return hash;
  }
};

}    // namespace

bool PeriodicCell::operator==(const PeriodicCell &other) const {
  // Sums over a slab and its images depend on the third vector, too.
  const bool is_open = !periodic[0] && !periodic[1] && !periodic[2];
  for (int k = 0; k < 3; ++k)
    if (periodic[k] != other.periodic[k] || (!is_open && !std::equal(vectors[k], vectors[k] + 3, other.vectors[k])))
      return false;
  return true;
}

bool StructureNeighbors::is_kept(const std::vector<Vector3> &positions, const std::vector<int> &species,
                                 const PeriodicCell &cell) const {
  if (!is_valid_ || !(cell == cell_) || species != neighborhood_.row_species) return false;
  const double most = 0.25 * skin_ * skin_;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    double square = 0.0;
    for (int d = 0; d < 3; ++d) square += (positions[i][d] - built_for_[i][d]) * (positions[i][d] - built_for_[i][d]);
    if (!(square <= most)) return false;
  }
  return true;
}

void StructureNeighbors::build(const std::vector<Vector3> &positions, const std::vector<int> &species, double memory) {
  const double reach = cutoff_ + skin_;
  const int n = static_cast<int>(positions.size());
  // Relative to the first atom: only distances matter, and a structure far from the origin keeps its digits.
  std::vector<Vector3> relative = positions;
  for (Vector3 &r : relative)
    for (int d = 0; d < 3; ++d) r[d] -= positions[0][d];
  const FullBox box = make_full_box(cell_, relative, reach);
  check_size(cell_, box, relative, reach, memory);
  VesinPairs pairs;
  find_pairs(box, relative, reach, pairs);

  owner_.resize(n);
  shift_.assign(n, {});
  for (int i = 0; i < n; ++i) owner_[i] = i;
  Neighborhood &nb = neighborhood_;
  nb = {};
  for (int k = 0; k < 3; ++k) {
    nb.box.periodic[k] = cell_.periodic[k];
    std::copy_n(cell_.vectors[k], 3, nb.box.vectors[k].data());
  }
  nb.num_receivers = nb.num_interior = nb.num_rows = n;
  nb.row_species = species;
  nb.receiver = owner_;
  nb.first.assign(n + 1, 0);
  const std::size_t num_pairs = pairs.list.length;
  for (std::size_t p = 0; p < num_pairs; ++p) nb.first[pairs.list.pairs[p][0] + 1]++;
  for (int i = 0; i < n; ++i) nb.first[i + 1] += nb.first[i];
  std::vector<int64_t> next(nb.first.begin(), nb.first.end() - 1);
  nb.sender_atom.resize(num_pairs);
  nb.sender_row.resize(num_pairs);
  std::unordered_map<std::array<int, 4>, int, ImageHash> image_atom;    // (owner, shifts) -> atom
  for (std::size_t p = 0; p < num_pairs; ++p) {
    const int i = static_cast<int>(pairs.list.pairs[p][0]), j = static_cast<int>(pairs.list.pairs[p][1]);
    const int *shift = pairs.list.shifts[p];
    int atom = j;
    if (shift[0] != 0 || shift[1] != 0 || shift[2] != 0) {
      const auto [at, is_new] =
          image_atom.try_emplace({j, shift[0], shift[1], shift[2]}, static_cast<int>(owner_.size()));
      if (is_new) {
        owner_.push_back(j);
        shift_.push_back({shift[0], shift[1], shift[2]});
      }
      atom = at->second;
    }
    nb.sender_atom[next[i]] = atom;
    nb.sender_row[next[i]++] = j;
  }
  nb.num_atoms = static_cast<int>(owner_.size());
}

void StructureNeighbors::move_images(const std::vector<Vector3> &positions) {
  positions_.resize(owner_.size());
  std::copy(positions.begin(), positions.end(), positions_.begin());
  for (std::size_t a = positions.size(); a < owner_.size(); ++a)
    for (int d = 0; d < 3; ++d) {
      positions_[a][d] = positions[owner_[a]][d];
      for (int k = 0; k < 3; ++k) positions_[a][d] += shift_[a][k] * (cell_.periodic[k] ? cell_.vectors[k][d] : 0.0);
    }
}

bool StructureNeighbors::update(const std::vector<Vector3> &positions, const std::vector<int> &species,
                                const PeriodicCell &cell, double memory) {
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (!is_finite(positions[i]))
      throw std::invalid_argument("the position of atom " + std::to_string(i) + " is not finite");
  const bool is_same = is_kept(positions, species, cell);
  if (!is_same) {
    is_valid_ = false;
    cell_ = cell;
    build(positions, species, memory);
    built_for_ = positions;
    is_valid_ = true;
  }
  move_images(positions);
  return !is_same;
}

}    // namespace equi
