// SPDX-License-Identifier: MIT
// What second derivatives cost, in evaluations of energy and forces: all in turn on a jittered rock salt crystal, the
// shortest time of each. A Hessian-vector product along a random direction; and a row of the dynamical matrix, a third
// of the products with the three vectors of one atom, where values are kept from atom to atom.
//
//   bench_hessian_vector FILE.equi ELEMENT ELEMENT [CELLS per side] [double|mixed] [rounds]
#include "bench/rock_salt.h"
#include "src/evaluation/native_evaluators.h"
#include "src/model/model_file.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

int main(int argc, char **argv) {
  using namespace equi;
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_hessian_vector FILE.equi ELEMENT ELEMENT [CELLS] [double|mixed] [ROUNDS]\n");
    return 1;
  }
  const int cells = argc > 4 ? std::atoi(argv[4]) : 4, rounds = argc > 6 ? std::atoi(argv[6]) : 10;
  const bool is_double = argc <= 5 || std::string(argv[5]) == "double";
  const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
  const ImageStructure s = jittered_rock_salt(cells, model.reach());

  EvaluatorOptions options;
  options.precision = is_double ? Precision::double_ : Precision::mixed;
  const auto plain = make_kokkos_evaluator(model, options);
  options.directional = true;
  const auto duals = make_kokkos_evaluator(model, options);
  options.kept_directions = 3;
  const auto kept = make_kokkos_evaluator(model, options);
  std::vector<std::array<double, 3>> direction(s.positions.size()), of_atoms(s.neighborhood.num_receivers);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> component(-1.0, 1.0);
  for (auto &d : of_atoms)
    for (double &c : d) c = component(random);
  for (size_t a = 0; a < direction.size(); ++a) direction[a] = of_atoms[s.owner[a]];
  std::vector<std::array<double, 3>> of_one_atom(3 * direction.size());
  std::vector<std::array<double, 3>> forces(s.positions.size()), tangents(3 * s.positions.size());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  EvaluationRequest with_direction = request;
  with_direction.direction = reinterpret_cast<const double(*)[3]>(direction.data());
  with_direction.forces = nullptr;
  with_direction.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  EvaluationRequest row = with_direction;
  row.direction = reinterpret_cast<const double(*)[3]>(of_one_atom.data());
  NoExchange none;
  plain->set_neighborhood(s.neighborhood);
  duals->set_neighborhood(s.neighborhood);
  kept->set_neighborhood(s.neighborhood);
  kept->evaluate(row, none);
  row.same_positions = true;
  row.num_directions = 3;
  row.direction_distance = static_cast<int64_t>(direction.size());
  const auto seconds = [&](Evaluator &e, const EvaluationRequest &r) {
    const auto begin = std::chrono::steady_clock::now();
    e.evaluate(r, none);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double best[3] = {1e300, 1e300, 1e300};
  for (int round = 0; round <= rounds; ++round) {
    const int atom = static_cast<int>(random() % s.neighborhood.num_receivers);
    for (size_t a = 0; a < direction.size(); ++a)
      for (int k = 0; k < 3; ++k) {
        of_one_atom[k * direction.size() + a] = {};
        of_one_atom[k * direction.size() + a][k] = s.owner[a] == atom ? 1.0 : 0.0;
      }
    const double times[3] = {seconds(*plain, request), seconds(*duals, with_direction), seconds(*kept, row) / 3.0};
    for (int k = 0; round > 0 && k < 3; ++k) best[k] = std::min(best[k], times[k]);
  }
  std::printf("%s%s", plain->describe().c_str(), duals->describe().c_str());
  std::printf(
      "%d atoms, %s: forces %.2f ms, Hessian-vector product %.2f ms, ratio %.2f, row of the dynamical matrix "
      "%.2f ms, ratio %.2f\n",
      s.neighborhood.num_receivers, is_double ? "double" : "mixed", best[0] * 1e3, best[1] * 1e3, best[1] / best[0],
      best[2] * 1e3, best[2] / best[0]);
  return 0;
}
