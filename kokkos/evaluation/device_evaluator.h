// SPDX-License-Identifier: MIT
// The interface to evaluate a model whose positions, neighbors and results stay in device memory. equi/kk calls it.
#ifndef EQUI_DEVICE_EVALUATOR_H
#define EQUI_DEVICE_EVALUATOR_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/geometry/device_neighborhood.h"
#include "kokkos/layer_interface/balance_layer.h"
#include "src/evaluation/evaluator.h"
#include "src/numbers/dual.h"

#include <vector>

namespace equi {

// The inputs of an evaluation. The caller reads DeviceResults instead of the outputs of EvaluationRequest.
struct DeviceRequest {
  const double *positions = nullptr;    // [atoms][3] device memory
  // As in EvaluationRequest, for directional evaluators.
  DeviceDirections directions = {};
  bool forces = false, virial = false, atom_virial = false;    // forces: these or their tangents
  // As in EvaluationRequest. If values are kept, results() then has only tangents.
  bool same_positions = false;
  bool energy_moments = false;    // always with EvaluatorOptions::energy_moments, along the one direction
  PeriodicBox box = {};
  const double (*cell_direction)[3] = nullptr;    // [3] on the host, as in EvaluationRequest
  const double *image_shifts = nullptr;           // [atoms][3] as in EvaluationRequest, in device memory
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
  // [directions][N] for directional evaluators: energies with their tangents. With energy moments the directions are
  // those of EnergyMoments.
  Dual<double> *energy_duals = nullptr;
};

// Calls use_energy(row, energy) and use_moment(row, component, moment) for the receivers among these results of an
// evaluation of energy moments.
template <class UseEnergy, class UseMoment>
void for_energy_moments(const DeviceResults &results, int num_receivers, const UseEnergy &use_energy,
                        const UseMoment &use_moment) {
  std::vector<Dual<double>> energies(num_receivers);
  for (int d = 0; d < EnergyMoments::DIRECTIONS; d++) {
    copy_to_host(DeviceExec(), energies.data(), results.energy_duals + static_cast<int64_t>(d) * num_receivers,
                 num_receivers);
    const int moment = EnergyMoments::moment(d);
    for (int row = 0; row < num_receivers; row++)
      if (moment < 0)
        use_energy(row, value_of(energies[row]));
      else
        use_moment(row, moment, tangent_of(energies[row]));
  }
}

class DeviceEvaluator : public Evaluator {
 public:
  using Evaluator::evaluate;
  using Evaluator::set_neighborhood;
  // Shares the arrays of the list, which must stay unchanged until the next call. Memory is planned for this box.
  virtual void set_neighborhood(const DeviceNeighborList &list, const PeriodicBox &box) = 0;
  // Reads positions after all work queued on DeviceExec(), the default instance. All work has ended on return.
  // Collective; throws the same errors as the other evaluate().
  virtual EvaluationResult evaluate(const DeviceRequest &request, GhostExchange &exchange) = 0;
  virtual DeviceResults results() const = 0;
};

}    // namespace equi

#endif
