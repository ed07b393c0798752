// SPDX-License-Identifier: MIT
// Measures the sums of the exact heat flux, in units of evaluations of only the energy and of energy and forces. All
// are timed in turn on a jittered rock salt crystal without LAMMPS. The result is the shortest processor time of each,
// divided by the threads.
//
//   bench_heat_flux FILE.equi ELEMENT ELEMENT [CELLS per side] [double|mixed] [ROUNDS]
#include "bench/rock_salt.h"
#include "kokkos/runtime/host_exec.h"
#include "src/evaluation/native_evaluators.h"
#include "src/model/model_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace equi;
using Vectors = std::vector<std::array<double, 3>>;

double seconds(Evaluator &evaluator, const EvaluationRequest &request) {
  NoExchange none;
  const std::clock_t begin = std::clock();
  evaluator.evaluate(request, none);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / HostExec().concurrency();
}

}    // namespace

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_heat_flux FILE.equi ELEMENT ELEMENT [CELLS] [double|mixed] [ROUNDS]\n");
    return 1;
  }
  try {
    start_kokkos(0, 0);
    const int cells = argc > 4 ? std::atoi(argv[4]) : 3, rounds = argc > 6 ? std::atoi(argv[6]) : 10;
    const bool is_double = argc <= 5 || std::string(argv[5]) == "double";
    const Model model = read_model(argv[1]).restricted_to({argv[2], argv[3]});
    const ImageStructure s = jittered_rock_salt(cells, model.reach());

    EvaluatorOptions options;
    options.precision = is_double ? Precision::double_ : Precision::mixed;
    const auto plain = make_host_evaluator(model, options);
    options.directional = options.energy_moments = true;
    const auto moving = make_host_evaluator(model, options);
    plain->set_neighborhood(s.neighborhood);
    moving->set_neighborhood(s.neighborhood);

    std::mt19937 random(1);
    std::uniform_real_distribution<double> component(-1.0, 1.0);
    Vectors of_atoms(s.neighborhood.num_receivers), velocities, forces(s.positions.size()), moments(forces);
    std::vector<double> energies(forces.size());
    for (auto &v : of_atoms)
      for (double &c : v) c = component(random);
    for (const int owner : s.owner) velocities.push_back(of_atoms[owner]);
    EvaluationRequest energy;
    energy.positions = reinterpret_cast<const double(*)[3]>(s.positions.data());
    EvaluationRequest with_forces = energy, flux = energy;
    with_forces.forces = reinterpret_cast<double(*)[3]>(forces.data());
    flux.direction = reinterpret_cast<const double(*)[3]>(velocities.data());
    flux.atom_energy = energies.data();
    flux.energy_moments = reinterpret_cast<double(*)[3]>(moments.data());

    double best[3] = {1e300, 1e300, 1e300};
    for (int round = 0; round <= rounds; ++round) {
      const double times[3] = {seconds(*plain, energy), seconds(*plain, with_forces), seconds(*moving, flux)};
      for (int k = 0; round > 0 && k < 3; ++k) best[k] = std::min(best[k], times[k]);
    }
    std::printf(
        "%d atoms, %s: energy %.2f ms, energy and forces %.2f ms, sums of the heat flux %.2f ms: %.2f evaluations of "
        "the energy, %.2f of the forces\n",
        s.neighborhood.num_receivers, is_double ? "double" : "mixed", best[0] * 1e3, best[1] * 1e3, best[2] * 1e3,
        best[2] / best[0], best[2] / best[1]);
  } catch (const std::exception &e) {
    std::fprintf(stderr, "bench_heat_flux: %s\n", e.what());
    return 1;
  }
  return 0;
}
