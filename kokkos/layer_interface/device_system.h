// SPDX-License-Identifier: MIT
// What sums over all atoms of a device's evaluation share: the counterpart of host_system.h.
#ifndef EQUI_DEVICE_SYSTEM_H
#define EQUI_DEVICE_SYSTEM_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/system_numbers.h"
#include "kokkos/runtime/device_exec.h"
#include "kokkos/runtime/device_sum.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace equi {

template <class D>
struct PositionsOfReceivers {
  const int *receiver;
  const double *positions, *direction, *shifts;    // [atoms][3]; null: zero
  D *to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t at = 3 * static_cast<int64_t>(receiver[n / 3]) + n % 3;
    to[n] = make_number<D>(positions[at] + (shifts ? shifts[at] : 0.0), direction ? direction[at] : 0.0);
  }
};

// D: double or Dual<double>
template <class D>
class SystemOnDevice {
 public:
  using Number = D;
  using Work = DeviceExec;
  using System = DeviceSystem<D>;
  template <class N>
  using Array = DeviceBuffer<N>;

  // The functions of SystemOnHost.
  template <class F>
  static void for_numbers(const Work &exec, const char *label, int64_t count, const F &f) {
    Kokkos::parallel_for(label, DeviceRange(exec, 0, count), f);
  }
  template <class F>
  static void for_sums(const Work &exec, const char *label, int64_t count, const F &f) {
    for_numbers(exec, label, count, f);
  }
  static int64_t parts_of_sums(int64_t count, int64_t terms) {
    constexpr int64_t THREADS = DeviceTraits<>::ON_HOST ? 64 : 65536, LEAST_TERMS = DeviceTraits<>::ON_HOST ? 3 : 16;
    return std::max<int64_t>(1, std::min(THREADS / std::max<int64_t>(1, count), terms / LEAST_TERMS));
  }
  template <class N>
  static const N *copy(const Work &exec, const std::vector<N> &from, Array<N> &to) {
    assign(exec, to, from);
    return to.data();
  }

  static void positions(const Work &exec, const System &system, int count, D *to) {
    write_positions(exec, system, count, nullptr, to);
  }
  static void unwrapped_positions(const Work &exec, const System &system, int count, D *to) {
    write_positions(exec, system, count, system.image_shifts, to);
  }

  void sum_rows(const Work &exec, const D *rows, int64_t n, int width, D *total) {
    sum_.add_up(exec,
                {{reinterpret_cast<const double *>(rows), n, width * PLANES<D>, reinterpret_cast<double *>(total)}});
  }
  // Through the host, where ranks sum. A single rank reads back what it has written.
  const D *sum_over_ranks(const Work &exec, D *numbers, int64_t n, GhostExchange &exchange) {
    host_numbers_.resize(n);
    copy_to_host(exec, host_numbers_.data(), static_cast<const D *>(numbers), n);
    exchange.sum(reinterpret_cast<double *>(host_numbers_.data()), static_cast<int>(n) * PLANES<D>);
    copy_to_device(exec, numbers, host_numbers_.data(), n);
    return host_numbers_.data();
  }
  int64_t gather_ranks(const Work &exec, const D *numbers, int64_t n, GhostExchange &exchange, Array<D> &all,
                       int64_t &first) {
    host_numbers_.resize(n);
    copy_to_host(exec, host_numbers_.data(), numbers, n);
    first =
        exchange.gather(reinterpret_cast<const double *>(host_numbers_.data()), n * PLANES<D>, gathered_) / PLANES<D>;
    const int64_t size = static_cast<int64_t>(gathered_.size()) / PLANES<D>;
    copy_to_device(exec, all.reserve(size), reinterpret_cast<const D *>(gathered_.data()), size);
    return size;
  }

  static bool needs_forces(const System &s) { return s.gradient; }
  static bool needs_virial(const System &s) { return s.virial; }
  static bool needs_atom_virial(const System &s) { return s.atom_virial; }
  static const double (*cell_direction(const System &s))[3] { return s.cell_direction; }
  // The evaluation subtracts gradients from forces.
  static void subtract_gradient(const Work &exec, const System &system, int count, const D *gradient) {
    for_numbers(exec, "equi:add_gradients", 3 * static_cast<int64_t>(count),
                AddNumbers<D, D>{gradient, system.gradient});
  }
  static void subtract_strain(const Work &exec, const System &system, const D *strain) {
    for_numbers(exec, "equi:add_strain", 6, SubtractNumbers<D, D>{strain, system.virial});
  }
  static void subtract_atom_strains(const Work &exec, const System &system, int count, const double *strains) {
    for_numbers(exec, "equi:add_strains", 6 * static_cast<int64_t>(count),
                SubtractNumbers<double, double>{strains, system.atom_virial});
  }

  auto members() const { return std::tie(sum_); }

 private:
  static void write_positions(const Work &exec, const System &system, int count, const double *shifts, D *to) {
    for_numbers(exec, "equi:positions", 3 * static_cast<int64_t>(count),
                PositionsOfReceivers<D>{system.receiver, system.positions, system.directions[0], shifts, to});
  }

  DeviceSum sum_;
  std::vector<D> host_numbers_;
  std::vector<double> gathered_;
};

}    // namespace equi

#endif
