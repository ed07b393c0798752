// SPDX-License-Identifier: MIT
// Sums of multipoles over given wave vectors by one thread, without an evaluation: a back end of SystemMultipoles.
#ifndef EQUI_TEST_PLAIN_WAVES_H
#define EQUI_TEST_PLAIN_WAVES_H

#include "kokkos/runtime/buffer.h"
#include "kokkos/wave_sums/system_multipoles.h"
#include "src/evaluation/ghost_exchange.h"
#include "src/functions/multipole_function.h"
#include "src/functions/wave_sum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace equi::testing {

// Atoms, and what sums add to: derivatives by positions and by a strain, whose negatives are forces and virials.
template <class T>
struct PlainSystem {
  std::vector<std::array<T, 3>> positions;
  mutable std::vector<T> gradient;    // [atoms][3]
  mutable std::array<T, SYMMETRIC> strain;
  mutable std::vector<double> atom_strains;    // [atoms][SYMMETRIC]
  bool needs_forces = true, needs_virial = true, needs_atom_virial = true;

  explicit PlainSystem(std::vector<std::array<T, 3>> at)
      : positions(std::move(at)), gradient(3 * positions.size(), T(0.0)), atom_strains(SYMMETRIC * positions.size()) {
    strain.fill(T(0.0));
  }
  int count() const { return static_cast<int>(positions.size()); }
};

template <class T>
class PlainWaves {
 public:
  using Number = T;
  struct Work {};
  using System = PlainSystem<T>;
  template <class N>
  using Array = Buffer<N>;

  explicit PlainWaves(const WaveVectors &waves, const CellMatrix *cell_direction = nullptr)
      : waves_(waves), sum_(waves_, cell_direction) {
    for (const WaveVectors::Tile &t : waves_.tiles())
      rows_.push_back({t.n2, t.first_n3, t.first_n1, t.end_n1 - t.first_n1, t.at});
  }

  PlainWaves(const PlainWaves &) = delete;

  template <class F>
  static void for_numbers(const Work &, const char *, int64_t count, const F &f) {
    for (int64_t n = 0; n < count; n++) f(n);
  }
  void prepare(const Work &, const System &system, int count) {
    sum_.set_count(count);
    sum_.tabulate(0, count, system.positions.data());
    count_ = count;
  }
  int64_t num_changes() const { return 1; }
  const WaveCell<T> &cell() const { return sum_.cell(); }
  int64_t size() const { return waves_.size(); }
  FactorPlaces places() const { return {size(), 1, size()}; }
  const WaveRows *rows() const { return rows_.data(); }
  int64_t num_rows() const { return static_cast<int64_t>(rows_.size()); }
  const int8_t *present() const { return waves_.present().data(); }
  PowersOfAtoms<T> powers() const { return {sum_.powers(0).first, 1, 2 * cell().stride(), 0, 1, cell().stride()}; }
  void add_up(const Work &, int columns, int components, const T *multipoles, T *sums) {
    sum_.add_tiles(0, sum_.num_tiles(), columns, components, multipoles, sums);
  }
  void gather(const Work &, int planes, int order, const T *factors, int64_t stride, T *fields) const {
    sum_.gather(0, count_, planes, order, factors, stride, fields);
  }
  void sum_rows(const Work &, const T *rows, int64_t n, int width, T *total) {
    std::fill_n(total, width, T(0.0));
    for (int64_t k = 0; k < n * width; k++) total[k % width] += rows[k];
  }
  const T *sum_over_ranks(const Work &, T *numbers, int64_t n, GhostExchange &exchange) {
    exchange.sum(reinterpret_cast<double *>(numbers), static_cast<int>(n) * PLANES<T>);
    return numbers;
  }
  static bool needs_forces(const System &s) { return s.needs_forces; }
  static bool needs_virial(const System &s) { return s.needs_virial; }
  static bool needs_atom_virial(const System &s) { return s.needs_atom_virial; }
  static void subtract_gradient(const Work &, const System &s, int count, const T *gradient) {
    for (int k = 0; k < 3 * count; k++) s.gradient[k] += gradient[k];
  }
  static void subtract_strain(const Work &, const System &s, const T *strain) {
    for (int c = 0; c < SYMMETRIC; c++) s.strain[c] += strain[c];
  }
  static void subtract_atom_strains(const Work &, const System &s, int count, const double *strains) {
    for (int k = 0; k < SYMMETRIC * count; k++) s.atom_strains[k] += strains[k];
  }

 private:
  WaveVectors waves_;
  WaveSum<T> sum_;
  std::vector<WaveRows> rows_;
  int count_ = 0;
};

template <class T>
using PlainMultipoles = SystemMultipoles<PlainWaves<T>>;

template <class T>
PlainMultipoles<T> plain_multipoles(const MultipoleFunction &function, int channels, bool has_dipoles,
                                    bool has_gradients, const WaveVectors &waves,
                                    const CellMatrix *cell_direction = nullptr) {
  return {function, channels, has_dipoles, has_gradients, std::make_shared<PlainWaves<T>>(waves, cell_direction), true};
}

// Ranks that are evaluated one after the other, and twice: the first time they add to the sums, which they get the
// second time.
class RanksInTurn : public NoExchange {
 public:
  void begin_rank() { next_ = 0; }
  void begin_second_time() { is_first_ = false; }
  bool active() const override { return true; }
  void sum(double *numbers, int count) override {
    if (next_ == sums_.size()) sums_.emplace_back(count, 0.0);
    std::vector<double> &sum = sums_[next_++];
    for (int n = 0; n < count; n++)
      if (is_first_)
        sum[n] += numbers[n];
      else
        numbers[n] = sum[n];
  }

 private:
  bool is_first_ = true;
  std::size_t next_ = 0;
  std::vector<std::vector<double>> sums_;
};

}    // namespace equi::testing

#endif
