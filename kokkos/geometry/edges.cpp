// SPDX-License-Identifier: MIT
#include "kokkos/geometry/edges.h"

#include "kokkos/geometry/edge_functions.h"
#include "kokkos/runtime/host_exec.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

namespace {

const HarmonicsNorms NORMS;

// f(i) for i in [0, n), on all threads.
template <class F>
void parallel(const char *label, int64_t n, const F &f) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostExec, Kokkos::IndexType<int64_t>>(0, n), f);
}

// Whether two atoms move alike in all directions.
bool move_alike(const EvaluationRequest &request, int i, int j) {
  for (int d = 0; request.direction && d < request.num_directions; d++) {
    const double(*v)[3] = request.along(d).direction;
    if (!std::equal(v[i], v[i] + 3, v[j])) return false;
  }
  return true;
}

}    // namespace

template <class T, class G>
void Edges<T, G>::set_neighborhood(const Neighborhood &n) {
  neighborhood_ = &n;
  const int64_t num_candidates = n.first[n.num_receivers];

  transposed_begin_.assign(n.num_rows + 1, 0);
  for (int64_t c = 0; c < num_candidates; c++) transposed_begin_[n.sender_row[c] + 1]++;
  for (int r = 0; r < n.num_rows; r++) transposed_begin_[r + 1] += transposed_begin_[r];
  transposed_.resize(num_candidates);
  transposed_receiver_.resize(num_candidates);
  std::vector<int64_t> next(transposed_begin_.begin(), transposed_begin_.end() - 1);
  for (int i = 0; i < n.num_receivers; i++)
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
      const int64_t k = next[n.sender_row[c]]++;
      transposed_[k] = c;
      transposed_receiver_[k] = i;
    }

  row_atom_.assign(n.num_rows, -1);
  for (int i = 0; i < n.num_receivers; i++) row_atom_[i] = n.receiver[i];
  for (int r = n.num_receivers; r < n.num_rows; r++)
    if (transposed_begin_[r] < transposed_begin_[r + 1])
      row_atom_[r] = n.sender_atom[transposed_[transposed_begin_[r]]];
}

template <class T, class G>
void Edges<T, G>::build(const EvaluationRequest &request) {
  const Neighborhood &n = *neighborhood_;
  const int N = n.num_receivers, num_y = num_y_;
  const int num_directions = request.energy_moments ? EnergyMoments::DIRECTIONS : request.num_directions;
  const double(*x)[3] = request.positions;
  num_directions_ = num_directions;
  int64_t *begin = begin_.reserve(N + 1);
  int64_t *candidate_edge = candidate_edge_.reserve(n.first[N]);
  int64_t *num_rigid = IS_DUAL<G> ? num_rigid_.reserve(N) : nullptr;

  begin[0] = 0;
  parallel("equi:count", N, [&](int64_t i) {
    const double *xi = x[n.receiver[i]];
    const double *of_pair =
        pair_cutoff_.data.empty() ? nullptr : &pair_cutoff_.data[n.row_species[i] * pair_cutoff_.cols];
    int64_t count = 0;
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
      const double *xj = x[n.sender_atom[c]];
      const double cutoff = of_pair ? of_pair[n.row_species[n.sender_row[c]]] : cutoff_;
      const bool inside = is_edge(xi, xj, cutoff);
      candidate_edge[c] = inside ? count : -1;
      count += inside;
    }
    begin[i + 1] = count;
    if constexpr (IS_DUAL<G>) {
      int64_t number = 0;
      for (const bool rigid : {true, false}) {
        for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
          const int j = n.sender_atom[c];
          if (candidate_edge[c] >= 0 && rigid == move_alike(request, n.receiver[i], j)) candidate_edge[c] = number++;
        }
        if (rigid) num_rigid[i] = number;
      }
    }
  });
  for (int i = 0; i < N; i++) begin[i + 1] += begin[i];
  size_ = begin[N];

  int *sender_row = sender_row_.reserve(size_), *sender_species = sender_species_.reserve(size_);
  const int64_t size = size_;
  distance_.reserve(num_directions * size);
  unit_vector_.reserve(3 * num_directions * size);
  harmonics_.reserve(num_y * num_directions * size);
  adjoint_.reserve(num_y * num_directions * size);
  // The candidate of the closest pair, or -1 - i for a receiver whose position is not finite.
  Kokkos::MinLoc<double, int64_t>::value_type closest;
  Kokkos::parallel_reduce(
      "equi:edges", Kokkos::RangePolicy<HostExec, Kokkos::IndexType<int64_t>>(0, N),
      [&](int64_t i, Kokkos::ValLocScalar<double, int64_t> &best) {
        const double *xi = x[n.receiver[i]];
        if (!is_finite(xi)) best = {BROKEN_DISTANCE, -1 - i};
        for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
          if (candidate_edge[c] < 0) continue;
          const int64_t e = begin[i] + candidate_edge[c];
          candidate_edge[c] = e;
          const int j = n.sender_atom[c];
          sender_row[e] = n.sender_row[c];
          sender_species[e] = n.row_species[n.sender_row[c]];
          for (int along = 0; along < num_directions; along++) {
            const int moment = request.energy_moments ? along - 1 : -1;
            const double(*v)[3] = request.along(request.energy_moments ? 0 : along).direction;
            note_closest(best, arrays(along).set(NORMS, e, x[0], v ? v[0] : nullptr, n.receiver[i], j, moment), c);
            std::fill_n(adjoint(along) + num_y * e, num_y, G(0));
          }
        }
      },
      Kokkos::MinLoc<double, int64_t>(closest));
  collision_ = {};
  if (closest.val < MIN_DISTANCE && closest.loc < 0) {
    collision_ = {n.receiver[-1 - closest.loc], -1, closest.val};
  } else if (closest.val < MIN_DISTANCE) {
    const int64_t i = std::upper_bound(n.first.begin(), n.first.end(), closest.loc) - n.first.begin() - 1;
    collision_ = {n.receiver[i], n.sender_atom[closest.loc], closest.val};
  }
}

