// SPDX-License-Identifier: MIT
// The laws that every Evaluator obeys. evaluator_laws.cpp states them; a test program links it and defines the
// evaluators and the tiny models to test.
#ifndef EQUI_TEST_EVALUATOR_LAWS_H
#define EQUI_TEST_EVALUATOR_LAWS_H

#include "src/evaluation/evaluator.h"
#include "unittest/support/model_cases.h"
#include "unittest/support/two_rank_exchange.h"

#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// Allowed differences between two computations of one evaluation: absolute in eV and eV/A, and relative to the size of
// the numbers of a kind (AllowedDifferences).
struct Closeness {
  double absolute;
  double relative = 0.0;
};

// Two computations in float64 differ by the rounding of some thousand operations on numbers of order one to ten.
constexpr Closeness ROUNDING = {1e-11};
// Tables of the tolerance 1e-10, relative to the largest radial weight, through up to three layers.
constexpr Closeness TABLE = {1e-8};
// Truncation h^2 and rounding 1e-16/h of a central difference, at the best of several steps, relative to the largest
// number of its kind.
constexpr double FINITE_DIFFERENCE = 1e-7;
// The tolerance of tables for laws that hold for any radial functions: such tables are built in a tenth of the time. It
// is 0 for laws about the exact functions. Differences use smooth tables, with the tolerance of the precision.
constexpr double COARSE_TABLES = 1e-4, ACCURATE_TABLES = 0.0;
// EvaluatorKind::noticeable in float64, far above the rounding.
constexpr double NOTICEABLE = 1e-6;

// The sizes are the sum of the energies of atoms, the largest component of a force and of the virial of an atom, and
// one if that is larger. Virials, products of forces and distances, are absolutely ten times as large as the rest, and
// that of the whole grows with the atoms.
struct AllowedDifferences {
  double energy, force, virial, atom_virial;
};
AllowedDifferences allowed_differences(const Closeness &closeness, const Evaluation &expected);

void expect_same(const Evaluation &a, const Evaluation &expected, const Closeness &closeness, const std::string &what);
// The largest difference between components; NaN if there is one.
double largest_difference(const std::vector<Vector3> &a, const std::vector<Vector3> &b);

// Components from -1 to 1.
std::vector<Vector3> random_direction(int num_atoms, unsigned seed);
// Largest differences between tangents of forces and of the virial along a direction and central differences of an
// evaluator's, at the best of several steps.
struct TangentErrors {
  double forces = INFINITY, virial = INFINITY;
};
TangentErrors largest_errors_by_differences(Evaluator &evaluator, const Model &model, const Structure &structure,
                                            const std::vector<Vector3> &direction, const Evaluation &tangents);

struct EvaluatorKind {
  std::string name;
  // radial_tolerance: of EvaluatorOptions, if there are tables.
  std::function<std::unique_ptr<Evaluator>(const Model &, double radial_tolerance)> make;
  // Between evaluations of one structure that is turned, permuted or split among ranks.
  Closeness rounding;
  // To the energies of scalar_energies.
  Closeness to_plain_loops;
  // Smallest change, in eV and eV/A, if a test breaks an exchange.
  double noticeable;
  // Whether all arithmetic is in float64, and the laws of finite differences hold.
  bool is_double;

  friend void PrintTo(const EvaluatorKind &k, std::ostream *out) { *out << k.name; }
};

// Each test program defines these.
std::vector<EvaluatorKind> evaluator_kinds();
std::vector<TinyCase> evaluator_law_cases();

}    // namespace testing
}    // namespace equi

#endif
