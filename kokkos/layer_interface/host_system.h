// SPDX-License-Identifier: MIT
// What sums over all atoms of a host's evaluation share (balance_layer.h).
#ifndef EQUI_HOST_SYSTEM_H
#define EQUI_HOST_SYSTEM_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/system_numbers.h"
#include "kokkos/runtime/buffer.h"
#include "kokkos/runtime/host_exec.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

// Calls f(first, end) for pieces of a range, which threads share. size: at least 1, unless the range is empty.
template <class F>
void for_pieces(const char *label, int64_t count, int64_t size, const F &f) {
  if (count == 0) return;
  const int64_t pieces = (count + size - 1) / size;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Dynamic>>(0, pieces),
                       [&](int64_t p) { f(p * size, std::min<int64_t>(count, (p + 1) * size)); });
}

// What loops over numbers run on.
struct HostWork {
  HostWork() = default;
  template <class T>
  HostWork(const HostKernels<T> &) {}
};

// D: double or Dual<double>
template <class D>
class SystemOnHost {
 public:
  using Number = D;
  using Work = HostWork;
  using System = HostSystem;
  template <class N>
  using Array = Buffer<N>;

  // Calls f(n) for 0 <= n < count. label: at most 15 characters (host_exec.h).
  template <class F>
  static void for_numbers(const Work &, const char *label, int64_t count, const F &f) {
    constexpr int64_t LEAST = 1024;    // numbers of a thread
    const int64_t threads = HostExec().concurrency();
    for_pieces(label, count, std::max(LEAST, (count + threads - 1) / threads), [&](int64_t first, int64_t end) {
      for (int64_t n = first; n < end; n++) f(n);
    });
  }
  // The same where each call is a loop over atoms.
  template <class F>
  static void for_sums(const Work &, const char *label, int64_t count, const F &f) {
    for_pieces(label, count, 1, [&](int64_t n, int64_t) { f(n); });
  }
  // Into how many parts sums over `terms` terms are divided where there are `count` of them.
  static int64_t parts_of_sums(int64_t, int64_t) { return 1; }
  template <class N>
  static const N *copy(const Work &, const std::vector<N> &from, Array<N> &to) {
    std::copy(from.begin(), from.end(), to.reserve(from.size()));
    return to.data();
  }

  // Writes the positions of the receivers, with their tangents along the direction of the request, [count][3].
  static void positions(const Work &, const System &system, int count, D *to) {
    write_positions(system, count, nullptr, to);
  }
  // The same with EvaluationRequest::image_shifts.
  static void unwrapped_positions(const Work &, const System &system, int count, D *to) {
    write_positions(system, count, system.request.image_shifts, to);
  }

  // total[c] = sum of rows[n][width] by column
  void sum_rows(const Work &, const D *rows, int64_t n, int width, D *total) {
    std::fill_n(total, width, D(0.0));
    for (int64_t row = 0; row < n; row++)
      for (int c = 0; c < width; c++) total[c] += rows[row * width + c];
  }
  // Replaces numbers by their sums over all ranks, and returns these in host memory until the next call. Collective.
  const D *sum_over_ranks(const Work &, D *numbers, int64_t n, GhostExchange &exchange) {
    exchange.sum(reinterpret_cast<double *>(numbers), static_cast<int>(n) * PLANES<D>);
    return numbers;
  }
  // Writes the numbers of all ranks, one rank after the other, and returns how many there are. first: the place of this
  // rank's first one. Collective.
  int64_t gather_ranks(const Work &, const D *numbers, int64_t n, GhostExchange &exchange, Array<D> &all,
                       int64_t &first) {
    first = exchange.gather(reinterpret_cast<const double *>(numbers), n * PLANES<D>, gathered_) / PLANES<D>;
    const D *from = reinterpret_cast<const D *>(gathered_.data());
    const int64_t size = static_cast<int64_t>(gathered_.size()) / PLANES<D>;
    std::copy_n(from, size, all.reserve(size));
    return size;
  }

  // What a request needs, and what is added to its results: gradients [count][3] and derivatives by a strain, of all
  // atoms or [count][6], xx, yy, zz, xy, xz, yz, whose negatives are forces and virials.
  static bool needs_forces(const System &s) { return s.request.forces || s.request.force_tangents; }
  static bool needs_virial(const System &s) { return s.request.virial; }
  static bool needs_atom_virial(const System &s) { return s.request.atom_virial; }
  static const double (*cell_direction(const System &s))[3] { return s.request.cell_direction; }
  static void subtract_gradient(const Work &, const System &system, int count, const D *gradient) {
    for (int i = 0; i < count; i++) {
      const int atom = system.neighborhood.receiver[i];
      for (int a = 0; a < 3; a++) {
        if (system.request.forces) system.request.forces[atom][a] -= value_of(gradient[3 * i + a]);
        if (system.request.force_tangents) system.request.force_tangents[atom][a] -= tangent_of(gradient[3 * i + a]);
      }
    }
  }
  static void subtract_strain(const Work &, const System &system, const D *strain) {
    for (int c = 0; c < 6; c++) {
      system.result.virial[c] -= value_of(strain[c]);
      system.result.virial_tangent[c] -= tangent_of(strain[c]);
    }
  }
  static void subtract_atom_strains(const Work &, const System &system, int count, const double *strains) {
    constexpr int COMPONENT[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
    for (int i = 0; i < count; i++)
      for (int c = 0; c < 9; c++)
        system.request.atom_virial[system.neighborhood.receiver[i]][c] -= strains[6 * i + COMPONENT[c]];
  }

  auto members() const { return std::tie(gathered_); }

 private:
  static void write_positions(const System &system, int count, const double (*shifts)[3], D *to) {
    const EvaluationRequest &request = system.request;
    for (int i = 0; i < count; i++) {
      const int atom = system.neighborhood.receiver[i];
      for (int a = 0; a < 3; a++)
        to[3 * i + a] = make_number<D>(request.positions[atom][a] + (shifts ? shifts[atom][a] : 0.0),
                                       request.direction ? request.direction[atom][a] : 0.0);
    }
  }

  std::vector<double> gathered_;
};

}    // namespace equi

#endif