template <class T, class G>
EdgeArrays<T, G> Edges<T, G>::arrays(int d) {
  return {lmax_,         distance_.data() + d * size_,           unit_vector_.data() + 3 * d * size_,
          force_.data(), harmonics_.data() + num_y_ * d * size_, adjoint(d)};
}

template <class T, class G>
void Edges<T, G>::finish(const EvaluationRequest &request, EvaluationResult &result) {
  for (int d = 0; d < num_directions_; d++) finish_direction(request.along(d), d, result);
}

template <class T, class G>
void Edges<T, G>::finish_direction(const EvaluationRequest &request, int d, EvaluationResult &result) {
  using D = DoubleOf<G>;
  const Neighborhood &n = *neighborhood_;
  const int N = n.num_receivers;
  const int64_t *begin = begin_.data();
  force_.reserve(3 * size_);
  const EdgeArrays<T, G> edges = arrays(d);
  const bool virial = request.virial || request.atom_virial;
  double *receiver_virial = virial ? receiver_virial_.reserve(9 * N) : nullptr;

  const auto add_force = [&](int atom, double sign, const D f[3]) {
    for (int k = 0; k < 3; k++) {
      if (request.forces) request.forces[atom][k] += sign * value_of(f[k]);
      if (request.force_tangents) request.force_tangents[atom][k] += sign * tangent_of(f[k]);
    }
  };

  parallel("equi:edge_force", N, [&](int64_t i) {
    D f[3] = {0, 0, 0};
    double v[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    for (int64_t e = begin[i]; e < begin[i + 1]; e++) {
      edges.set_force(NORMS, e);
      edges.add_force(e, f, v, virial);
    }
    add_force(n.receiver[i], 1.0, f);
    if (virial)
      for (int k = 0; k < 9; k++) receiver_virial[9 * i + k] = v[k];
  });

  // What senders feel, gathered row by row in a fixed order. Copies of an atom on this rank share its row, so that most
  // ghosts need nothing.
  parallel("equi:senders", n.num_rows, [&](int64_t row) {
    D f[3] = {0, 0, 0};
    double v[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (row_atom_[row] < 0) return;
    for (int64_t k = transposed_begin_[row]; k < transposed_begin_[row + 1]; k++) {
      const int64_t e = transposed_edge(k);
      if (e >= 0) edges.add_force(e, f, v, request.atom_virial != nullptr);
    }
    add_force(row_atom_[row], -1.0, f);
    if (request.atom_virial)
      for (int a = 0; a < 9; a++) request.atom_virial[row_atom_[row]][a] += 0.5 * v[a];
  });

  if (request.atom_virial)
    for (int i = 0; i < N; i++)
      for (int k = 0; k < 9; k++) request.atom_virial[n.receiver[i]][k] += 0.5 * receiver_virial[9 * i + k];
  if (request.virial)
    for (int i = 0; i < N; i++) {
      const double *v = receiver_virial + 9 * i;
      for (int k = 0; k < 3; k++) result.virial[k] += v[k];
      for (int k = 3; k < 6; k++) result.virial[k] += 0.5 * (v[k] + v[k + 3]);
    }
}

template <class T, class G>
std::size_t Edges<T, G>::bytes() const {
  return begin_.bytes() + candidate_edge_.bytes() + sender_row_.bytes() + sender_species_.bytes() + distance_.bytes() +
         unit_vector_.bytes() + adjoint_.bytes() + force_.bytes() + harmonics_.bytes() + num_rigid_.bytes() +
         receiver_virial_.bytes() + transposed_.size() * (sizeof(int64_t) + sizeof(int)) +
         transposed_begin_.size() * sizeof(int64_t) + row_atom_.size() * sizeof(int);
}

template <class T, class G>
std::size_t Edges<T, G>::growth(int64_t num_edges) const {
  const int64_t N = neighborhood_->num_receivers, of_directions = num_directions_ * num_edges;
  return begin_.growth(N + 1) + (IS_DUAL<G> ? num_rigid_.growth(N) : 0) +
         candidate_edge_.growth(neighborhood_->first[N]) + sender_row_.growth(num_edges) +
         sender_species_.growth(num_edges) + distance_.growth(of_directions) + unit_vector_.growth(3 * of_directions) +
         adjoint_.growth(num_y_ * of_directions) + force_.growth(3 * num_edges) +
         harmonics_.growth(num_y_ * of_directions) + receiver_virial_.growth(9 * N);
}

EQUI_INSTANTIATE_PRECISIONS(Edges)

}    // namespace equi
