// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// The evaluation of a step: it has the evaluator of the models and the neighborhood of LAMMPS's present list, and
// computes what LAMMPS requests. Here evaluators read and write host memory. A runner of equi/kk uses that of a device.

#ifndef EQUI_PAIR_RUNNER_H
#define EQUI_PAIR_RUNNER_H

#include "src/evaluation/evaluator.h"
#include "src/lammps/evaluation/pair_atoms.h"
#include "src/lammps/evaluation/pair_models.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace equi {

// What a step requests besides energy and forces.
struct StepRequest {
  bool virial = false, atom_energy = false, atom_virial = false;
};

class PairRunner : public PairPart {
 public:
  // options: those of the evaluator. The runner is used while `atoms` and `models` stay as they are.
  PairRunner(LAMMPS_NS::LAMMPS *lmp, std::unique_ptr<Evaluator> evaluator, const EvaluatorOptions &options,
             PairAtoms &atoms, const PairModels &models);

  Evaluator &evaluator() const { return *evaluator_; }
  const EvaluatorOptions &options() const { return options_; }
  PairAtoms &atoms() const { return atoms_; }
  LammpsExchange &exchange() const { return atoms_.exchange(); }
  const PairModels &models() const { return models_; }
  double memory_without_atoms() const { return memory_without_atoms_; }    // bytes
  // Numbers of atoms, receivers and rows; the arrays as well if has_host_neighborhood().
  const Neighborhood &neighborhood() const { return neighborhood_; }
  std::size_t exchange_bytes_per_row() const;    // of features, and of results
  bool has_remote_rows() const { return neighborhood_.num_rows > neighborhood_.num_receivers; }

  // For work of a step, which may communicate: an error of this rank ends all ranks. After any error but those of
  // positions and of memory the evaluation is not used again: is_broken().
  void try_step(Work work);
  bool is_broken() const { return is_broken_; }

  // The traffic is that of the last step. has_limit: whether the evaluator obeys the limit of the memory. Collective.
  void log_exchange_and_memory(bool has_limit) const;

  // Results of run() stay until the next evaluation. They are of this rank's receivers, in eV.
  virtual bool has_host_neighborhood() const { return true; }
  virtual void read_neighborhood();
  virtual void use_neighborhood(bool is_exchanged);
  virtual EvaluationResult run(const StepRequest &request);
  virtual ResultRows results() const;
  // For checks, in host memory: the forces of all atoms from the last run, and receivers with their candidates by atom.
  // The second function returns the runner's own neighborhood, or fills and returns `space`.
  virtual std::vector<std::array<double, 3>> copy_forces() const { return forces_; }
  virtual const Neighborhood &neighborhood_on_host(Neighborhood &) const { return neighborhood_; }
  // For a committee: the forces of each model on this rank's atoms from the last run, summed over all ranks, in
  // eV/Angstrom: [models][nlocal]; 0 for an atom without a row.
  virtual std::vector<std::vector<std::array<double, 3>>> forces_of_models();
  // Calls work() while neighborhood() and the exchange have their arrays in host memory, for the requests of
  // evaluators that read host memory. The runner's own evaluator may be among these.
  virtual void with_host_neighborhood(const std::function<void()> &work) { work(); }
  // H v of `count` vectors of this rank's atoms, in eV, by an evaluator for directions. is_set: whether it has the
  // present neighborhood.
  virtual void multiply_hessian(Evaluator &directional, bool is_set, int count, const double (*const *v)[3],
                                double (*const *hv)[3], bool same_positions);
  // The virial and its derivative by a homogeneous strain, of this rank's receivers, and those of the forces on this
  // rank's atoms, in eV. The evaluator and is_set are as before.
  virtual EvaluationResult derive_by_strain(Evaluator &directional, bool is_set, const double strain[3][3],
                                            double (*force_tangents)[3]);
  // The energies of this rank's atoms in eV, and their energy moments (EvaluationRequest::energy_moments) for the
  // velocities v; 0 for an atom that is no receiver. All are [nlocal]. The evaluator and is_set are as before.
  virtual void energy_moments(Evaluator &directional, bool is_set, const double (*v)[3], double *energies,
                              double (*moments)[3]);

  // With the present positions and image flags, for neighborhood() with the present box.
  EvaluationRequest request_at_positions();
  double energy_by(Evaluator &evaluator);    // at present positions, by one that has neighborhood()
  // With rows in host memory. Copies of an atom move like the atom: v is [nlocal], copies [atoms].
  void spread_to_copies(const double (*v)[3], double (*copies)[3]);
  // Sums numbers over each of this rank's atoms and its copies on all ranks. add: adds those of an atom, which may be a
  // copy, to its row [width]. Calls use(i, row) for this rank's atoms [nlocal]; row is null for an atom without one.
  void sum_at_owners(int width, const std::function<void(int atom, double *row)> &add,
                     const std::function<void(int atom, const double *row)> &use);
  // The same for of_atoms [atoms], times a factor; 0 for an atom without a row. of_owned: [nlocal].
  void sum_at_owners(const std::array<double, 3> *of_atoms, double factor, double (*of_owned)[3]);

 protected:
  static constexpr int FORCE_WIDTH = 3, VIRIAL_WIDTH = 9;    // numbers of an atom
  void set_box();                                            // of the neighborhood to the present one
  const PeriodicBox &present_box();                          // sets the box; that of the neighborhood
  // Its derivative along a strain, EvaluationRequest::cell_direction.
  PeriodicBox::Vectors strained_cell(const double strain[3][3]);
  bool has_field_of_charges();
  // EvaluationRequest::image_shifts of the present image flags; null if no field acts on charges.
  const double (*image_shifts())[3];
  Neighborhood neighborhood_;

 private:
  void send_ghosts_home(bool atom_virial);

  std::unique_ptr<Evaluator> evaluator_;
  EvaluatorOptions options_;
  PairAtoms &atoms_;
  const PairModels &models_;
  double memory_without_atoms_;
  bool is_broken_ = false;
  std::vector<int> atom_row_;
  std::vector<std::array<double, 3>> forces_;    // [atoms]
  std::vector<std::array<double, 9>> virials_;
  std::vector<double> energies_;
  std::vector<double> row_values_;
  std::vector<std::array<double, 3>> direction_, tangents_;    // [directions][atoms + 1]
  std::optional<bool> has_field_;                              // whether image_shifts_ are needed
  std::vector<std::array<double, 3>> image_shifts_;            // [atoms + 1]
};

}    // namespace equi

#endif
