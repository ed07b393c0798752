// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The evaluation of a step in the memory of a device, from and to the views of LAMMPS's package KOKKOS.

#ifndef EQUI_PAIR_RUNNER_KOKKOS_H
#define EQUI_PAIR_RUNNER_KOKKOS_H

#include "kokkos/evaluation/device_evaluator.h"
#include "kokkos/lammps/lammps_device_neighborhood.h"
#include "kokkos/lammps/pair_atoms_kokkos.h"
#include "src/lammps/evaluation/pair_runner.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace equi {

class PairRunnerKokkos : public PairRunner {
 public:
  using Atoms = PairAtomsKokkos<LammpsDeviceType>;
  // The evaluator must be a DeviceEvaluator.
  PairRunnerKokkos(LAMMPS_NS::LAMMPS *lmp, std::unique_ptr<Evaluator> evaluator, const EvaluatorOptions &options,
                   Atoms &atoms, const PairModels &models);

  bool has_host_neighborhood() const override { return false; }
  void read_neighborhood() override;
  void use_neighborhood(bool is_exchanged) override;
  EvaluationResult run(const StepRequest &request) override;
  ResultRows results() const override;
  std::vector<std::array<double, 3>> copy_forces() const override;
  std::vector<std::vector<std::array<double, 3>>> forces_of_models() override;
  const Neighborhood &neighborhood_on_host(Neighborhood &space) const override;
  void with_host_neighborhood(const std::function<void()> &work) override;
  void multiply_hessian(Evaluator &directional, bool is_set, int count, const double (*const *v)[3],
                        double (*const *hv)[3], bool same_positions) override;
  EvaluationResult derive_by_strain(Evaluator &directional, bool is_set, const double strain[3][3],
                                    double (*force_tangents)[3]) override;
  void energy_moments(Evaluator &directional, bool is_set, const double (*v)[3], double *energies,
                      double (*moments)[3]) override;

 private:
  void set_numbers();                   // those of neighborhood()
  DeviceRequest request_on_device();    // with the present positions and cell
  // The evaluator as one of devices, with the present neighborhood.
  DeviceEvaluator &with_neighborhood(Evaluator &directional, bool is_set);
  // Directions [atoms] in device memory from vectors of this rank's atoms, `count` of them. Ghosts move like the atoms
  // that they represent.
  DeviceDirections make_directions(int count, const double (*const *v)[3]);
  // Tangents of rows times a factor, summed over each of this rank's atoms and its copies: [nlocal] on the host.
  void copy_to_owners(double *tangents, double factor, double (*to)[3]);

  Atoms &atoms_;
  DeviceEvaluator &device_evaluator_;
  LammpsDeviceNeighborhood on_device_;
  DeviceBuffer<double> direction_, row_values_, image_shifts_;
};

}    // namespace equi

#endif
