// SPDX-License-Identifier: MIT
// The behavior of an evaluator without memory, tested for every place at which memory may be missing.
#ifndef EQUI_TEST_OUT_OF_MEMORY_H
#define EQUI_TEST_OUT_OF_MEMORY_H

#include "unittest/support/allocation_counter.h"
#include "unittest/support/model_cases.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// All results of an evaluation, for comparisons to the last bit.
struct EvaluationNumbers {
  EvaluationResult result;
  std::vector<Vector3> forces, tangents;
  std::vector<double> energies;

  // These do not grow in evaluate(), so all allocations there are the evaluator's.
  explicit EvaluationNumbers(const ImageStructure &images, bool is_directional)
      : forces(images.positions.size()),
        tangents(is_directional ? images.positions.size() : 0),
        energies(images.positions.size()) {}
  void evaluate(Evaluator &evaluator, const ImageStructure &images) {
    std::fill(forces.begin(), forces.end(), Vector3{});
    std::fill(tangents.begin(), tangents.end(), Vector3{});
    std::fill(energies.begin(), energies.end(), 0.0);
    EvaluationRequest request;
    request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
    request.forces = reinterpret_cast<double(*)[3]>(forces.data());
    request.atom_energy = energies.data();
    request.virial = true;
    if (!tangents.empty()) {
      request.direction = request.positions;
      request.force_tangents = reinterpret_cast<double(*)[3]>(tangents.data());
    }
    NoExchange none;
    result = evaluator.evaluate(request, none);
  }
  bool operator==(const EvaluationNumbers &other) const {
    return result.energy == other.result.energy && result.virial[3] == other.result.virial[3] &&
           forces == other.forces && tangents == other.tangents && energies == other.energies;
  }
};

// Makes an evaluator, sets a neighborhood and evaluates, repeatedly with another failing allocation, each of at least
// `least_size` bytes. A failure must be an exception that can be reported. Afterwards the same evaluator, or a new one,
// gives the numbers of an evaluator without faults. If making an evaluator has more than most_places allocations, some
// are skipped. Returns the number of places; throws std::runtime_error if the law is broken.
inline long expect_exceptions_without_memory(const std::function<std::unique_ptr<Evaluator>()> &make,
                                             const ImageStructure &images, bool is_directional, bool and_all_later,
                                             long most_places, std::size_t least_size = 0) {
  EvaluationNumbers expected(images, is_directional), numbers(images, is_directional);
  {
    const std::unique_ptr<Evaluator> evaluator = make();
    evaluator->set_neighborhood(images.neighborhood);
    expected.evaluate(*evaluator, images);
  }
  // Runs f() with allocation n missing; returns whether there were this many.
  const auto fails_without = [&](long n, const std::function<void()> &f) {
    const FailingAllocation failing(n, and_all_later, least_size);
    bool is_told = false;
    try {
      f();
    } catch (const std::exception &) {
      is_told = true;
    }
    if (is_told && !failing.has_failed()) throw std::runtime_error("an exception without a fault");
    return failing.has_failed();
  };
  const auto check = [&](Evaluator &evaluator, const std::string &when) {
    evaluator.set_neighborhood(images.neighborhood);
    numbers.evaluate(evaluator, images);
    if (!(numbers == expected)) throw std::runtime_error("other numbers after a fault " + when);
  };

  long places = 0;
  // The distance between tested places of `work`, which limits their number.
  const auto step_of = [&](const std::function<void()> &work) {
    const long before = num_allocations();
    work();
    return 1 + (num_allocations() - before) / most_places;
  };
  std::unique_ptr<Evaluator> evaluator;
  long step = step_of([&] { evaluator = make(); });
  for (long n = 0; fails_without(n, [&] { evaluator = make(); }); n += step) ++places;

  // A new evaluator still has to allocate all memory.
  evaluator = make();
  step = step_of([&] { evaluator->set_neighborhood(images.neighborhood); });
  for (long n = 0;; n += step, ++places) {
    evaluator = make();
    if (!fails_without(n, [&] { evaluator->set_neighborhood(images.neighborhood); })) break;
    check(*evaluator, "in set_neighborhood, allocation " + std::to_string(n));
  }
  evaluator = make();
  evaluator->set_neighborhood(images.neighborhood);
  step = step_of([&] { numbers.evaluate(*evaluator, images); });
  for (long n = 0;; n += step, ++places) {
    evaluator = make();
    evaluator->set_neighborhood(images.neighborhood);
    if (!fails_without(n, [&] { numbers.evaluate(*evaluator, images); })) break;
    check(*evaluator, "in evaluate, allocation " + std::to_string(n));
  }
  return places;
}

}    // namespace testing
}    // namespace equi

#endif
