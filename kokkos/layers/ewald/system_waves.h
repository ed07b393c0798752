// SPDX-License-Identifier: MIT
// The wave vectors of an Ewald sum while the cell changes from evaluation to evaluation.
#ifndef EQUI_SYSTEM_WAVES_H
#define EQUI_SYSTEM_WAVES_H

#include "src/evaluation/evaluator.h"
#include "src/functions/wave_vectors.h"
#include "src/layers/ewald.h"

#include <cstddef>
#include <string>

namespace equi {

class SystemWaves {
 public:
  SystemWaves(const Ewald &layer, WaveVectorSet wave_vectors);

  // What an evaluation in this cell must prepare anew: nothing; what depends on the cell; also what depends on the
  // integers. direction: of the cell's vectors, or null. Throws EvaluationError if there can be no sum.
  enum class Change { none, cell, integers };
  Change use(const CellMatrix &cell, const double (*direction)[3]);

  const EwaldFunction &function() const { return function_; }
  const WaveVectors &vectors() const { return vectors_; }    // stay at this address
  const CellMatrix &cell_direction() const { return cell_direction_; }
  // A bound for an evaluation in this cell; nothing without a cell, or where use() would throw.
  WaveVectors::Extent extent(const CellMatrix &cell) const;

  // Lines of the log about the present wave vectors; empty before the first use().
  std::string describe(double total_charge, double num_atoms, std::size_t bytes) const;

 private:
  EwaldFunction function_;
  double cutoff_;    // 1/Angstrom
  WaveVectorSet set_;
  bool is_used_ = false;
  WaveVectors vectors_;
  CellMatrix cell_{}, cell_direction_{};
};

}    // namespace equi

#endif
