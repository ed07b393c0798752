// SPDX-License-Identifier: MIT
// A homogeneous strain of a structure and its cell, and derivatives along it.
#ifndef EQUI_TEST_STRAIN_H
#define EQUI_TEST_STRAIN_H

#include "unittest/support/two_rank_exchange.h"

#include <algorithm>
#include <vector>

namespace equi {
namespace testing {

constexpr double STRAIN[3][3] = {{0.3, -0.2, 0.1}, {-0.2, 0.5, 0.4}, {0.1, 0.4, -0.6}};

// Positions and cell, multiplied by 1 + `by` times the strain.
inline Structure strained(const Structure &s, double by, const double (&strain)[3][3] = STRAIN) {
  Structure moved = s;
  const auto apply = [&](double *v) {
    const double old[3] = {v[0], v[1], v[2]};
    for (int a = 0; a < 3; ++a)
      for (int b = 0; b < 3; ++b) v[a] += by * strain[a][b] * old[b];
  };
  for (Vector3 &r : moved.positions) apply(r.data());
  for (auto &v : moved.cell) apply(v);
  return moved;
}

// All results along STRAIN. images: those of the structure.
inline Evaluation evaluate_along_strain(Evaluator &evaluator, const ImageStructure &images,
                                        const Structure &structure) {
  const size_t num = images.positions.size();
  std::vector<Vector3> moved(num, Vector3{}), forces(num, Vector3{}), tangents(num, Vector3{});
  double cell[3][3] = {};
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b) {
      for (size_t i = 0; i < num; ++i) moved[i][a] += STRAIN[a][b] * images.positions[i][b];
      for (int k = 0; k < 3; ++k) cell[k][a] += STRAIN[a][b] * structure.cell[k][b];
    }
  evaluator.set_neighborhood(images.neighborhood);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.direction = reinterpret_cast<const double(*)[3]>(moved.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  request.cell_direction = cell;
  request.virial = true;
  NoExchange none;
  const EvaluationResult result = evaluator.evaluate(request, none);
  Evaluation e = make_evaluation(structure.size(), 1);
  e.energy = result.energy;
  e.energy_tangent = result.energy_tangent;
  std::copy_n(result.virial, 6, e.virial.begin());
  std::copy_n(result.virial_tangent, 6, e.virial_tangent.begin());
  for (size_t i = 0; i < num; ++i)
    for (int a = 0; a < 3; ++a) {
      e.forces[images.owner[i]][a] += forces[i][a];
      e.force_tangents[images.owner[i]][a] += tangents[i][a];
    }
  return e;
}

}    // namespace testing
}    // namespace equi

#endif
