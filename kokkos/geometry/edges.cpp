// SPDX-License-Identifier: MIT
// Builds the edges of an evaluation on the host, and sums their derivatives to forces and virials.
#include "kokkos/geometry/edges.h"

#include "kokkos/geometry/edge_functions.h"
#include "kokkos/runtime/host_exec.h"
#include "src/numbers/number_types.h"

#include <algorithm>

namespace equi {

namespace {

const HarmonicsNorms NORMS;

// Calls f(i) for i in [0, n), on all threads.
template <class F>
void parallel(const char *label, int64_t n, const F &f) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostExec, Kokkos::IndexType<int64_t>>(0, n), f);
}

// Edges that the kernels handle side by side (EdgeKernels).
struct Lanes {
  alignas(64) double vector[3 * MAX_EDGE_LANES], length[MAX_EDGE_LANES], unit[3 * MAX_EDGE_LANES];
  alignas(64) double y[MAX_HARMONICS * MAX_EDGE_LANES];
};

// Whether two atoms move alike in all directions.
bool move_alike(const EvaluationRequest &request, int i, int j) {
  for (int d = 0; request.direction && d < request.num_directions; d++) {
    const double(*v)[3] = request.along(d).direction;
    if (!std::equal(v[i], v[i] + 3, v[j])) return false;
  }
  return true;
}

}    // namespace

template <class T>
bool Edges<T>::borrow(const Edges &other) {
  if (lmax_ != other.lmax_ || cutoff_ != other.cutoff_ || pair_cutoff_.cols != other.pair_cutoff_.cols ||
      pair_cutoff_.data != other.pair_cutoff_.data || !(nearest_ == other.nearest_))
    return false;
  data_ = other.data_;
  is_borrowed_ = true;
  return true;
}

template <class T>
void Edges<T>::set_neighborhood(const Neighborhood &n) {
  if (is_borrowed_) return;
  data_->neighborhood = &n;
  const int64_t num_candidates = n.first[n.num_receivers];

  data_->transposed_begin.assign(n.num_rows + 1, 0);
  for (int64_t c = 0; c < num_candidates; c++) data_->transposed_begin[n.sender_row[c] + 1]++;
  for (int r = 0; r < n.num_rows; r++) data_->transposed_begin[r + 1] += data_->transposed_begin[r];
  data_->transposed.resize(num_candidates);
  data_->transposed_receiver.resize(num_candidates);
  std::vector<int64_t> next(data_->transposed_begin.begin(), data_->transposed_begin.end() - 1);
  for (int i = 0; i < n.num_receivers; i++)
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
      const int64_t k = next[n.sender_row[c]]++;
      data_->transposed[k] = static_cast<int>(c - n.first[i]);
      data_->transposed_receiver[k] = i;
    }

  const auto first_candidate_of = [&](int row) {
    const int64_t k = data_->transposed_begin[row];
    return n.first[data_->transposed_receiver[k]] + data_->transposed[k];
  };
  data_->row_atom.assign(n.num_rows, -1);
  for (int i = 0; i < n.num_receivers; i++) data_->row_atom[i] = n.receiver[i];
  for (int r = n.num_receivers; r < n.num_rows; r++)
    if (data_->transposed_begin[r] < data_->transposed_begin[r + 1])
      data_->row_atom[r] = n.sender_atom[first_candidate_of(r)];
}

