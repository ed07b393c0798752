// SPDX-License-Identifier: MIT
// An evaluation of energy, forces and virial without LAMMPS, as the programs measure it.
#ifndef EQUI_BENCH_WHOLE_EVALUATION_H
#define EQUI_BENCH_WHOLE_EVALUATION_H

#include "src/evaluation/evaluator.h"
#include "src/geometry/neighbor_graph.h"

#include <array>
#include <vector>

namespace equi {
namespace bench {

struct Results {
  EvaluationResult sums;
  std::vector<std::array<double, 3>> forces;
};

// Evaluates the neighborhood of s, which the evaluator has received before.
inline Results evaluate(Evaluator &evaluator, const ImageStructure &s) {
  Results results;
  results.forces.assign(s.positions.size(), {});
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(results.forces.data());
  request.virial = true;
  NoExchange none;
  results.sums = evaluator.evaluate(request, none);
  return results;
}

}    // namespace bench
}    // namespace equi

#endif
