// SPDX-License-Identifier: MIT
#include "tools/model_check.h"

#include "src/evaluation/law_check.h"
#include "src/evaluation/native_evaluators.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace equi {

namespace {

struct Structure {
  const char *name;
  std::vector<std::string> symbols;
  ImageStructure images;
};

// A few of the elements, first and last among them, or the atoms of the one composition that the model holds for.
std::vector<std::string> chosen_symbols(const Model &model) {
  std::vector<std::string> symbols;
  if (!model.composition.empty()) {
    for (int s = 0; s < model.num_species(); s++)
      symbols.insert(symbols.end(), model.composition[s], model.elements[s]);
    return symbols;
  }
  constexpr int MOST = 3;
  const int count = std::min(MOST, model.num_species());
  for (int k = 0; k < count; k++)
    symbols.push_back(model.elements[k * (model.num_species() - 1) / std::max(1, count - 1)]);
  return symbols;
}

// Atoms near the points of a simple cubic lattice, which a random shift takes from the symmetric places. They are half
// a cutoff apart, or farther where the model takes few neighbors, and 1.5 Angstrom at least.
Structure make_structure(const Model &model, bool is_periodic) {
  constexpr double PI = 3.14159265358979, SHIFT = 0.15;
  std::vector<std::string> symbols = chosen_symbols(model);
  const size_t least = is_periodic ? 8 : 5, units = (least + symbols.size() - 1) / symbols.size();
  const std::vector<std::string> unit = symbols;
  for (size_t k = 1; k < units; k++) symbols.insert(symbols.end(), unit.begin(), unit.end());
  // Not half a cutoff, with which an atom of a cell of two sees its own image at the cutoff.
  double spacing = std::max(1.5, 0.47 * model.cutoff);
  if (model.max_neighbors > 0)    // half as many as it takes
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

}    // namespace

void print_model_check(const Model &whole) {
  const Model model = whole.restricted_to([&] {
    std::vector<std::string> symbols = chosen_symbols(whole);
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return symbols;
  }());
  // A Coulomb energy of all pairs is one of clusters.
  const Coulomb *coulomb = find_coulomb(model.layers);
  std::vector<Structure> structures;
  if (!coulomb || !coulomb->is_over_all_pairs) structures.push_back(make_structure(model, true));
  structures.push_back(make_structure(model, false));
  const auto plain = make_plain_evaluator(model, {});
  NoExchange exchange;
  constexpr struct {
    const char *name;
    Precision precision;
    bool radial_exact;
  } PRECISIONS[] = {{"exact", Precision::double_, true},
                    {"double", Precision::double_, false},
                    {"mixed", Precision::mixed, false},
                    {"single", Precision::single, false}};
  for (const std::string &set : host_instruction_sets()) {
    for (const KernelCheck &k : check_kernels(model, set))
      print_line(set, "-", "kernel " + k.name, k.difference, k.allowed, "-", k.fault.empty(), k.fault);
    for (const auto &precision : PRECISIONS) {
      EvaluatorOptions options;
      options.precision = precision.precision;
      options.radial_exact = precision.radial_exact;
      const auto evaluator = make_host_evaluator(model, options, set);
      for (const Structure &structure : structures) {
        LawSystem system = system_of(structure.images);
        system.is_invariant = is_invariant(model.layers);
        for (const LawResult &r : check_laws(*evaluator, *plain, system, exchange, options))
          print_line(set, precision.name, std::string(structure.name) + ": " + r.name, r.measured, r.allowed,
                     r.unit.c_str(), r.passed(), "");
      }
    }
  }
}

}    // namespace equi
