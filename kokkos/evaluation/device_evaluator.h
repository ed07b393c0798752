// SPDX-License-Identifier: MIT
// The interface to evaluate a model whose positions, neighbors and results stay in device memory. equi/kk calls it.
#ifndef EQUI_DEVICE_EVALUATOR_H
#define EQUI_DEVICE_EVALUATOR_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_neighborhood.h"
#include "src/evaluation/evaluator.h"

namespace equi {

// The inputs of an evaluation. The caller reads DeviceResults instead of the outputs of EvaluationRequest.
struct DeviceRequest {
  const double *positions = nullptr;    // [atoms][3] device memory
  // As in EvaluationRequest, for directional evaluators.
  DeviceDirections directions = {};
  bool forces = false, virial = false, atom_virial = false;    // forces: these or their tangents
  // As in EvaluationRequest. If values are kept, results() then has only tangents.
  bool same_positions = false;
};

// Results by rows, in device memory until the next evaluation. Signs and units are those of EvaluationRequest. A
// force on a row acts on the atom row_atom[row], or on no atom if that is -1.
struct DeviceResults {
  const int *row_atom = nullptr;    // [A]
  double *forces = nullptr;         // [A][3]
  // [directions][A][3] tangents of the forces along the directions; for directional evaluators
  double *tangents = nullptr;
  double *virial = nullptr;    // [A][9], if requested
  double *energy = nullptr;    // [N]; null for directional evaluators
};

class DeviceEvaluator : public Evaluator {
 public:
  using Evaluator::evaluate;
  using Evaluator::set_neighborhood;
  // n must stay valid and unchanged until the next call.
  virtual void set_neighborhood(DeviceNeighborhood &n) = 0;
  // Reads positions after all work queued on DeviceExec(), the default instance. All work has ended on return.
  // Collective; throws the same errors as the other evaluate().
  virtual EvaluationResult evaluate(const DeviceRequest &request, GhostExchange &exchange) = 0;
  virtual DeviceResults results() const = 0;
};

}    // namespace equi

#endif
