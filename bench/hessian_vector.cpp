// SPDX-License-Identifier: MIT
// Measures second derivatives, in units of evaluations of energy and forces, in turn on a jittered rock salt crystal.
// The result is the shortest time of each. There is a Hessian-vector product along a random direction. If values are
// kept, it also measures products with several random directions together. Further products use the three vectors of
// each of a third as many atoms, which are rows of the dynamical matrix. host, device: kernels for CPUs or for devices.
//
//   bench_hessian_vector FILE.equi ELEMENT ELEMENT [CELLS per side] [double|mixed] [rounds] [host|device] [directions]
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
    std::fprintf(stderr,
                 "usage: bench_hessian_vector FILE.equi ELEMENT ELEMENT [CELLS] [double|mixed] [ROUNDS] "
                 "[host|device] [DIRECTIONS]\n");
    return 1;
  }
  const int cells = argc > 4 ? std::atoi(argv[4]) : 4, rounds = argc > 6 ? std::atoi(argv[6]) : 10,
            together = argc > 8 ? std::max(3, std::atoi(argv[8])) : 3;
  const auto make = argc > 7 && std::string(argv[7]) == "device" ? make_device_evaluator : make_host_evaluator;
  const bool is_double = argc <= 5 || std::string(argv[5]) == "double";
  const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
  const ImageStructure s = jittered_rock_salt(cells, model.reach());

  EvaluatorOptions options;
  options.precision = is_double ? Precision::double_ : Precision::mixed;
  const auto plain = make(model, options);
  options.directional = true;
  const auto duals = make(model, options);
  options.kept_directions = together;
  const auto kept = make(model, options);
  std::vector<std::array<double, 3>> direction(s.positions.size()), of_atoms(s.neighborhood.num_receivers);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> component(-1.0, 1.0);
  for (auto &d : of_atoms)
    for (double &c : d) c = component(random);
  for (size_t a = 0; a < direction.size(); ++a) direction[a] = of_atoms[s.owner[a]];
  std::vector<std::array<double, 3>> of_atoms_alone(together * direction.size()), random_ones(of_atoms_alone);
  for (int d = 0; d < together; ++d) {
    for (auto &c : of_atoms)
      for (double &k : c) k = component(random);
    for (size_t a = 0; a < direction.size(); ++a) random_ones[d * direction.size() + a] = of_atoms[s.owner[a]];
  }
  std::vector<std::array<double, 3>> forces(s.positions.size()), tangents(together * s.positions.size());
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  EvaluationRequest with_direction = request;
  with_direction.direction = reinterpret_cast<const double(*)[3]>(direction.data());
  with_direction.forces = nullptr;
  with_direction.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
  EvaluationRequest rows = with_direction, several = with_direction;
  rows.direction = reinterpret_cast<const double(*)[3]>(of_atoms_alone.data());
  several.direction = reinterpret_cast<const double(*)[3]>(random_ones.data());
  NoExchange none;
  plain->set_neighborhood(s.neighborhood);
  duals->set_neighborhood(s.neighborhood);
  kept->set_neighborhood(s.neighborhood);
  kept->evaluate(with_direction, none);
  for (EvaluationRequest *request : {&rows, &several}) {
    request->same_positions = true;
    request->num_directions = together;
    request->direction_distance = static_cast<int64_t>(direction.size());
  }
  const auto seconds = [&](Evaluator &e, const EvaluationRequest &r) {
    const auto begin = std::chrono::steady_clock::now();
    e.evaluate(r, none);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double best[4] = {1e300, 1e300, 1e300, 1e300};
  for (int round = 0; round <= rounds; ++round) {
    for (int d = 0, atom = 0; d < together; ++d) {
      if (d % 3 == 0) atom = static_cast<int>(random() % s.neighborhood.num_receivers);
      for (size_t a = 0; a < direction.size(); ++a) {
        auto &v = of_atoms_alone[d * direction.size() + a];
        v = {};
        v[d % 3] = s.owner[a] == atom ? 1.0 : 0.0;
      }
    }
    const double times[4] = {seconds(*plain, request), seconds(*duals, with_direction),
                             seconds(*kept, several) / together, seconds(*kept, rows) / together};
    for (int k = 0; round > 0 && k < 4; ++k) best[k] = std::min(best[k], times[k]);
  }
  std::printf("%s%s", plain->describe().c_str(), duals->describe().c_str());
  std::printf(
      "%d atoms, %s: forces %.2f ms, Hessian-vector product %.2f ms, ratio %.2f; of %d at a time, each along a random "
      "direction %.2f ms, ratio %.2f, row of the dynamical matrix %.2f ms, ratio %.2f\n",
      s.neighborhood.num_receivers, is_double ? "double" : "mixed", best[0] * 1e3, best[1] * 1e3, best[1] / best[0],
      together, best[2] * 1e3, best[2] / best[0], best[3] * 1e3, best[3] / best[0]);
  return 0;
}
