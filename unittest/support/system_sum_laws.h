// SPDX-License-Identifier: MIT
// What energies of sums over all atoms obey: derivatives, sums over atoms, symmetries and ranks.
#ifndef EQUI_TEST_SYSTEM_SUM_LAWS_H
#define EQUI_TEST_SYSTEM_SUM_LAWS_H

#include "unittest/support/evaluator_laws.h"
#include "unittest/support/strain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace equi {
namespace testing {

// The best of central differences with several steps, of fourth order.
inline double best_difference(const std::function<double(double)> &energy, double expected,
                              std::initializer_list<double> steps = {4e-3, 2e-3, 1e-3}) {
  double best = INFINITY;
  for (const double h : steps) {
    const double slope = (8 * (energy(0.5 * h) - energy(-0.5 * h)) - (energy(h) - energy(-h))) / (6 * h);
    best = std::min(best, std::fabs(slope - expected));
  }
  return best;
}

// Energies and virials of atoms. has_momentum: whether the forces need not sum to 0.
inline void expect_atoms_sum_to_the_whole(const Evaluation &e, const AllowedDifferences &allowed, bool has_momentum) {
  double energy = 0.0;
  std::array<double, 6> virial{};
  Vector3 force{};
  for (size_t i = 0; i < e.atom_energy.size(); ++i) {
    energy += e.atom_energy[i];
    for (int k = 0; k < 3; ++k) virial[k] += e.atom_virial[i][k];
    for (int k = 3; k < 6; ++k) virial[k] += 0.5 * (e.atom_virial[i][k] + e.atom_virial[i][k + 3]);
    for (int k = 0; k < 3; ++k) force[k] += e.forces[i][k];
  }
  EXPECT_NEAR(energy, e.energy, allowed.energy);
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(virial[k], e.virial[k], allowed.virial) << k;
  for (int k = 0; !has_momentum && k < 3; ++k) EXPECT_NEAR(force[k], 0.0, allowed.force);
}

// difference: of the best of several steps, relative to the largest number of a kind.
inline void expect_forces_are_derivatives(Evaluator &evaluator, const Structure &structure, double reach,
                                          double difference) {
  const Evaluation e = evaluate_whole(evaluator, structure.images(reach));
  const double size = std::max(1.0, largest_force(e.forces));
  for (int n = 0; n < 6; ++n) {
    const int i = (3 * n + 1) % structure.size(), k = n % 3;
    const auto moved = [&](double h) {
      Structure s = structure;
      s.positions[i][k] += h;
      return energy_of(evaluator, s, reach);
    };
    EXPECT_LE(best_difference(moved, -e.forces[i][k]), difference * size) << i << ", " << k;
  }
}

// Wave vectors must be frozen, because those of a sphere would jump. A strain of an open system moves its atoms alone.
inline void expect_virials_are_derivatives(Evaluator &evaluator, const Structure &structure, double reach,
                                           double difference) {
  const Evaluation e = evaluate_whole(evaluator, structure.images(reach));
  double size = 1.0;
  for (const double v : e.virial) size = std::max(size, std::fabs(v));
  constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
  for (int c = 0; c < 6; ++c) {
    double strain[3][3] = {};
    strain[FIRST[c]][SECOND[c]] += 0.5;
    strain[SECOND[c]][FIRST[c]] += 0.5;
    const auto energy = [&](double h) { return energy_of(evaluator, strained(structure, h, strain), reach); };
    EXPECT_LE(best_difference(energy, -e.virial[c]), difference * size) << "component " << c;
  }
}

// Ranks have the results of one, and would not have them without the sums. The structure has 8 atoms.
inline void expect_ranks_agree_and_need_the_sums(const std::function<std::unique_ptr<Evaluator>()> &make,
                                                 const ImageStructure &images, const Closeness &closeness) {
  const Evaluation whole = evaluate_whole(*make(), images);
  for (const auto &[num_ranks, split] : {std::pair<int, std::vector<int>>{2, {0, 1, 0, 1, 1, 1, 0, 0}},
                                         {3, {0, 2, 0, 2, 0, 0, 2, 2}},
                                         {5, {4, 0, 1, 3, 3, 1, 4, 0}}}) {    // rank 1 of 3 and rank 2 of 5 are empty
    const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make());
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, static_cast<int>(split.size()), group);
    for (const auto &error : e.errors) ASSERT_FALSE(error);
    expect_same(e, whole, closeness, std::to_string(num_ranks) + " ranks");
    RankGroup muted(parts);
    muted.mute_sum = true;
    EXPECT_GT(std::fabs(evaluate_ranks(evaluators, parts, static_cast<int>(split.size()), muted).energy - whole.energy),
              NOTICEABLE);
  }
}

inline Vector3 turned(const double (&q)[3][3], const double *v) {
  Vector3 out{};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) out[a] += q[a][b] * v[b];
  return out;
}
inline Structure turned(const double (&q)[3][3], const Structure &structure) {
  Structure s = structure;
  for (Vector3 &r : s.positions) r = turned(q, r.data());
  for (auto &v : s.cell) std::copy_n(turned(q, v).data(), 3, v);
  return s;
}
// Energy and forces turn with the structure. of_turned: those of the turned structure.
inline void expect_turned(const double (&q)[3][3], const Evaluation &of_turned, const Evaluation &e,
                          const AllowedDifferences &allowed) {
  EXPECT_NEAR(of_turned.energy, e.energy, allowed.energy);
  for (size_t i = 0; i < e.forces.size(); ++i) {
    const Vector3 f = turned(q, e.forces[i].data());
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(of_turned.forces[i][k], f[k], allowed.force);
  }
}

// Their energies are those of the structure: all atoms moved alike, and in another order.
inline Structure shifted(const Structure &structure) {
  Structure s = structure;
  for (Vector3 &r : s.positions)
    for (double &x : r) x += 1.234;
  return s;
}
inline Structure reversed(const Structure &structure) {
  Structure s = structure;
  std::reverse(s.positions.begin(), s.positions.end());
  std::reverse(s.species.begin(), s.species.end());
  return s;
}

}    // namespace testing
}    // namespace equi

#endif
