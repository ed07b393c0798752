// SPDX-License-Identifier: MIT
// Prints the energy of a periodic structure in eV: energy MODEL < STRUCTURE. STRUCTURE has the nine components of the
// lattice vectors, then a symbol and three coordinates for each atom, in Angstrom.
#include "src/evaluation/native_evaluators.h"
#include "src/model/model_file.h"

#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

int main(int, char **arguments) {
  const equi::Model model = equi::read_model(arguments[1]);
  double cell[3][3];
  for (auto &vector : cell)
    for (double &component : vector) std::cin >> component;
  std::vector<std::array<double, 3>> positions;
  std::vector<int> species;
  std::string symbol;
  for (std::array<double, 3> r; std::cin >> symbol >> r[0] >> r[1] >> r[2];) {
    positions.push_back(r);
    species.push_back(model.species(symbol));
  }
  const bool periodic[3] = {true, true, true};
  const equi::ImageStructure structure = equi::build_image_structure(positions, species, cell, periodic, model.reach());

  equi::EvaluatorOptions options;
  options.precision = equi::Precision::double_;
  const std::unique_ptr<equi::Evaluator> evaluator = equi::make_host_evaluator(model, options);
  evaluator->set_neighborhood(structure.neighborhood);
  equi::EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(structure.positions.data());
  equi::NoExchange exchange;
  std::printf("%.12f\n", evaluator->evaluate(request, exchange).energy);
  return 0;
}
