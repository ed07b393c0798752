// SPDX-License-Identifier: MIT
// Compares the structures stored in a model file with an evaluation of them.
#include "src/evaluation/self_check.h"

#include <algorithm>
#include <cmath>

namespace equi {

CheckTolerance check_tolerance(const EvaluatorOptions &options) {
  // Differences of float32 sums of some hundred terms, for any table.
  if (options.precision == Precision::mixed) return {1e-6, 1e-4, 1e-5};
  if (options.precision == Precision::tf32) return {1e-4, 1e-2, 1e-3};
  if (options.radial_exact) return {1e-10, 1e-9, 1e-9};
  // A coarser table than the default changes energies and forces in proportion.
  const double coarser = options.radial_tolerance > 1e-10 ? options.radial_tolerance / 1e-10 : 1.0;
  return {1e-8 * coarser, 1e-6 * coarser, 1e-6 * coarser};
}

std::vector<CheckResult> run_self_check(const Model &model, const EvaluatorOptions &options,
                                        const EvaluatorFactory &make) {
  const CheckTolerance tolerance = check_tolerance(options);
  const bool is_direct = has_direct_forces(model.layers);
  std::vector<CheckResult> results;
  for (const ReferenceStructure &s : model.self_check) {
    std::vector<std::string> symbols = s.symbols;
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    const Model reduced = model.restricted_to(symbols);
    std::vector<int> species;
    for (const std::string &symbol : s.symbols) species.push_back(reduced.species(symbol));
    const ImageStructure images = build_image_structure(s.positions, species, s.cell, s.periodic, model.reach());
    const std::unique_ptr<Evaluator> evaluator = make(reduced, options);
    evaluator->set_neighborhood(images.neighborhood);

    std::vector<std::array<double, 3>> atom_forces(images.positions.size(), {0.0, 0.0, 0.0});
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
    request.forces = reinterpret_cast<double(*)[3]>(atom_forces.data());
    request.virial = !is_direct;
    NoExchange exchange;
    const EvaluationResult r = evaluator->evaluate(request, exchange);

    CheckResult result;
    result.name = s.name;
    result.num_atoms = static_cast<int>(s.symbols.size());
    result.energy_error = std::fabs(r.energy - s.energy) / result.num_atoms;
    std::vector<std::array<double, 3>> forces(s.symbols.size(), {0.0, 0.0, 0.0});
    for (size_t a = 0; a < atom_forces.size(); a++)
      for (int k = 0; k < 3; k++) forces[images.owner[a]][k] += atom_forces[a][k];
    double largest = 1.0, sum = 0.0;    // max() loses NaN, but a sum does not
    for (const auto &f : s.forces)
      for (double c : f) largest = std::max(largest, std::fabs(c));
    for (size_t i = 0; i < forces.size(); i++)
      for (int k = 0; k < 3; k++) {
        sum += forces[i][k];
        if (is_direct) continue;
        result.force_error = std::max(result.force_error, std::fabs(forces[i][k] - s.forces[i][k]) / largest);
      }
    if (s.has_stress && !is_direct) {
      const auto &c = s.cell;
      const double volume = std::fabs(c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
                                      c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
                                      c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]));
      constexpr int TO_ASE[6] = {0, 1, 2, 5, 4, 3};    // xx,yy,zz,xy,xz,yz -> xx,yy,zz,yz,xz,xy
      double largest_stress = 1.0;
      for (double component : s.stress) largest_stress = std::max(largest_stress, std::fabs(component));
      for (int k = 0; k < 6; k++) {
        sum += r.virial[k];
        result.stress_error =
            std::max(result.stress_error, std::fabs(-r.virial[k] / volume - s.stress[TO_ASE[k]]) / largest_stress);
      }
    }
    result.passed = std::isfinite(sum) && result.energy_error <= tolerance.energy &&
                    result.force_error <= tolerance.force && result.stress_error <= tolerance.stress;
    results.push_back(result);
  }
  return results;
}

}    // namespace equi
