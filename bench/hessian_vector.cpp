// What a Hessian-vector product costs, in evaluations of energy and forces: both in turn on a jittered rock salt
// crystal, the shortest time of each.
//
//   bench_hessian_vector FILE.equi ELEMENT ELEMENT [CELLS per side] [double|mixed] [rounds]
#include "evaluator.h"
#include "model_file.h"

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
  constexpr double LENGTH = 5.64, JITTER = 0.1;
  const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
  std::mt19937 random(1);
  std::uniform_real_distribution<double> jitter(-JITTER, JITTER);
  std::vector<std::array<double, 3>> positions;
  std::vector<int> species;
  const int side = 2 * cells;
  for (int n = 0; n < side * side * side; ++n) {
    const int at[3] = {n % side, n / side % side, n / (side * side)};
    positions.push_back({});
    for (int k = 0; k < 3; ++k) positions.back()[k] = 0.5 * LENGTH * at[k] + jitter(random);
    species.push_back((at[0] + at[1] + at[2]) % 2);
  }
  const double cell[3][3] = {{LENGTH * cells, 0, 0}, {0, LENGTH * cells, 0}, {0, 0, LENGTH * cells}};
  const bool periodic[3] = {true, true, true};
  const ImageStructure s = build_image_structure(positions, species, cell, periodic, model.cutoff);

  EvaluatorOptions options;
  options.precision = is_double ? Precision::double_ : Precision::mixed;
  const auto plain = make_kokkos_evaluator(model, options);
  options.directional = true;
  const auto duals = make_kokkos_evaluator(model, options);
  std::vector<std::array<double, 3>> direction(s.positions.size()), of_atoms(positions.size());
  for (auto &d : of_atoms)
    for (double &c : d) c = jitter(random);
  for (size_t a = 0; a < direction.size(); ++a) direction[a] = of_atoms[s.owner[a]];
  std::vector<std::array<double, 3>> forces(s.positions.size()), tangents(s.positions.size());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  EvaluationRequest with_direction = request;
  with_direction.direction = reinterpret_cast<const double(*)[3]>(direction.data());
  with_direction.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  NoExchange none;
  plain->set_neighborhood(s.neighborhood);
  duals->set_neighborhood(s.neighborhood);
  const auto seconds = [&](Evaluator &e, const EvaluationRequest &r) {
    const auto begin = std::chrono::steady_clock::now();
    e.evaluate(r, none);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double best[2] = {1e300, 1e300};
  for (int round = 0; round <= rounds; ++round) {
    const double times[2] = {seconds(*plain, request), seconds(*duals, with_direction)};
    for (int k = 0; round > 0 && k < 2; ++k) best[k] = std::min(best[k], times[k]);
  }
  std::printf("%s%s", plain->describe().c_str(), duals->describe().c_str());
  std::printf("%zu atoms, %s: forces %.2f ms, Hessian-vector product %.2f ms, ratio %.2f\n", positions.size(),
              is_double ? "double" : "mixed", best[0] * 1e3, best[1] * 1e3, best[1] / best[0]);
  return 0;
}