template <class T>
void Edges<T>::find(const EvaluationRequest &request) {
  if (is_borrowed_) return;
  const Neighborhood &n = *data_->neighborhood;
  const int N = n.num_receivers;
  const double(*x)[3] = request.positions;
  data_->num_directions = request.energy_moments ? EnergyMoments::DIRECTIONS : request.num_directions;
  data_->collision = {};
  int64_t *begin = data_->begin.reserve(N + 1);
  int *candidate_edge = data_->candidate_edge.reserve(n.first[N]);
  int64_t *num_rigid = IS_DUAL<D> ? data_->num_rigid.reserve(N) : nullptr;

  begin[0] = 0;
  parallel("equi:count", N, [&](int64_t i) {
    const double *xi = x[n.receiver[i]];
    const double *of_pair =
        pair_cutoff_.data.empty() ? nullptr : &pair_cutoff_.data[n.row_species[i] * pair_cutoff_.cols];
    int count = 0;
    for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
      const double *xj = x[n.sender_atom[c]];
      const double cutoff = of_pair ? of_pair[n.row_species[n.sender_row[c]]] : cutoff_;
      const bool inside = is_edge(xi, xj, cutoff);
      candidate_edge[c] = inside ? count : -1;
      count += inside;
    }
    if (nearest_.count > 0 && count > nearest_.count) {
      const auto square = [&](int64_t c) {
        return candidate_edge[c] < 0 ? -1.0 : square_distance(xi, x[n.sender_atom[c]]);
      };
      drop_far_neighbors(nearest_, n.first[i], n.first[i + 1], square, [&](int64_t c) { candidate_edge[c] = -1; });
      count = 0;
      for (int64_t c = n.first[i]; c < n.first[i + 1]; c++)
        if (candidate_edge[c] >= 0) candidate_edge[c] = count++;
    }
    begin[i + 1] = count;
    if constexpr (IS_DUAL<D>) {
      int number = 0;
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
  data_->size = begin[N];
}

template <class T>
void Edges<T>::set(const EvaluationRequest &request, int first, int last) {
  const int num_directions = data_->num_directions, num_y = num_y_;
  if (is_borrowed_) {
    const int64_t width = num_y * num_directions;
    parallel("equi:adjoint", data_->size, [&](int64_t e) { std::fill_n(adjoint() + width * e, width, D(0)); });
    return;
  }
  const Neighborhood &n = *data_->neighborhood;
  const double(*x)[3] = request.positions;
  data_->first_receiver = first;
  data_->last_receiver = last;
  data_->first_present = data_->begin.data()[first];
  data_->num_present = size(first, last);
  data_->is_divided = last - first < n.num_receivers;
  if (data_->is_divided) {
    int64_t *present = data_->present_begin.reserve(n.num_receivers + 1);
    for (int i = first; i <= last; i++) present[i] = data_->begin.data()[i] - data_->first_present;
  }
  const int64_t size = data_->num_present;
  int *sender_row = data_->sender_row.reserve(size), *sender_species = data_->sender_species.reserve(size);
  data_->distance.reserve(num_directions * size);
  data_->unit_vector.reserve(3 * num_directions * size);
  data_->harmonics.reserve(num_y * num_directions * size);
  data_->adjoint.reserve(num_y * num_directions * size);
  const int64_t *begin = this->begin();
  const int *candidate_edge = data_->candidate_edge.data();
  // The candidate of the closest pair, or -1 - i for a receiver i whose position is not finite.
  Kokkos::MinLoc<double, int64_t>::value_type closest;
  Kokkos::parallel_reduce(
      "equi:edges", Kokkos::RangePolicy<HostExec, Kokkos::IndexType<int64_t>>(first, last),
      [&](int64_t i, Kokkos::ValLocScalar<double, int64_t> &best) {
        if (!is_finite(x[n.receiver[i]])) best = {BROKEN_DISTANCE, -1 - i};
        for (int64_t c = n.first[i]; c < n.first[i + 1]; c++) {
          if (candidate_edge[c] < 0) continue;
          const int64_t e = begin[i] + candidate_edge[c];
          sender_row[e] = n.sender_row[c];
          sender_species[e] = n.row_species[n.sender_row[c]];
        }
        if constexpr (IS_DUAL<D>)
          set_duals(request, static_cast<int>(i), best);
        else
          set_edges(request, static_cast<int>(i), best);
        for (int d = 0; d < num_directions; d++)
          std::fill_n(adjoint(d) + num_y * begin[i], num_y * (begin[i + 1] - begin[i]), D(0));
      },
      Kokkos::MinLoc<double, int64_t>(closest));
  if (!(closest.val < MIN_DISTANCE)) return;
  if (data_->collision.atom_i >= 0 && !(closest.val < data_->collision.distance)) return;
  if (closest.loc < 0) {
    data_->collision = {n.receiver[-1 - closest.loc], -1, closest.val};
  } else {
    const int64_t i = std::upper_bound(n.first.begin(), n.first.end(), closest.loc) - n.first.begin() - 1;
    data_->collision = {n.receiver[i], n.sender_atom[closest.loc], closest.val};
  }
}

// Computes the edges of a receiver, several at a time.
template <class T>
template <class Closest>
void Edges<T>::set_edges(const EvaluationRequest &request, int receiver, Closest &closest) {
  const Neighborhood &n = *data_->neighborhood;
  const double(*x)[3] = request.positions;
  const double *xi = x[n.receiver[receiver]];
  const EdgeArrays<T> edges = arrays(0);
  const int lanes = kernels_.lanes;
  Lanes block;
  int64_t candidate[MAX_EDGE_LANES];
  int64_t e = begin()[receiver];
  int filled = 0;
  const auto write = [&] {
    kernels_.harmonics(NORMS, lmax_, block.vector, block.length, block.unit, block.y);
    for (int lane = 0; lane < filled; lane++, e++) {
      note_closest(closest, block.length[lane] >= 0.0 ? block.length[lane] : BROKEN_DISTANCE, candidate[lane]);
      edges.distance[e] = static_cast<D>(block.length[lane]);
      for (int k = 0; k < 3; k++) edges.unit[3 * e + k] = static_cast<D>(block.unit[k * lanes + lane]);
      for (int k = 0; k < num_y_; k++) edges.y[num_y_ * e + k] = static_cast<T>(block.y[k * lanes + lane]);
    }
    filled = 0;
  };
  std::fill_n(block.vector, 3 * lanes, 1.0);
  for (int64_t c = n.first[receiver]; c < n.first[receiver + 1]; c++) {
    if (data_->candidate_edge.data()[c] < 0) continue;
    for (int k = 0; k < 3; k++) block.vector[k * lanes + filled] = x[n.sender_atom[c]][k] - xi[k];
    candidate[filled++] = c;
    if (filled == lanes) write();
  }
  if (filled > 0) write();
}

// The same for duals, in all directions.
template <class T>
template <class Closest>
void Edges<T>::set_duals(const EvaluationRequest &request, int receiver, Closest &closest) {
  const Neighborhood &n = *data_->neighborhood;
  for (int64_t c = n.first[receiver]; c < n.first[receiver + 1]; c++) {
    if (data_->candidate_edge.data()[c] < 0) continue;
    const int64_t e = begin()[receiver] + data_->candidate_edge.data()[c];
    for (int along = 0; along < data_->num_directions; along++) {
      const int moment = request.energy_moments ? EnergyMoments::moment(along) : -1;
      const double(*v)[3] = request.along(request.energy_moments ? 0 : along).direction;
      note_closest(closest,
                   arrays(along).set(NORMS, e, request.positions[0], v ? v[0] : nullptr, n.receiver[receiver],
                                     n.sender_atom[c], moment),
                   c);
    }
  }
}

template <class T>
void Edges<T>::add_to_adjoint(int64_t first, int64_t count, const T *of_edges, int direction) {
  D *to = adjoint(direction) + num_y_ * first;
  if constexpr (std::is_same_v<T, float>)
    kernels_.add_float32(num_y_ * count, of_edges, to);
  else
    for (int64_t k = 0; k < num_y_ * count; k++) to[k] += static_cast<D>(of_edges[k]);
}

// The forces of edges `begin` .. `end` - 1.
template <class T>
void Edges<T>::set_forces(const EdgeArrays<T> &edges, int64_t begin, int64_t end) const {
  if constexpr (IS_DUAL<D>) {
    for (int64_t e = begin; e < end; e++) edges.set_force(NORMS, e);
  } else {
    const int lanes = kernels_.lanes;
    Lanes block;
    std::fill_n(block.length, lanes, 1.0);
    std::fill_n(block.unit, 3 * lanes, 0.0);
    std::fill_n(block.y, num_y_ * lanes, 0.0);
    for (int64_t e = begin; e < end; e += lanes) {
      const int filled = static_cast<int>(std::min<int64_t>(lanes, end - e));
      for (int lane = 0; lane < filled; lane++) {
        block.length[lane] = edges.distance[e + lane];
        for (int k = 0; k < 3; k++) block.unit[k * lanes + lane] = edges.unit[3 * (e + lane) + k];
        for (int k = 0; k < num_y_; k++) block.y[k * lanes + lane] = edges.adjoint[num_y_ * (e + lane) + k];
      }
      kernels_.gradient(NORMS, lmax_, block.length, block.unit, block.y, block.vector);
      for (int lane = 0; lane < filled; lane++)
        for (int k = 0; k < 3; k++) edges.force(e + lane)[k] = static_cast<D>(block.vector[k * lanes + lane]);
    }
  }
}

template <class T>
EdgeArrays<T> Edges<T>::arrays(int d) {
  EdgeArrays<T> all{
      lmax_, data_->distance.data(), data_->unit_vector.data(), data_->harmonics.data(), num_y_, adjoint(), nullptr};
  if (has_separate_forces()) all.separate_force = data_->force.data() + 3 * (d * data_->size + data_->first_present);
  return all.along(d, data_->num_present);
}

// Adds sign times f to the force of an atom, and its tangent to the tangents.
template <class D>
void add_to_atom(const EvaluationRequest &request, int atom, double sign, const D f[3]) {
  for (int k = 0; k < 3; k++) {
    if (request.forces) request.forces[atom][k] += sign * value_of(f[k]);
    if (request.force_tangents) request.force_tangents[atom][k] += sign * tangent_of(f[k]);
  }
}

template <class T>
void Edges<T>::finish_receivers(const EvaluationRequest &request) {
  const Neighborhood &n = *data_->neighborhood;
  const bool virial = request.virial || request.atom_virial;
  const int64_t num_directions = data_->num_directions;
  if (data_->first_receiver == 0) {    // the first part
    if (has_separate_forces()) data_->force.reserve(3 * num_directions * data_->size);
    if (virial) data_->receiver_virial.reserve(9 * num_directions * n.num_receivers);
  }
  D *const force = has_separate_forces() ? data_->force.data() : nullptr,
           *receiver_virial = data_->receiver_virial.data();
  const int64_t *begin = this->begin();
  for (int d = 0; d < num_directions; d++) {
    EdgeArrays<T> edges = arrays(d);
    if (force) edges.separate_force = force + 3 * (d * data_->size + data_->first_present);
    const EvaluationRequest along = request.along(d);
    parallel("equi:edge_force", data_->last_receiver - data_->first_receiver, [&](int64_t number) {
      const int64_t i = data_->first_receiver + number;
      D f[3] = {0, 0, 0};
      D v[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
      set_forces(edges, begin[i], begin[i + 1]);
      for (int64_t e = begin[i]; e < begin[i + 1]; e++) edges.add_force(e, f, v, virial);
      add_to_atom(along, n.receiver[i], 1.0, f);
      if (virial) std::copy_n(v, 9, receiver_virial + 9 * (d * n.num_receivers + i));
    });
  }
}

template <class T>
void Edges<T>::finish(const EvaluationRequest &request, EvaluationResult &result) {
  for (int d = 0; d < data_->num_directions; d++) finish_direction(request.along(d), d, result);
}

template <class T>
void Edges<T>::finish_direction(const EvaluationRequest &request, int d, EvaluationResult &result) {
  const Neighborhood &n = *data_->neighborhood;
  const int N = n.num_receivers;
  const int64_t width = has_separate_forces() ? 3 : num_y_;
  const D *force = (has_separate_forces() ? data_->force.data() : data_->adjoint.data()) + width * d * data_->size;

  // Forces on senders, gathered row by row in a fixed order. Copies of an atom on this rank share its row, so most
  // ghosts need nothing.
  parallel("equi:senders", n.num_rows, [&](int64_t row) {
    D f[3] = {0, 0, 0};
    double of_row[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
    if (data_->row_atom[row] < 0) return;
    for (int64_t k = data_->transposed_begin[row]; k < data_->transposed_begin[row + 1]; k++) {
      const int64_t e = transposed_edge(k);
      if (e < 0) continue;
      D vector[3];
      if (request.atom_virial) {
        const int receiver = data_->transposed_receiver[k];
        const int sender = n.sender_atom[n.first[receiver] + data_->transposed[k]];
        set_edge_vector(request.positions[0], request.direction ? request.direction[0] : nullptr, n.receiver[receiver],
                        sender, -1, vector);
      }
      add_edge_force(force + width * e, request.atom_virial ? vector : nullptr, f, of_row);
    }
    add_to_atom(request, data_->row_atom[row], -1.0, f);
    if (request.atom_virial)
      for (int a = 0; a < 9; a++) request.atom_virial[data_->row_atom[row]][a] += 0.5 * of_row[a];
  });

  if (!request.virial && !request.atom_virial) return;
  const D *receiver_virial = data_->receiver_virial.data() + 9 * static_cast<int64_t>(d) * N;
  if (request.atom_virial)
    for (int i = 0; i < N; i++)
      for (int k = 0; k < 9; k++) request.atom_virial[n.receiver[i]][k] += 0.5 * value_of(receiver_virial[9 * i + k]);
  if (request.virial)
    for (int i = 0; i < N; i++) {
      const D *v = receiver_virial + 9 * i;
      for (int k = 0; k < 6; k++) {
        const D symmetric = k < 3 ? v[k] : 0.5 * (v[k] + v[k + 3]);
        result.virial[k] += value_of(symmetric);
        result.virial_tangent[k] += tangent_of(symmetric);
      }
    }
}

// Calls of_candidates(array, the size that it has for this many edges) for the array for candidates, and f for all
// others of an evaluation.
template <class T>
template <class F, class G>
void Edges<T>::for_arrays(int64_t num_edges, int64_t num_present, const F &of_candidates, const G &f) const {
  const Data &d = *data_;
  const int64_t N = d.neighborhood ? d.neighborhood->num_receivers : 0, directions = d.num_directions;
  const bool is_divided = num_present < num_edges;
  f(d.begin, N + 1);
  f(d.present_begin, is_divided ? N + 1 : 0);
  f(d.num_rigid, IS_DUAL<D> ? N : 0);
  of_candidates(d.candidate_edge, d.neighborhood ? d.neighborhood->first[N] : 0);
  f(d.sender_row, num_present);
  f(d.sender_species, num_present);
  f(d.distance, directions * num_present);
  f(d.unit_vector, 3 * directions * num_present);
  f(d.adjoint, num_y_ * directions * num_present);
  f(d.harmonics, num_y_ * directions * num_present);
  f(d.force, is_divided || !EdgeArrays<T>::fits_force(lmax_) ? 3 * directions * num_edges : 0);
  f(d.receiver_virial, 9 * directions * N);
}

template <class T>
void Edges<T>::for_memory(const MemoryVisitor &of_candidates, const MemoryVisitor &of_edges) const {
  if (is_borrowed_) return;
  visit_memory(of_candidates, data_->transposed_begin, data_->transposed_receiver, data_->transposed, data_->row_atom);
  for_arrays(0, 0, without_sizes(of_candidates), without_sizes(of_edges));
}

template <class T>
std::size_t Edges<T>::additional_bytes(int64_t num_edges, int64_t num_present) const {
  if (is_borrowed_) return 0;
  return sum_of_additional_bytes([&](const auto &f) { for_arrays(num_edges, num_present, f, f); });
}

EQUI_INSTANTIATE_NUMBERS(Edges)

}    // namespace equi
