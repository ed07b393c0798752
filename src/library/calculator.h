// SPDX-License-Identifier: MIT
// Energies, forces, virials and second derivatives of structures, without LAMMPS: what equi.h offers, in C++.
#ifndef EQUI_CALCULATOR_H
#define EQUI_CALCULATOR_H

#include "src/evaluation/born_charges.h"
#include "src/evaluation/evaluator.h"
#include "src/library/calculator_settings.h"
#include "src/library/structure_neighbors.h"

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace equi {

// Pointers as in equi_compute(). All functions throw std::exception with a text for the user.
struct CalculatorResults {
  double *energy = nullptr, *energies = nullptr, *forces = nullptr, *virial = nullptr, *stress = nullptr;
};

class Calculator {
 public:
  // elements: symbols of the types, separated by blanks; empty: those of the file.
  Calculator(const std::string &file, const std::string &elements, const std::string &keywords);

  const std::vector<std::string> &symbols() const { return symbols_; }    // [types]
  double cutoff() const { return model_.reach(); }
  std::string describe();

  // Arrays as in equi_set_atoms().
  void set_atoms(int num_atoms, const int *types, const double *positions, const double *cell, const int *periodic);
  void compute(const CalculatorResults &results);
  void compute_hessian(double *hessian);
  // As equi_compute_observable() and equi_observable_unit(). Both throw if the model has no quantity of this name.
  void compute_observable(const std::string &name, double *values);
  std::string observable_unit(const std::string &name) const;
  void compute_born_charges(bool neutral, double *born, double *charge_derivatives);    // as equi_born_charges()

 private:
  EvaluatorOptions options() const;
  std::unique_ptr<Evaluator> make_evaluator(bool directional) const;
  // The matrices of a file for all systems depend on the atoms.
  void fit_system();
  std::map<std::string, int64_t> count_elements() const;    // by symbol
  void check_composition() const;
  void fit_to_structure();
  void use_structure();
  bool has_structure() const { return !types_.empty(); }
  // Returns work(exchange), and puts the numbers of atoms into its errors.
  template <class Work>
  auto with_numbered_atoms(const Work &work) const;
  EvaluationResult evaluate(Evaluator &evaluator, const EvaluationRequest &request) const;
  double volume() const;

  std::string path_;
  CalculatorSettings settings_;
  Model model_;    // with all elements of the file
  AtomicSystem made_for_;
  std::vector<std::string> symbols_;         // [types]
  std::vector<std::string> used_symbols_;    // without repetitions, in the order of species
  std::vector<int> type_species_;            // [types]
  double memory_limit_ = 0.0;
  std::unique_ptr<Evaluator> evaluator_, directional_, observables_;    // made when first needed
  std::unique_ptr<BornEvaluation> born_;

  StructureNeighbors neighbors_;
  std::vector<int> types_;    // [atoms]
  PeriodicCell cell_;
  // Whether the evaluators have the present neighborhood.
  bool is_set_ = false, is_set_in_directional_ = false, is_set_in_observables_ = false, is_set_in_born_ = false;
};

// Threads of all calculators; 0 before the first one.
int num_calculator_threads();

}    // namespace equi

#endif
