#include "device_edges.h"

#include "harmonics.h"

#include <algorithm>

namespace equi {

namespace {

// The order of EvaluationRequest's virials: first the index of the position, then that of the force.
KOKKOS_INLINE_FUNCTION int position_index(int k) {
  return k < 3 ? k : k == 3 || k == 4 ? 0 : k == 5 || k == 6 ? 1 : 2;
}
KOKKOS_INLINE_FUNCTION int force_index(int k) {
  return k < 3 ? k : k == 3 ? 1 : k == 4 || k == 5 ? 2 : k == 8 ? 1 : 0;
}

// Whether candidate c lies within the cutoff; both orders of candidates must come to the same answer.
struct Inside {
  const double *x;
  const int *candidate_receiver, *receiver, *sender_atom, *candidate_row, *row_species;
  int num_species;
  const double *square_cutoff;
  // Receiver i has row i.
  KOKKOS_FUNCTION int pair(int64_t c) const {
    return row_species[candidate_receiver[c]] * num_species + row_species[candidate_row[c]];
  }
  KOKKOS_FUNCTION bool operator()(int64_t c) const {
    const double *xi = x + 3 * static_cast<int64_t>(receiver[candidate_receiver[c]]),
                 *xj = x + 3 * static_cast<int64_t>(sender_atom[c]);
    const double dx = xj[0] - xi[0], dy = xj[1] - xi[1], dz = xj[2] - xi[2];
    return !(dx * dx + dy * dy + dz * dz >= square_cutoff[pair(c)]);    // NaN is kept, to be reported
  }
};

// before[k]: how many of the candidates order[0..k) are inside; order null: all in turn. before has n + 1 entries.
// Returns the last.
template <class Exec>
int64_t count_before(const Exec &exec, const Inside &inside, const int64_t *order, int64_t n, int64_t *before) {
  int64_t total = 0;
  Kokkos::parallel_scan(
      "equi:count_edges", DeviceRange<Exec>(exec, 0, n),
      KOKKOS_LAMBDA(int64_t k, int64_t & sum, bool is_final) {
        if (is_final) before[k] = sum;
        if (inside(order ? order[k] : k)) sum++;
        if (is_final && k == n - 1) before[n] = sum;
      },
      total);
  if (n == 0) device_zero(exec, before, 1);
  exec.fence("equi: number of edges on the host");
  return total;
}

// begin[r] = before[first[r]], on the device and the host.
template <class Exec>
void begins(const Exec &exec, const int64_t *before, const int64_t *first, int64_t rows, int64_t *begin,
            std::vector<int64_t> &host) {
  Kokkos::parallel_for(
      "equi:edge_begins", DeviceRange<Exec>(exec, 0, rows + 1),
      KOKKOS_LAMBDA(int64_t r) { begin[r] = before[first[r]]; });
  host.resize(rows + 1);
  copy_to_host(exec, host.data(), begin, rows + 1);    // chunks of rows are cut on the host
}

}    // namespace

template <class Exec, class T, class G>
DeviceEdges<Exec, T, G>::DeviceEdges(const Exec &exec, int lmax, int num_species, double cutoff,
                                     const Matrix &pair_cutoff)
    : lmax_(lmax), num_y_((lmax + 1) * (lmax + 1)), num_species_(num_species) {
  std::vector<double> square(static_cast<size_t>(num_species) * num_species, cutoff);
  if (!pair_cutoff.data.empty()) square = pair_cutoff.data;
  for (double &c : square) c *= c;
  assign(exec, square_cutoff_, square);
}

template <class Exec, class T, class G>
void DeviceEdges<Exec, T, G>::set_neighborhood(const Exec &exec, const Neighborhood &n) {
  neighborhood_ = &n;
  const int64_t num_candidates = n.first[n.num_receivers];
  std::vector<int> candidate_receiver(num_candidates);
  for (int i = 0; i < n.num_receivers; i++)
    std::fill(candidate_receiver.begin() + n.first[i], candidate_receiver.begin() + n.first[i + 1], i);

  std::vector<int64_t> transposed_begin(n.num_rows + 1, 0), transposed(num_candidates);
  for (int64_t c = 0; c < num_candidates; c++) transposed_begin[n.sender_row[c] + 1]++;
  for (int r = 0; r < n.num_rows; r++) transposed_begin[r + 1] += transposed_begin[r];
  std::vector<int64_t> next(transposed_begin.begin(), transposed_begin.end() - 1);
  for (int64_t c = 0; c < num_candidates; c++) transposed[next[n.sender_row[c]]++] = c;    // in the order of receivers

  // An atom that stands for the row, -1 if no edge can reach it.
  std::vector<int> row_atom(n.num_rows, -1);
  for (int i = 0; i < n.num_receivers; i++) row_atom[i] = n.receiver[i];
  for (int r = n.num_receivers; r < n.num_rows; r++)
    if (transposed_begin[r] < transposed_begin[r + 1]) row_atom[r] = n.sender_atom[transposed[transposed_begin[r]]];

  const std::vector<int64_t> first(n.first.begin(), n.first.begin() + n.num_receivers + 1);
  assign(exec, first_, first);
  assign(exec, transposed_begin_, transposed_begin);
  assign(exec, transposed_, transposed);
  assign(exec, receiver_, n.receiver);
  assign(exec, row_species_, n.row_species);
  assign(exec, candidate_receiver_, candidate_receiver);
  assign(exec, sender_atom_, n.sender_atom);
  assign(exec, candidate_row_, n.sender_row);
  assign(exec, row_atom_, row_atom);
}

template <class Exec, class T, class G>
void DeviceEdges<Exec, T, G>::build(const Exec &exec, const double (*positions)[3]) {
  const Neighborhood &n = *neighborhood_;
  const int64_t num_candidates = n.first[n.num_receivers];
  double *x = positions_.reserve(3 * static_cast<int64_t>(n.num_atoms));
  copy_to_device(exec, x, reinterpret_cast<const double *>(positions), 3 * static_cast<int64_t>(n.num_atoms));

  const Inside inside{x,
                      candidate_receiver_.data(),
                      receiver_.data(),
                      sender_atom_.data(),
                      candidate_row_.data(),
                      row_species_.data(),
                      num_species_,
                      square_cutoff_.data()};
  int64_t *before = edge_before_.reserve(num_candidates + 1),
          *transposed_before = transposed_before_.reserve(num_candidates + 1);
  size_ = count_before(exec, inside, nullptr, num_candidates, before);
  count_before(exec, inside, transposed_.data(), num_candidates, transposed_before);
  begins(exec, before, first_.data(), n.num_receivers, begin_.reserve(n.num_receivers + 1), host_begin_);
  begins(exec, transposed_before, transposed_begin_.data(), n.num_rows, sender_begin_.reserve(n.num_rows + 1),
         host_sender_begin_);

  int *sender_row = sender_row_.reserve(size_), *sender_species = sender_species_.reserve(size_),
      *pair = pair_.reserve(size_);
  G *distance = distance_.reserve(size_), *direction = direction_.reserve(3 * size_);
  T *y = harmonics_.reserve(num_y_ * size_);
  adjoint_.reserve(num_y_ * size_);
  force_.reserve(3 * size_);
  const int num_y = num_y_, lmax = lmax_;
  const HarmonicsNorms norms;
  using Closest = Kokkos::MinLoc<double, int64_t>;
  typename Closest::value_type closest;
  Kokkos::parallel_reduce(
      "equi:fill_edges", DeviceRange<Exec>(exec, 0, num_candidates),
      KOKKOS_LAMBDA(int64_t c, Kokkos::ValLocScalar<double, int64_t> & best) {
        const int64_t e = before[c];
        if (before[c + 1] == e) return;
        const double *xi = x + 3 * static_cast<int64_t>(inside.receiver[inside.candidate_receiver[c]]);
        const double *xj = x + 3 * static_cast<int64_t>(inside.sender_atom[c]);
        const double d[3] = {xj[0] - xi[0], xj[1] - xi[1], xj[2] - xi[2]};
        const double r = Kokkos::sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2]);
        if (r < best.val) {
          best.val = r;
          best.loc = c;
        }
        const double inverse = r > 0.0 ? 1.0 / r : 0.0;    // coinciding atoms are reported, not propagated as NaN
        sender_row[e] = inside.candidate_row[c];
        sender_species[e] = inside.row_species[inside.candidate_row[c]];
        pair[e] = inside.pair(c);
        distance[e] = static_cast<G>(r);
        G u[3];
        for (int k = 0; k < 3; k++) {
          u[k] = static_cast<G>(d[k] * inverse);
          direction[3 * e + k] = u[k];
        }
        evaluate_harmonics(norms, lmax, u, y + num_y * e);
      },
      Closest(closest));

  int64_t *sender_edge = sender_edge_.reserve(size_);
  int *sender_receiver = sender_receiver_.reserve(size_);
  const int64_t *transposed = transposed_.data();
  Kokkos::parallel_for(
      "equi:edges_of_senders", DeviceRange<Exec>(exec, 0, num_candidates), KOKKOS_LAMBDA(int64_t k) {
        const int64_t p = transposed_before[k], c = transposed[k];
        if (transposed_before[k + 1] == p) return;
        sender_edge[p] = before[c];
        sender_receiver[p] = inside.candidate_receiver[c];
      });

  exec.fence("equi: closest pair on the host");
  collision_ = {};
  if (size_ > 0 && closest.val < MIN_DISTANCE) {
    const int64_t i = std::upper_bound(n.first.begin(), n.first.end(), closest.loc) - n.first.begin() - 1;
    collision_ = {n.receiver[i], n.sender_atom[closest.loc], closest.val};
  }
}

