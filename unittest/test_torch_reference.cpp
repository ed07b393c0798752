// TorchModel against the answers of the framework that are stored in converted models (ReferenceStructure).

#include "model_file.h"
#include "torch_model.h"
#include "two_rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace {

using namespace equi;
using equi::testing::evaluate_whole;
using equi::testing::Evaluation;

// Both sides in float64; forces and stress relative to the largest force where that exceeds 1 eV/A.
constexpr double ENERGY_PER_ATOM = 1e-10;    // eV
constexpr double FORCE = 1e-9;               // eV/A
constexpr double STRESS = 1e-9;              // eV/A^3
// The float32 network against them.
constexpr double MIXED_ENERGY_PER_ATOM = 1e-6;
constexpr double MIXED_FORCE = 1e-4;

// The build converts models into EQUI_MODELS_DIR; the environment may name another folder. Subfolders count.
std::vector<std::string> model_files() {
  const char *named = std::getenv("EQUI_MODELS_DIR");
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(named ? named : EQUI_MODELS_DIR))
    if (entry.path().extension() == ".equi") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

void expect_reference(const Model &whole_model, const ReferenceStructure &r, Precision precision) {
  std::vector<std::string> symbols;
  for (const std::string &s : r.symbols)
    if (std::find(symbols.begin(), symbols.end(), s) == symbols.end()) symbols.push_back(s);
  const Model model = whole_model.restricted_to(symbols);
  std::vector<int> species;
  for (const std::string &s : r.symbols) species.push_back(model.species(s));
  EvaluatorOptions options;
  options.precision = precision;
  TorchModel evaluator(model, options);
  const Evaluation e =
      evaluate_whole(evaluator, build_image_structure(r.positions, species, r.cell, r.periodic, model.cutoff));

  const bool exact = precision == Precision::double_;
  const double num_atoms = static_cast<double>(r.symbols.size());
  double largest = 1.0;
  for (const auto &f : r.forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
  EXPECT_NEAR(e.energy, r.energy, num_atoms * (exact ? ENERGY_PER_ATOM : MIXED_ENERGY_PER_ATOM));
  ASSERT_EQ(e.forces.size(), r.forces.size());
  for (size_t i = 0; i < r.forces.size(); ++i)
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(e.forces[i][k], r.forces[i][k], largest * (exact ? FORCE : MIXED_FORCE)) << "atom " << i;
  if (!r.has_stress || !exact) return;
  const auto &c = r.cell;
  const double volume =
      std::fabs(c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) + c[0][1] * (c[1][2] * c[2][0] - c[1][0] * c[2][2]) +
                c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]));
  // Virials are xx,yy,zz,xy,xz,yz, stresses xx,yy,zz,yz,xz,xy and of the other sign.
  const int order[6] = {0, 1, 2, 5, 4, 3};
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(-e.virial[order[k]] / volume, r.stress[k], largest * STRESS) << "component " << k;
}

// A file that cannot be read is a failure, but does not hide the others.
void expect_all_references(Precision precision) {
  const std::vector<std::string> files = model_files();
  ASSERT_FALSE(files.empty());
  for (const std::string &file : files) {
    SCOPED_TRACE(file);
    try {
      const Model model = read_model(file);
      EXPECT_FALSE(model.self_check.empty());
      for (const ReferenceStructure &r : model.self_check) {
        SCOPED_TRACE(r.name);
        expect_reference(model, r, precision);
      }
    } catch (const std::exception &e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(TorchReference, equals_the_framework_in_double) {
  expect_all_references(Precision::double_);
}

TEST(TorchReference, is_near_the_framework_in_mixed) {
  expect_all_references(Precision::mixed);
}

}    // namespace
