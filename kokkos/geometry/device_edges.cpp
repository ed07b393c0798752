// SPDX-License-Identifier: MIT
// Builds the edges of an evaluation on a device, and sums their derivatives to forces and virials.
#include "kokkos/geometry/device_edges.h"

#include "kokkos/geometry/edge_functions.h"
#include "src/numbers/number_types.h"

namespace equi {

namespace {

// Whether candidate c is within the cutoff and its receiver sees it. Both orders of candidates must give the same
// answer.
struct Inside {
  const double *x;
  const int *candidate_receiver, *receiver, *sender_atom, *candidate_row, *row_species;
  int num_species;
  const double *cutoff;    // per pair
  const double *seen;      // [candidates], negative if the receiver does not see the candidate; or null
  // Receiver i has row i.
  KOKKOS_FUNCTION int pair(int64_t c) const {
    return row_species[candidate_receiver[c]] * num_species + row_species[candidate_row[c]];
  }
  KOKKOS_FUNCTION int64_t receiver_of(int64_t c) const { return receiver[candidate_receiver[c]]; }
  KOKKOS_FUNCTION bool operator()(int64_t c) const { return seen ? !(seen[c] < 0.0) : is_near(c); }
  KOKKOS_FUNCTION bool is_near(int64_t c) const {
    return is_edge(x + 3 * receiver_of(c), x + 3 * static_cast<int64_t>(sender_atom[c]), cutoff[pair(c)]);
  }
};

// Writes Inside::seen: squared distances, or -1 for candidates beyond the cutoff, or -2 for those that are not seen.
const double *find_seen(const DeviceExec &exec, const Inside &inside, const NearestNeighbors &nearest,
                        const DeviceNeighborhood &n, double *seen) {
  Kokkos::parallel_for(
      "equi:candidate_distances", DeviceRange(exec, 0, n.num_candidates), KOKKOS_LAMBDA(int64_t c) {
        const double *x = inside.x;
        seen[c] = inside.is_near(c)
                      ? square_distance(x + 3 * inside.receiver_of(c), x + 3 * int64_t(inside.sender_atom[c]))
                      : -1.0;
      });
  const int64_t *first = n.first.data();
  Kokkos::parallel_for(
      "equi:nearest_neighbors", DeviceRange(exec, 0, n.num_receivers), KOKKOS_LAMBDA(int64_t i) {
        drop_far_neighbors(
            nearest, first[i], first[i + 1], [=](int64_t c) { return seen[c]; }, [=](int64_t c) { seen[c] = -2.0; });
      });
  return seen;
}

// begin[r] = before[first[r]] - before[0].
void begins(const DeviceExec &exec, const int64_t *before, const int64_t *first, int64_t rows, int64_t *begin) {
  Kokkos::parallel_for(
      "equi:edge_begins", DeviceRange(exec, 0, rows + 1),
      KOKKOS_LAMBDA(int64_t r) { begin[r] = before[first[r]] - before[0]; });
}

}    // namespace

template <class T>
DeviceEdges<T>::DeviceEdges(const DeviceExec &exec, int lmax, int num_species, double cutoff, const Matrix &pair_cutoff,
                            const NearestNeighbors &nearest)
    : lmax_(lmax),
      num_y_((lmax + 1) * (lmax + 1)),
      num_species_(num_species),
      nearest_(nearest),
      closest_("equi:closest"),
      most_neighbors_("equi:most_neighbors") {
  std::vector<double> of_pairs(static_cast<size_t>(num_species) * num_species, cutoff);
  if (!pair_cutoff.data.empty()) of_pairs = pair_cutoff.data;
  assign(exec, cutoff_, of_pairs);
}

template <class T>
void DeviceEdges<T>::set_neighborhood(const DeviceExec &exec, const DeviceNeighborhood &n,
                                      const std::vector<int> &receiver_cuts, const std::vector<int64_t> &sender_cuts,
                                      bool is_counted) {
  neighborhood_ = &n;
  is_counted_ = is_counted;
  if (!is_counted) return;
  num_receiver_cuts_ = static_cast<int>(receiver_cuts.size());
  num_cuts_ = num_receiver_cuts_ + static_cast<int>(sender_cuts.size());
  std::vector<int64_t> cuts(receiver_cuts.begin(), receiver_cuts.end());
  cuts.insert(cuts.end(), sender_cuts.begin(), sender_cuts.end());
  assign(exec, cut_row_, cuts);
  cut_edge_.reserve(num_cuts_);
  host_cuts_.assign(3 * num_cuts_, 0);
}

template <class T>
const int64_t *DeviceEdges<T>::count_within_cutoff(const DeviceExec &exec, const DeviceNeighborList &n,
                                                   const double *x) {
  const int *receiver = n.receiver.data(), *sender_atom = n.sender_atom.data(), *sender_row = n.sender_row.data(),
            *row_species = n.row_species.data();
  const int64_t *first = n.first.data();
  const double *cutoff = cutoff_.data();
  const int num_species = num_species_;
  int64_t *begin = begin_.reserve(n.num_receivers + 1);
  running_sums(
      exec, n.num_receivers,
      KOKKOS_LAMBDA(int64_t i) {
        const double *receiver_cutoff = cutoff + row_species[i] * num_species;
        int64_t count = 0;
        for (int64_t c = first[i]; c < first[i + 1]; c++)
          count += is_edge(x + 3 * static_cast<int64_t>(receiver[i]), x + 3 * static_cast<int64_t>(sender_atom[c]),
                           receiver_cutoff[row_species[sender_row[c]]]);
        return count;
      },
      begin);
  return begin;
}

template <class T>
void DeviceEdges<T>::build(const DeviceExec &exec, const double *x, const DeviceDirections &directions, bool divides,
                           bool of_moments) {
  const DeviceNeighborhood &n = *neighborhood_;
  const int64_t num_candidates = n.num_candidates;
  Inside inside{x,
                n.candidate_receiver.data(),
                n.receiver.data(),
                n.sender_atom.data(),
                n.sender_row.data(),
                n.row_species.data(),
                num_species_,
                cutoff_.data(),
                nullptr};
  if (nearest_.count > 0) inside.seen = find_seen(exec, inside, nearest_, n, seen_.reserve(num_candidates));
  // Counts the candidates before each one that are inside, in the order of receivers and then, without a restart, in
  // that of senders.
  int64_t *before = edge_before_.reserve(2 * num_candidates + 1), *transposed_before = before + num_candidates;
  const int64_t *transposed = n.transposed.data();
  running_sums(
      exec, 2 * num_candidates,
      KOKKOS_LAMBDA(int64_t k) {
        return static_cast<int64_t>(inside(k < num_candidates ? k : transposed[k - num_candidates]));
      },
      before);
  const int64_t num_positions = static_cast<int64_t>(n.num_slices) * n.num_rows;
  int64_t *begin = begin_.reserve(n.num_receivers + 1), *sender_begin = sender_begin_.reserve(num_positions + 1);
  begins(exec, before, n.first.data(), n.num_receivers, begin);
  begins(exec, transposed_before, n.sender_first.data(), num_positions, sender_begin);
  capacity_ = num_candidates;
  if (is_counted_) {
    count_edges(exec, begin, sender_begin, host_cuts_.data());
    capacity_ = host_cuts_[num_receiver_cuts_ - 1];
  }

  int *sender_row = sender_row_.reserve(capacity_), *sender_species = sender_species_.reserve(capacity_),
      *pair = pair_.reserve(capacity_);
  num_directions_ = of_moments ? EnergyMoments::DIRECTIONS : directions.count;
  const int64_t capacity = capacity_, of_directions = num_directions_ * capacity_;
  distance_.reserve(of_directions);
  unit_vector_.reserve(3 * of_directions);
  reserve_harmonics(harmonics_, of_directions, num_y_);
  device_zero(exec, adjoint_.reserve(num_y_ * of_directions), num_y_ * of_directions);
  if (!EdgeArrays<T>::fits_force(lmax_)) force_.reserve(3 * capacity_);
  const EdgeArrays<T> edges = arrays();
  const DeviceDirections v = directions;
  const int num_directions = num_directions_;
  const HarmonicsNorms norms;
  // Candidates, then receivers.
  Kokkos::parallel_reduce(
      "equi:fill_edges", DeviceRange(exec, 0, num_candidates + n.num_receivers),
      KOKKOS_LAMBDA(int64_t c, Kokkos::ValLocScalar<double, int64_t> & best) {
        if (c >= num_candidates) {
          if (!is_finite(x + 3 * static_cast<int64_t>(inside.receiver[c - num_candidates]))) {
            best.val = BROKEN_DISTANCE;
            best.loc = c;
          }
          return;
        }
        const int64_t e = before[c];
        if (before[c + 1] == e) return;
        const int64_t i = inside.receiver_of(c), j = inside.sender_atom[c];
        for (int d = 0; d < num_directions; d++)
          note_closest(best,
                       edges.along(d, capacity)
                           .set(norms, e, x, v[of_moments ? 0 : d], i, j, of_moments ? EnergyMoments::moment(d) : -1),
                       c);
        sender_row[e] = inside.candidate_row[c];
        sender_species[e] = inside.row_species[inside.candidate_row[c]];
        pair[e] = inside.pair(c);
      },
      Closest(closest_));

  const int slice_size = n.slice_size;
  int64_t *sender_edge = sender_edge_.reserve(capacity_);
  int *sender_receiver = sender_receiver_.reserve(capacity_);
  Kokkos::parallel_for(
      "equi:edges_of_senders", DeviceRange(exec, 0, num_candidates), KOKKOS_LAMBDA(int64_t k) {
        const int64_t p = transposed_before[k] - transposed_before[0], c = transposed[k];
        if (transposed_before[k + 1] == transposed_before[k]) return;
        sender_edge[p] = before[c];
        sender_receiver[p] = inside.candidate_receiver[c] % slice_size;
      });
  if (divides) divide(exec, directions);
}

// Copies the number of edges before each cut to the host, which needs it for the size of launches.
template <class T>
void DeviceEdges<T>::count_edges(const DeviceExec &exec, const int64_t *begin, const int64_t *sender_begin,
                                 int64_t *counts) {
  const int64_t *cut_row = cut_row_.data();
  int64_t *cut_edge = cut_edge_.data();
  const int num_receiver_cuts = num_receiver_cuts_;
  Kokkos::parallel_for(
      "equi:edge_cuts", DeviceRange(exec, 0, num_cuts_),
      KOKKOS_LAMBDA(int64_t k) { cut_edge[k] = (k < num_receiver_cuts ? begin : sender_begin)[cut_row[k]]; });
  copy_to_host(exec, counts, cut_edge, num_cuts_);
}

// Makes the lists of rigid and of moving edges, in both orders.
template <class T>
void DeviceEdges<T>::divide(const DeviceExec &exec, const DeviceDirections &directions) {
  const DeviceNeighborhood &n = *neighborhood_;
  const int64_t num_candidates = n.num_candidates, N = n.num_receivers,
                num_positions = static_cast<int64_t>(n.num_slices) * n.num_rows;
  const DeviceDirections v = directions;
  const int64_t *before = edge_before_.data(), *begin = begin_.data(), *sender_begin = sender_begin_.data(),
                *sender_edge = sender_edge_.data();
  const int *candidate_receiver = n.candidate_receiver.data(), *receiver = n.receiver.data(),
            *sender_atom = n.sender_atom.data(), *sender_row = sender_row_.data(),
            *sender_species = sender_species_.data(), *sender_receiver = sender_receiver_.data();
  int *is_rigid = is_rigid_.reserve(capacity_);
  Kokkos::parallel_for(
      "equi:rigid", DeviceRange(exec, 0, num_candidates), KOKKOS_LAMBDA(int64_t c) {
        const int64_t e = before[c], i = receiver[candidate_receiver[c]], j = sender_atom[c];
        if (before[c + 1] == e) return;
        bool moves_alike = true;
        for (int d = 0; v.v && d < v.count; d++)
          for (int k = 0; k < 3; k++) moves_alike = moves_alike && v[d][3 * i + k] == v[d][3 * j + k];
        is_rigid[e] = moves_alike;
      });
  for (const EdgePart part : {EdgePart::rigid, EdgePart::moving}) {
    List &list = lists_[part == EdgePart::moving];
    const int wanted = part == EdgePart::rigid;
    int64_t *part_before = part_before_.reserve(capacity_ + 1), *edge = list.edge.reserve(capacity_),
            *of_sender = list.sender_edge.reserve(capacity_);
    int *row = list.sender_row.reserve(capacity_), *species = list.sender_species.reserve(capacity_),
        *of_receiver = list.sender_receiver.reserve(capacity_);
    running_sums(
        exec, capacity_,
        KOKKOS_LAMBDA(int64_t e) { return static_cast<int64_t>(e < begin[N] && is_rigid[e] == wanted); }, part_before);
    begins(exec, part_before, begin, N, list.begin.reserve(N + 1));
    Kokkos::parallel_for(
        "equi:edges_of_part", DeviceRange(exec, 0, capacity_), KOKKOS_LAMBDA(int64_t e) {
          const int64_t p = part_before[e];
          if (part_before[e + 1] == p) return;
          edge[p] = e;
          row[p] = sender_row[e];
          species[p] = sender_species[e];
        });
    running_sums(
        exec, capacity_,
        KOKKOS_LAMBDA(int64_t k) { return static_cast<int64_t>(k < begin[N] && is_rigid[sender_edge[k]] == wanted); },
        part_before);
    begins(exec, part_before, sender_begin, num_positions, list.sender_begin.reserve(num_positions + 1));
    Kokkos::parallel_for(
        "equi:sender_edges_of_part", DeviceRange(exec, 0, capacity_), KOKKOS_LAMBDA(int64_t k) {
          const int64_t p = part_before[k];
          if (part_before[k + 1] == p) return;
          of_sender[p] = sender_edge[k];
          of_receiver[p] = sender_receiver[k];
        });
    if (is_counted_)
      count_edges(exec, list.begin.data(), list.sender_begin.data(),
                  host_cuts_.data() + static_cast<int>(part) * num_cuts_);
  }
}

template <class T>
EdgeArrays<T> DeviceEdges<T>::arrays() const {
  return {lmax_,
          distance_.data(),
          unit_vector_.data(),
          harmonics_.data() + NUMBERS_BEFORE_HARMONICS,
          harmonics_row(num_y_),
          adjoint_.data(),
          EdgeArrays<T>::fits_force(lmax_) ? nullptr : force_.data()};
}

template <class T>
DeviceBatchEdges DeviceEdges<T>::receivers(int cut, int first, int num_atoms, bool by_species, EdgePart part) const {
  const int64_t before = is_counted_ ? counts(part)[cut] : 0, after = is_counted_ ? counts(part)[cut + 1] : capacity_;
  if (part == EdgePart::all)
    return {num_atoms, begin_.data() + first,
            before,    after - before,
            nullptr,   by_species ? sender_species_.data() : sender_row_.data()};
  const List &list = lists_[part == EdgePart::moving];
  return {num_atoms,      list.begin.data() + first, before,
          after - before, list.edge.data(),          by_species ? list.sender_species.data() : list.sender_row.data()};
}

template <class T>
DeviceBatchEdges DeviceEdges<T>::senders(int cut, int64_t first_position, int num_atoms, EdgePart part) const {
  const int64_t *cuts = is_counted_ ? counts(part) + num_receiver_cuts_ + cut : nullptr;
  const int64_t before = cuts ? cuts[0] : 0, after = cuts ? cuts[1] : capacity_;
  const bool is_all = part == EdgePart::all;
  const List &list = lists_[part == EdgePart::moving];
  return {num_atoms,
          (is_all ? sender_begin_ : list.sender_begin).data() + first_position,
          before,
          after - before,
          (is_all ? sender_edge_ : list.sender_edge).data(),
          (is_all ? sender_receiver_ : list.sender_receiver).data()};
}

template <class T>
void DeviceEdges<T>::find_most_neighbors(const DeviceExec &exec, int most) {
  if (most == 0) return;
  const int64_t *begin = begin_.data();
  Kokkos::parallel_reduce(
      "equi:find_most_neighbors", DeviceRange(exec, 0, neighborhood_->num_receivers),
      KOKKOS_LAMBDA(int64_t i, Kokkos::ValLocScalar<double, int64_t> & first) {
        const int64_t num_edges = begin[i + 1] - begin[i];
        if (num_edges <= most || static_cast<double>(i) >= first.val) return;
        first.val = static_cast<double>(i);
        first.loc = num_edges;
      },
      Closest(most_neighbors_));
}

template <class T>
Collision DeviceEdges<T>::collision(const DeviceExec &exec, int64_t candidate, double distance) const {
  int receiver_row, receiver, sender;
  if (candidate >= neighborhood_->num_candidates) {
    copy_to_host(exec, &receiver, neighborhood_->receiver.data() + (candidate - neighborhood_->num_candidates), 1);
    return {receiver, -1, distance};
  }
  copy_to_host(exec, &receiver_row, neighborhood_->candidate_receiver.data() + candidate, 1);
  copy_to_host(exec, &receiver, neighborhood_->receiver.data() + receiver_row, 1);
  copy_to_host(exec, &sender, neighborhood_->sender_atom.data() + candidate, 1);
  return {receiver, sender, distance};
}

template <class T>
void DeviceEdges<T>::finish(const DeviceExec &exec, bool with_virial, bool with_atom_virial) {
  const int64_t N = neighborhood_->num_receivers, rows = neighborhood_->num_rows,
                num_positions = neighborhood_->num_slices * rows;
  const bool want_virial = with_virial || with_atom_virial, want_atom_virial = with_atom_virial;
  double *row_forces = row_forces_.reserve(3 * rows),
         *all_tangents = IS_DUAL<D> ? row_tangents_.reserve(3 * rows * num_directions_) : nullptr;
  double *receiver_virial = want_virial ? receiver_virial_.reserve(9 * N) : nullptr,
         *virial_tangents = want_virial && IS_DUAL<D> ? receiver_virial_tangent_.reserve(9 * N) : nullptr;
  double *row_virial = want_atom_virial ? row_virial_.reserve(9 * rows) : nullptr;

  const HarmonicsNorms norms;
  const int64_t *begin = begin_.data(), *sender_begin = sender_begin_.data(), *sender_edge = sender_edge_.data();
  for (int d = 0; d < num_directions_; d++) {
    const EdgeArrays<T> edges = arrays().along(d, capacity_);
    double *row_tangents = all_tangents + 3 * rows * d, *virial_tangent = d == 0 ? virial_tangents : nullptr;
    Kokkos::parallel_for(
        "equi:edge_forces", DeviceRange(exec, 0, capacity_), KOKKOS_LAMBDA(int64_t e) {
          if (e < begin[N]) edges.set_force(norms, e);
        });

    // Forces on atoms as receivers and as senders. The lanes of a row share its edges, and sum in a fixed order.
    constexpr int LANES = DeviceTraits<>::LANES;
    using Teams = DeviceTeams<>;
    Kokkos::parallel_for(
        "equi:row_forces", Teams(exec, static_cast<int>(rows), LANES, 1),
        KOKKOS_LAMBDA(const Teams::member_type &team) {
          const int64_t row = team.league_rank();
          const int lane = team.team_rank();
          D f[3] = {0, 0, 0}, s[3] = {0, 0, 0}, v[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
          double virial[9], w[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
          if (row < N) {
            for (int64_t e = begin[row] + lane; e < begin[row + 1]; e += LANES) edges.add_force(e, f, v, want_virial);
            for (int k = 0; k < 9; k++) virial[k] = value_of(v[k]);
            if (want_virial) store_lane_sums<LANES>(virial, lane, receiver_virial + 9 * row, false);
            for (int k = 0; k < 9; k++) virial[k] = tangent_of(v[k]);
            if (virial_tangent) store_lane_sums<LANES>(virial, lane, virial_tangent + 9 * row, false);
          }
          for (int64_t position = row; position < num_positions; position += rows)
            for (int64_t p = sender_begin[position] + lane; p < sender_begin[position + 1]; p += LANES)
              edges.add_force(sender_edge[p], s, w, want_atom_virial);
          double force[3], tangent[3];
          for (int k = 0; k < 3; k++) {
            force[k] = value_of(f[k] - s[k]);
            tangent[k] = tangent_of(f[k] - s[k]);
          }
          store_lane_sums<LANES>(force, lane, row_forces + 3 * row, false);
          if (IS_DUAL<D>) store_lane_sums<LANES>(tangent, lane, row_tangents + 3 * row, false);
          if (!want_atom_virial) return;
          for (int k = 0; k < 9; k++) w[k] = 0.5 * (value_of(v[k]) + w[k]);
          store_lane_sums<LANES>(w, lane, row_virial + 9 * row, false);
        });
  }
}

template <class T>
double *DeviceEdges<T>::clear_forces(const DeviceExec &exec) {
  const int64_t size = 3 * static_cast<int64_t>(neighborhood_->num_rows);
  double *forces = row_forces_.reserve(size);
  device_zero(exec, forces, size);
  return forces;
}

template <class T>
void DeviceEdges<T>::add(const DeviceExec &exec, const DeviceEdges &other, bool with_virial, bool with_atom_virial) {
  const int64_t N = neighborhood_->num_receivers, rows = neighborhood_->num_rows;
  device_add(exec, row_forces_.data(), other.row_forces_.data(), 3 * rows);
  if (IS_DUAL<D>) device_add(exec, row_tangents_.data(), other.row_tangents_.data(), 3 * rows * num_directions_);
  if (with_virial || with_atom_virial) {
    device_add(exec, receiver_virial_.data(), other.receiver_virial_.data(), 9 * N);
    if (IS_DUAL<D>) device_add(exec, receiver_virial_tangent_.data(), other.receiver_virial_tangent_.data(), 9 * N);
  }
  if (with_atom_virial) device_add(exec, row_virial_.data(), other.row_virial_.data(), 9 * rows);
}

template <class T>
DeviceSum::Term DeviceEdges<T>::virial_sum(double *virial) const {
  return {receiver_virial_.data(), neighborhood_->num_receivers, 9, virial};
}
template <class T>
DeviceSum::Term DeviceEdges<T>::virial_tangent_sum(double *tangents) const {
  return {receiver_virial_tangent_.data(), neighborhood_->num_receivers, 9, tangents};
}
template <class T>
DeviceSum::Term DeviceEdges<T>::force_sum(double *forces) const {
  return {row_forces_.data(), neighborhood_->num_rows, 3, forces};
}
template <class T>
DeviceSum::Term DeviceEdges<T>::tangent_sum(double *tangents) const {
  return {row_tangents_.data(), static_cast<int64_t>(num_directions_) * neighborhood_->num_rows, 3, tangents};
}

template <class T>
int64_t DeviceEdges<T>::capacity_between_cuts() const {
  if (!is_counted_) return capacity_;
  const int64_t *before = counts(EdgePart::all);
  int64_t most = 0;
  for (int cut = 1; cut < num_cuts_; cut++)
    if (cut != num_receiver_cuts_) most = std::max(most, before[cut] - before[cut - 1]);
  return most;
}

// Calls of_candidates(array, the size that it has for these) for the arrays for candidates, and f for all others of an
// evaluation.
template <class T>
template <class F, class G>
void DeviceEdges<T>::for_arrays(const Sizes &sizes, const F &of_candidates, const G &f) const {
  const int64_t N = sizes.receivers, of_slices = sizes.slices * sizes.rows + 1,
                of_directions = sizes.directions * sizes.edges;
  of_candidates(seen_, nearest_.count > 0 ? sizes.candidates : 0);
  of_candidates(edge_before_, 2 * sizes.candidates + 1);
  f(row_forces_, 3 * sizes.rows);
  f(row_tangents_, IS_DUAL<D> ? 3 * sizes.rows * sizes.directions : 0);
  f(receiver_virial_, 9 * N);
  f(receiver_virial_tangent_, IS_DUAL<D> ? 9 * N : 0);
  f(row_virial_, sizes.with_atom_virial ? 9 * sizes.rows : 0);
  f(begin_, N + 1);
  f(sender_begin_, of_slices);
  f(pair_, sizes.edges);
  f(distance_, of_directions);
  f(unit_vector_, 3 * of_directions);
  f(adjoint_, num_y_ * of_directions);
  f(harmonics_, harmonics_row(num_y_) * of_directions);
  f(force_, EdgeArrays<T>::fits_force(lmax_) ? 0 : 3 * sizes.edges);
  for (const DeviceBuffer<int> *of_edge : {&sender_row_, &sender_species_, &sender_receiver_}) f(*of_edge, sizes.edges);
  f(sender_edge_, sizes.edges);
  const int64_t of_parts = sizes.divides ? sizes.edges : 0;
  f(part_before_, sizes.divides ? sizes.edges + 1 : 0);
  f(is_rigid_, of_parts);
  for (const List &list : lists_) {
    f(list.begin, sizes.divides ? N + 1 : 0);
    f(list.sender_begin, sizes.divides ? of_slices : 0);
    for (const DeviceBuffer<int64_t> *edge : {&list.edge, &list.sender_edge}) f(*edge, of_parts);
    for (const DeviceBuffer<int> *of_edge : {&list.sender_row, &list.sender_species, &list.sender_receiver})
      f(*of_edge, of_parts);
  }
}

template <class T>
void DeviceEdges<T>::for_memory(const MemoryVisitor &of_candidates, const MemoryVisitor &of_edges) const {
  visit_memory(of_edges, cutoff_, cut_row_, cut_edge_);
  for_arrays({}, without_sizes(of_candidates), without_sizes(of_edges));
}

template <class T>
std::size_t DeviceEdges<T>::additional_bytes(const DeviceNeighborhood &n, int slice_size, int64_t num_edges,
                                             int num_directions, bool divides, bool with_atom_virial) const {
  const Sizes sizes{n.num_receivers, n.num_rows,     n.num_candidates, n.slices_of(slice_size),
                    num_edges,       num_directions, divides,          with_atom_virial};
  return sum_of_additional_bytes([&](const auto &f) { for_arrays(sizes, f, f); });
}

EQUI_INSTANTIATE_NUMBERS(DeviceEdges)

}    // namespace equi
