// SPDX-License-Identifier: MIT
// The evaluation of a model whose positions, neighbors and results stay in device memory. equi/kk calls it.
#ifndef EQUI_DEVICE_EVALUATOR_H
#define EQUI_DEVICE_EVALUATOR_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_neighborhood.h"
#include "src/evaluation/evaluator.h"

namespace equi {

// The inputs of a step. Instead of the outputs of EvaluationRequest the caller reads DeviceResults.
struct DeviceRequest {
  const double *positions = nullptr;    // [atoms][3] device memory
  // As in EvaluationRequest, of evaluators that are directional.
  DeviceDirections directions = {};
  bool forces = false, virial = false, atom_virial = false;    // forces: or their tangents
  // As in EvaluationRequest. Where values are kept, tangents are then all that results() has.
  bool same_positions = false;
};

// Results by rows, in device memory until the next evaluation; signs and units as in EvaluationRequest. What acts on a
// row acts on the atom row_atom[row], or on none of them where that is -1.
struct DeviceResults {
  const int *row_atom = nullptr;    // [A]
  double *forces = nullptr;         // [A][3]
  // [directions][A][3] of the forces along the directions; of evaluators that are directional
  double *tangents = nullptr;
  double *virial = nullptr;    // [A][9], if asked for
  double *energy = nullptr;    // [N]; null of evaluators that are directional
};

class DeviceEvaluator : public Evaluator {
 public:
  using Evaluator::evaluate;
  using Evaluator::set_neighborhood;
  // n must stay valid and unchanged until the next call.
  virtual void set_neighborhood(DeviceNeighborhood &n) = 0;
  // Reads positions after all work queued on DeviceExec(), the default instance; all work has ended on return.
  // Collective and with the errors of the other evaluate().
  virtual EvaluationResult evaluate(const DeviceRequest &request, GhostExchange &exchange) = 0;
  virtual DeviceResults results() const = 0;
};

}    // namespace equi

#endif
