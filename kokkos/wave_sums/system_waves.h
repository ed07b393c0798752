// SPDX-License-Identifier: MIT
// The wave vectors of a sum over all atoms while the cell changes from evaluation to evaluation.
#ifndef EQUI_SYSTEM_WAVES_H
#define EQUI_SYSTEM_WAVES_H

#include "src/evaluation/evaluator.h"
#include "src/functions/wave_vectors.h"

#include <cstddef>
#include <string>

namespace equi {

class SystemWaves {
 public:
  // cutoff: 1/Angstrom; sigma: width of the charges in Angstrom, for converged sums; of_file: the layer's set.
  SystemWaves(double cutoff, double sigma, const std::string &of_file, WaveVectorSet wave_vectors);

  // Sums of the same name have the same wave vectors.
  std::string name() const;

  // What an evaluation in this cell must prepare anew: nothing; what depends on the cell; also what depends on the
  // integers. direction: of the cell's vectors, or null. Throws EvaluationError if there can be no sum.
  enum class Change { none, cell, integers };
  Change use(const CellMatrix &cell, const double (*direction)[3]);

  const WaveVectors &vectors() const { return vectors_; }    // stay at the address of this object
  const CellMatrix &cell_direction() const { return cell_direction_; }
  // A bound for an evaluation in this cell; nothing without a cell, or where use() would throw.
  WaveVectors::Extent extent(const CellMatrix &cell) const;

  // A line of the log about the present wave vectors of a sum; empty before the first use().
  std::string describe(const char *sum, std::size_t bytes) const;
  // A line that follows if the charges of all atoms do not sum to 0.
  static std::string warning_of_charge(double total_charge, double num_atoms);

 private:
  double cutoff_;    // 1/Angstrom
  WaveVectorSet set_;
  bool is_used_ = false;
  WaveVectors vectors_;
  CellMatrix cell_{}, cell_direction_{};
};

}    // namespace equi

#endif
