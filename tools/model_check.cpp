// SPDX-License-Identifier: MIT
// Checks kernels and laws of a model on small structures made from its elements.
#include "tools/model_check.h"

#include "src/base/printable.h"
#include "src/evaluation/law_check.h"
#include "src/evaluation/native_evaluators.h"
#include "src/evaluation/self_check.h"
#include "src/model/model_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

namespace {

struct Structure {
  const char *name;
  std::vector<std::string> symbols;
  ImageStructure images;
};

// A few of the elements, including the first and the last.
std::vector<std::string> few_elements(const Model &model) {
  constexpr int MOST = 3;
  std::vector<std::string> symbols;
  const int count = std::min(MOST, model.num_species());
  for (int k = 0; k < count; k++)
    symbols.push_back(model.elements[k * (model.num_species() - 1) / std::max(1, count - 1)]);
  return symbols;
}

// The same, or the atoms of the only composition that the model is valid for.
std::vector<std::string> chosen_symbols(const Model &model) {
  if (model.composition.empty()) return few_elements(model);
  std::vector<std::string> symbols;
  for (int s = 0; s < model.num_species(); s++) symbols.insert(symbols.end(), model.composition[s], model.elements[s]);
  return symbols;
}

// Atoms of `unit`, once or repeatedly, near the points of a simple cubic lattice; a random shift breaks its symmetry.
// Their distance is half a cutoff, or more if the model allows few neighbors, and at least 1.5 Angstrom.
Structure make_structure(const Model &model, const std::vector<std::string> &unit, bool is_periodic) {
  constexpr double PI = 3.14159265358979, SHIFT = 0.15;
  std::vector<std::string> symbols = unit;
  const size_t least = is_periodic ? 8 : 5, units = (least + symbols.size() - 1) / symbols.size();
  for (size_t k = 1; k < units; k++) symbols.insert(symbols.end(), unit.begin(), unit.end());
  // Slightly less than half a cutoff: with half, an atom in a cell of two would see its own image at the cutoff.
  double spacing = std::max(1.5, 0.47 * model.cutoff);
  if (model.max_neighbors > 0)    // half of the allowed number
    spacing = std::max(spacing, model.cutoff * std::cbrt(4.0 * PI / 3.0 / (0.5 * model.max_neighbors)));

  const int side = static_cast<int>(std::ceil(std::cbrt(static_cast<double>(symbols.size()))));
  const int layers = (static_cast<int>(symbols.size()) + side * side - 1) / (side * side);
  std::mt19937 engine(5);
  std::uniform_real_distribution<double> uniform(-SHIFT, SHIFT);
  Structure structure{is_periodic ? "crystal" : "cluster", symbols, {}};
  std::vector<std::array<double, 3>> positions;
  std::vector<int> species;
  for (size_t a = 0; a < symbols.size(); a++) {
    const int n = static_cast<int>(a), place[3] = {n % side, n / side % side, n / (side * side)};
    std::array<double, 3> position;
    for (int k = 0; k < 3; k++) position[k] = spacing * (place[k] + uniform(engine));
    positions.push_back(position);
    species.push_back(model.species(symbols[a]));
  }
  // A sheared cell.
  const double width = spacing * side;
  const double cell[3][3] = {{width, 0, 0}, {0.1 * width, width, 0}, {0, 0.05 * width, spacing * layers}};
  const bool periodic[3] = {is_periodic, is_periodic, is_periodic};
  structure.images = build_image_structure(positions, species, cell, periodic, model.reach() + 0.2);
  return structure;
}

LawSystem system_of(const ImageStructure &images) {
  std::mt19937 engine(6);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<std::array<double, 3>> of_owner(images.neighborhood.num_receivers);
  for (auto &v : of_owner)
    for (double &component : v) component = uniform(engine);
  const auto same = [](double value) { return value; };
  LawSystem system{&images.neighborhood, images.positions, {}, same, same, {}};
  for (const int owner : images.owner) system.direction.push_back(of_owner[owner]);
  return system;
}

void print_line(const std::string &set, const char *precision, const std::string &what, double measured, double allowed,
                const char *unit, bool passed, const std::string &remark) {
  std::printf("%s\t%s\t%s\t%.3e\t%.3e\t%s\t%s\t%s\n", set.c_str(), precision, what.c_str(), measured, allowed, unit,
              passed ? "ok" : "FAILED", remark.c_str());
}

// Tries the model with one kind of forces. Returns whether the file offers direct forces.
bool try_model(const std::string &bytes, const std::string &path, ForcesOf forces) {
  Model model = parse_model(bytes, path, {}, forces);
  const std::vector<std::string> elements = few_elements(model);
  // The structure must have the species numbers of the model that is evaluated.
  const Structure structure = make_structure(model.restricted_to(elements), elements, !needs_all_pairs(model.layers));
  if (model.mixture) {
    AtomicSystem system{model.mixture->task, {}, {}, {}};
    for (const std::string &symbol : structure.symbols) system.atoms[symbol]++;
    model = Model();    // there may not be memory for two
    model = parse_model(bytes, path, system, forces);
  }

  // Tables for a few structures would need longer than everything else. The allowed differences are those of tables:
  // those of exact functions are only rounding, which the framework has as well.
  EvaluatorOptions options;
  options.precision = Precision::double_;
  const EvaluatorFactory make_exact = [](const Model &of_structure, EvaluatorOptions exact) {
    exact.radial_exact = true;
    return make_host_evaluator(of_structure, exact);
  };
  const auto evaluator = make_exact(model.restricted_to(elements), options);
  evaluator->set_neighborhood(structure.images.neighborhood);
  std::vector<std::array<double, 3>> atom_forces(structure.images.positions.size(), {0.0, 0.0, 0.0});
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(structure.images.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(atom_forces.data());
  NoExchange exchange;
  double sum = evaluator->evaluate(request, exchange).energy;
  for (const auto &force : atom_forces)
    for (const double component : force) sum += std::fabs(component);
  if (!std::isfinite(sum)) throw std::runtime_error("energy and forces of a small structure are not finite");

  for (const CheckResult &r : run_self_check(model, options, make_exact))
    if (!r.passed) {
      char text[300];
      std::snprintf(text, sizeof text,
                    "the stored values of the structure %s are not reproduced: differences of %.2e eV/atom, %.2e "
                    "eV/Angstrom and %.2e eV/Angstrom^3",
                    r.name.c_str(), r.energy_error, r.force_error, r.stress_error);
      throw std::runtime_error(text);
    }
  return model.offers_direct_forces;
}

}    // namespace

void try_model_file(const std::string &path) {
  const std::string bytes = read_file_bytes(path);
  try {
    if (try_model(bytes, path, ForcesOf::energy)) try_model(bytes, path, ForcesOf::features);
  } catch (const ModelFileError &) {
    throw;    // the exception names the file
  } catch (const std::exception &fault) {
    throw std::runtime_error(printable(path) + ": " + fault.what());
  }
}

void print_model_check(const Model &whole) {
  const Model model = whole.restricted_to([&] {
    std::vector<std::string> symbols = chosen_symbols(whole);
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return symbols;
  }());
  std::vector<Structure> structures;
  if (!needs_all_pairs(model.layers)) structures.push_back(make_structure(model, chosen_symbols(model), true));
  if (!needs_periodic_cell(model.layers)) structures.push_back(make_structure(model, chosen_symbols(model), false));
  const auto plain = make_host_evaluator(model, plain_options());
  NoExchange exchange;
  constexpr struct {
    const char *name;
    Precision precision;
    bool radial_exact;
  } PRECISIONS[] = {
      {"exact", Precision::double_, true}, {"double", Precision::double_, false}, {"mixed", Precision::mixed, false}};
  for (const std::string &set : host_instruction_sets()) {
    for (const KernelCheck &k : check_kernels(model, set))
      print_line(set, "-", "kernel " + k.name, k.difference, k.allowed, "-", k.fault.empty(), k.fault);
    for (const auto &precision : PRECISIONS) {
      EvaluatorOptions options;
      options.precision = precision.precision;
      options.radial_exact = precision.radial_exact;
      options.instruction_set = set;
      const auto evaluator = make_host_evaluator(model, options);
      for (const Structure &structure : structures) {
        LawSystem system = system_of(structure.images);
        system.is_invariant = is_invariant(model.layers) && !depends_on_axes(model.layers, options.open);
        for (const LawResult &r : check_laws(*evaluator, *plain, system, exchange, options))
          print_line(set, precision.name, std::string(structure.name) + ": " + r.name, r.measured, r.allowed,
                     r.unit.c_str(), r.passed(), "");
      }
    }
  }
}

}    // namespace equi
