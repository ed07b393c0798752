// ModelKokkos against the answers of the framework that are stored in converted models (ReferenceStructure).
#include "model_cases.h"
#include "model_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace {

using namespace equi;
using namespace equi::testing;

// eV/atom, eV/A, eV/A^3; forces and stress relative to the largest force where that exceeds 1 eV/A.
struct Tolerance {
  double energy, force, stress;
};
constexpr Tolerance EXACT = {1e-10, 1e-9, 1e-9};    // float64 on both sides
constexpr Tolerance TABLE = {1e-8, 1e-6, 1e-6};     // radial tables of the tolerance 1e-10
constexpr Tolerance MIXED = {1e-6, 1e-4, 1e-4};     // float32 network
constexpr Tolerance SINGLE = {1e-5, 1e-3, 1e-3};    // float32 directions and distances as well

// The build converts models into EQUI_MODELS_DIR; the environment may name another folder. Subfolders count.
std::vector<std::string> model_files() {
  const char *named = std::getenv("EQUI_MODELS_DIR");
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(named ? named : EQUI_MODELS_DIR))
    if (entry.path().extension() == ".equi") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

void expect_reference(Evaluator &evaluator, const Model &model, const ReferenceStructure &r,
                      const Tolerance &tolerance) {
  std::vector<int> species;
  for (const std::string &s : r.symbols) species.push_back(model.species(s));
  const Evaluation e =
      evaluate_whole(evaluator, build_image_structure(r.positions, species, r.cell, r.periodic, model.cutoff));
  EXPECT_NEAR(e.energy, r.energy, static_cast<double>(r.symbols.size()) * tolerance.energy);
  ASSERT_EQ(e.forces.size(), r.forces.size());
  const double largest = std::max(1.0, largest_force(r.forces));
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

// A file that cannot be read is a failure, but does not hide the others. One evaluator serves all structures of a
// model.
void expect_all_references(const KokkosOptions &options, const Tolerance &tolerance) {
  const std::vector<std::string> files = model_files();
  ASSERT_FALSE(files.empty());
  for (const std::string &file : files) {
    SCOPED_TRACE(file);
    try {
      const Model whole = read_model(file);
      EXPECT_FALSE(whole.self_check.empty());
      std::vector<std::string> symbols;
      for (const ReferenceStructure &r : whole.self_check)
        symbols.insert(symbols.end(), r.symbols.begin(), r.symbols.end());
      std::sort(symbols.begin(), symbols.end());
      symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
      const Model model = whole.restricted_to(symbols);
      const auto evaluator = make_kokkos(model, options);
      for (const ReferenceStructure &r : model.self_check) {
        SCOPED_TRACE(r.name);
        expect_reference(*evaluator, model, r, tolerance);
      }
    } catch (const std::exception &e) {
      ADD_FAILURE() << e.what();
    }
  }
}

TEST(ModelReference, double_exact_equals_the_framework) {
  expect_all_references({Precision::double_, true, false}, EXACT);
}

TEST(ModelReference, double_exact_deterministic_equals_the_framework) {
  expect_all_references({Precision::double_, true, true}, EXACT);
}

TEST(ModelReference, double_by_tables_is_near_the_framework) {
  expect_all_references({Precision::double_, false, false}, TABLE);
}

TEST(ModelReference, mixed_by_tables_is_near_the_framework) {
  expect_all_references({Precision::mixed, false, false}, MIXED);
}

TEST(ModelReference, mixed_exact_deterministic_is_near_the_framework) {
  expect_all_references({Precision::mixed, true, true}, MIXED);
}

TEST(ModelReference, single_by_tables_is_near_the_framework) {
  expect_all_references({Precision::single, false, false}, SINGLE);
}

}    // namespace