template <class Exec, class T, class G>
void DeviceEdges<Exec, T, G>::finish(const Exec &exec, const EvaluationRequest &request, EvaluationResult &result) {
  const Neighborhood &n = *neighborhood_;
  const int64_t N = n.num_receivers;
  const G *distance = distance_.data(), *direction = direction_.data(), *adjoint = adjoint_.data();
  G *force = force_.data();
  const bool want_virial = request.virial || request.atom_virial, want_atom_virial = request.atom_virial;
  double *f_all = forces_.reserve(3 * static_cast<int64_t>(n.num_atoms));
  double *receiver_virial = want_virial ? receiver_virial_.reserve(9 * N) : nullptr;
  double *atom_virial = want_atom_virial ? atom_virial_.reserve(9 * static_cast<int64_t>(n.num_atoms)) : nullptr;
  device_zero(exec, f_all, 3 * static_cast<int64_t>(n.num_atoms));
  if (want_atom_virial) device_zero(exec, atom_virial, 9 * static_cast<int64_t>(n.num_atoms));

  const int num_y = num_y_, lmax = lmax_;
  const HarmonicsNorms norms;
  Kokkos::parallel_for(
      "equi:edge_forces", DeviceRange<Exec>(exec, 0, size_), KOKKOS_LAMBDA(int64_t e) {
        const G *u = direction + 3 * e, *ya = adjoint + num_y * e;
        G g[3] = {0, 0, 0};
        harmonics_gradient(norms, lmax, u, ya, g);
        // Through the unit vector only the tangential part of the gradient counts; along it the radial derivative.
        const G along = g[0] * u[0] + g[1] * u[1] + g[2] * u[2];
        const G inverse = distance[e] > G(0) ? G(1) / distance[e] : G(0);
        for (int k = 0; k < 3; k++) force[3 * e + k] = (g[k] - along * u[k]) * inverse + ya[0] * u[k];
      });

  // What atoms feel as receivers and as senders, row by row in a fixed order. Copies of an atom on this rank share its
  // row.
  const int64_t *begin = begin_.data(), *sender_begin = sender_begin_.data(), *sender_edge = sender_edge_.data();
  const int *row_atom = row_atom_.data();
  Kokkos::parallel_for(
      "equi:atom_forces", DeviceRange<Exec>(exec, 0, n.num_rows), KOKKOS_LAMBDA(int64_t row) {
        const int64_t atom = row_atom[row];
        if (atom < 0) return;
        double f[3] = {0, 0, 0}, v[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0}, total[9] = {0, 0, 0, 0, 0, 0, 0, 0, 0};
        if (row < N) {
          for (int64_t e = begin[row]; e < begin[row + 1]; e++) {
            for (int k = 0; k < 3; k++) f[k] += force[3 * e + k];
            if (want_virial)
              for (int k = 0; k < 9; k++)
                v[k] -= static_cast<double>(distance[e] * direction[3 * e + position_index(k)]) *
                        static_cast<double>(force[3 * e + force_index(k)]);
          }
          if (want_virial)
            for (int k = 0; k < 9; k++) receiver_virial[9 * row + k] = v[k];
          for (int k = 0; k < 9; k++) {
            total[k] = v[k];
            v[k] = 0;
          }
        }
        double s[3] = {0, 0, 0};
        for (int64_t p = sender_begin[row]; p < sender_begin[row + 1]; p++) {
          const int64_t e = sender_edge[p];
          for (int k = 0; k < 3; k++) s[k] += force[3 * e + k];
          if (want_atom_virial)
            for (int k = 0; k < 9; k++)
              v[k] -= static_cast<double>(distance[e] * direction[3 * e + position_index(k)]) *
                      static_cast<double>(force[3 * e + force_index(k)]);
        }
        for (int k = 0; k < 3; k++) f_all[3 * atom + k] = f[k] - s[k];
        if (want_atom_virial)
          for (int k = 0; k < 9; k++) atom_virial[9 * atom + k] = 0.5 * (total[k] + v[k]);
      });

  host_forces_.resize(3 * static_cast<size_t>(n.num_atoms));
  copy_to_host(exec, host_forces_.data(), f_all, 3 * static_cast<int64_t>(n.num_atoms));
  for (int a = 0; a < n.num_atoms; a++)
    for (int k = 0; k < 3; k++) request.forces[a][k] += host_forces_[3 * static_cast<size_t>(a) + k];
  if (want_atom_virial) {
    host_virial_.resize(9 * static_cast<size_t>(n.num_atoms));
    copy_to_host(exec, host_virial_.data(), atom_virial, 9 * static_cast<int64_t>(n.num_atoms));
    for (int a = 0; a < n.num_atoms; a++)
      for (int k = 0; k < 9; k++) request.atom_virial[a][k] += host_virial_[9 * static_cast<size_t>(a) + k];
  }
  if (request.virial) {    // summed on the host, in the order of receivers
    host_virial_.resize(9 * N);
    copy_to_host(exec, host_virial_.data(), receiver_virial, 9 * N);
    for (int64_t i = 0; i < N; i++) {
      const double *v = host_virial_.data() + 9 * i;
      for (int k = 0; k < 3; k++) result.virial[k] += v[k];
      for (int k = 3; k < 6; k++) result.virial[k] += 0.5 * (v[k] + v[k + 3]);
    }
  }
}

