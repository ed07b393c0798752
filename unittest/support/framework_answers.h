// SPDX-License-Identifier: MIT
// Compares any Evaluator with the framework's results that are stored in converted models (ReferenceStructure).
#ifndef EQUI_TEST_FRAMEWORK_ANSWERS_H
#define EQUI_TEST_FRAMEWORK_ANSWERS_H

#include "src/evaluation/evaluator.h"
#include "src/model/model_file.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/two_rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// Tolerances for float64 references: eV/atom, eV/A, eV/A^3; forces and stress are relative to the largest force if that
// exceeds 1 eV/A. The error of a float32 energy is proportional to the numbers that it sums. In models with random
// weights large numbers of a steep potential cancel. The largest force (times 1 A) and the energy per atom measure them
// if they exceed 1 eV.
struct ReferenceTolerance {
  double energy, force, stress;
  bool is_float32 = false;
};
constexpr ReferenceTolerance EXACT_REFERENCE = {1e-10, 1e-9, 1e-9};         // float64 on both sides
constexpr ReferenceTolerance TABLE_REFERENCE = {1e-8, 1e-6, 1e-6};          // radial tables of the tolerance 1e-10
constexpr ReferenceTolerance MIXED_REFERENCE = {1e-6, 1e-4, 1e-4, true};    // float32 network

// The build converts models into EQUI_MODELS_DIR; the environment may name another folder. Subfolders count.
inline std::vector<std::string> model_files() {
  const char *named = std::getenv("EQUI_MODELS_DIR");
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(named ? named : EQUI_MODELS_DIR))
    if (entry.path().extension() == ".equi") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

inline void expect_answer(Evaluator &evaluator, const Model &model, const ReferenceStructure &r,
                          const ReferenceTolerance &tolerance) {
  std::vector<int> species;
  for (const std::string &s : r.symbols) species.push_back(model.species(s));
  const Evaluation e =
      evaluate_whole(evaluator, build_image_structure(r.positions, species, r.cell, r.periodic, model.reach()));
  const double largest = std::max(1.0, largest_force(r.forces));
  const double num_atoms = static_cast<double>(r.symbols.size());
  const double energy_size = tolerance.is_float32 ? std::max(largest, std::fabs(r.energy) / num_atoms) : 1.0;
  EXPECT_NEAR(e.energy, r.energy, num_atoms * tolerance.energy * energy_size);
  ASSERT_EQ(e.forces.size(), r.forces.size());
  for (size_t i = 0; i < r.forces.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(e.forces[i][k], r.forces[i][k], largest * tolerance.force) << "atom " << i;
  if (!r.has_stress) return;
  const auto &c = r.cell;
  const double volume =
      std::fabs(c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) + c[0][1] * (c[1][2] * c[2][0] - c[1][0] * c[2][2]) +
                c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]));
  // Virials are xx,yy,zz,xy,xz,yz, stresses xx,yy,zz,yz,xz,xy and of the other sign.
  const int order[6] = {0, 1, 2, 5, 4, 3};
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(-e.virial[order[k]] / volume, r.stress[k], largest * tolerance.stress) << "component " << k;
}

// The elements of some structures, in the order in which they appear.
inline std::vector<std::string> elements_of(const std::vector<ReferenceStructure> &structures) {
  std::vector<std::string> elements;
  for (const ReferenceStructure &r : structures)
    for (const std::string &s : r.symbols)
      if (std::find(elements.begin(), elements.end(), s) == elements.end()) elements.push_back(s);
  return elements;
}

// The model restricted to some elements, and its evaluator, which refers to it.
struct RestrictedEvaluator {
  RestrictedEvaluator(const Model &whole, const std::vector<std::string> &elements,
                      const std::function<std::unique_ptr<Evaluator>(const Model &)> &make)
      : model(whole.restricted_to(elements)), evaluator(make(model)) {}
  const Model model;
  const std::unique_ptr<Evaluator> evaluator;
};

// Each structure is evaluated twice: by an evaluator with the elements of all structures of the model, and by one with
// only its elements. Structures of the same elements share an evaluator. A file that cannot be read, or that the
// evaluator refuses, is a failure that does not hide others.
inline void expect_all_answers(const std::function<std::unique_ptr<Evaluator>(const Model &)> &make,
                               const ReferenceTolerance &tolerance) {
  const std::vector<std::string> files = model_files();
  int num_evaluated = 0;
  ASSERT_FALSE(files.empty());
  for (const std::string &file : files) {
    SCOPED_TRACE(file);
    try {
      const Model whole = read_model(file);
      EXPECT_FALSE(whole.self_check.empty());
      const std::vector<std::string> all = elements_of(whole.self_check);
      std::map<std::vector<std::string>, RestrictedEvaluator> evaluators;
      for (const ReferenceStructure &r : whole.self_check)
        for (const std::vector<std::string> &elements : {all, elements_of({r})}) {
          SCOPED_TRACE(r.name + ", " + std::to_string(elements.size()) + " elements");
          const auto restricted = evaluators.try_emplace(elements, whole, elements, make).first;
          expect_answer(*restricted->second.evaluator, restricted->second.model, r, tolerance);
          ++num_evaluated;
        }
    } catch (const std::exception &e) {
      ADD_FAILURE() << e.what();
    }
  }
  EXPECT_GT(num_evaluated, 0);
}

}    // namespace testing
}    // namespace equi

#endif