template <class Exec, class T, class G>
std::size_t DeviceEdges<Exec, T, G>::bytes() const {
  return first_.bytes() + transposed_begin_.bytes() + transposed_.bytes() + receiver_.bytes() + row_species_.bytes() +
         candidate_receiver_.bytes() + sender_atom_.bytes() + candidate_row_.bytes() + row_atom_.bytes() +
         positions_.bytes() + forces_.bytes() + receiver_virial_.bytes() + atom_virial_.bytes() + edge_before_.bytes() +
         transposed_before_.bytes() + begin_.bytes() + sender_begin_.bytes() + sender_edge_.bytes() +
         sender_row_.bytes() + sender_species_.bytes() + sender_receiver_.bytes() + pair_.bytes() +
         square_cutoff_.bytes() + distance_.bytes() + direction_.bytes() + adjoint_.bytes() + force_.bytes() +
         harmonics_.bytes();
}

template <class Exec, class T, class G>
std::size_t DeviceEdges<Exec, T, G>::growth(int64_t num_edges) const {
  const Neighborhood &n = *neighborhood_;
  const int64_t N = n.num_receivers, candidates = n.first[N];
  return positions_.growth(3 * n.num_atoms) + forces_.growth(3 * n.num_atoms) + receiver_virial_.growth(9 * N) +
         edge_before_.growth(candidates + 1) + transposed_before_.growth(candidates + 1) + begin_.growth(N + 1) +
         sender_begin_.growth(n.num_rows + 1) + sender_edge_.growth(num_edges) + sender_row_.growth(num_edges) +
         sender_species_.growth(num_edges) + sender_receiver_.growth(num_edges) + pair_.growth(num_edges) +
         distance_.growth(num_edges) + direction_.growth(3 * num_edges) + adjoint_.growth(num_y_ * num_edges) +
         force_.growth(3 * num_edges) + harmonics_.growth(num_y_ * num_edges);
}

using DeviceExec = Kokkos::DefaultExecutionSpace;
template class DeviceEdges<DeviceExec, float, float>;
template class DeviceEdges<DeviceExec, float, double>;
template class DeviceEdges<DeviceExec, double, double>;

}    // namespace equi
