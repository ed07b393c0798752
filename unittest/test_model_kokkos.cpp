// ModelKokkos on tiny random models: against plain loops, finite differences, symmetries and splits among ranks.
#include "model_cases.h"
#include "scalar_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace {

using namespace equi;
using namespace equi::testing;

// Two float64 routes to one number differ by the rounding of some thousand operations on numbers of order one to ten.
constexpr double ROUNDING = 1e-11;
// Tables of the tolerance 1e-10, relative to the largest radial weight, through up to three layers.
constexpr double TABLE = 1e-8;
// Truncation h^2 and rounding 1e-16/h of a central difference, at the best of several steps.
constexpr double FINITE_DIFFERENCE = 1e-7;
// float32 network: 6e-8 per operation, relative to numbers of order ten.
constexpr double FLOAT32 = 5e-5;

template <class A>
double largest_of(const std::vector<A> &a, const std::vector<A> &b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) {
      const double d = std::fabs(a[i][k] - b[i][k]);
      if (!(d <= largest)) largest = d;    // NaN stays the largest
    }
  return largest;
}

// Virials, products of forces and distances, are ten times as large as the rest.
void expect_same(const Evaluation &a, const Evaluation &b, double tolerance, const std::string &what) {
  EXPECT_EQ(a.num_edges, b.num_edges) << what;
  EXPECT_LE(std::fabs(a.energy - b.energy), tolerance) << what;
  EXPECT_LE(largest_of<Vector3>(a.forces, b.forces), tolerance) << what;
  EXPECT_LE((largest_of<std::array<double, 6>>({a.virial}, {b.virial})), 10 * tolerance) << what;
  EXPECT_LE((largest_of<std::array<double, 9>>(a.atom_virial, b.atom_virial)), 10 * tolerance) << what;
  ASSERT_EQ(a.atom_energy.size(), b.atom_energy.size()) << what;
  for (size_t i = 0; i < a.atom_energy.size(); ++i)
    EXPECT_NEAR(a.atom_energy[i], b.atom_energy[i], tolerance) << what << " atom " << i;
}

class ModelKokkosTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  ModelKokkosTest() : model(GetParam().model()), structure(random_structure(model.num_species(), 7)) {}

  // The model by tables and exactly, default and deterministic.
  static std::vector<KokkosOptions> all_double() {
    std::vector<KokkosOptions> all;
    for (const bool exact : {false, true})
      for (const bool deterministic : {false, true}) all.push_back({Precision::double_, exact, deterministic});
    return all;
  }
  static std::string name(const KokkosOptions &o) {
    return std::string(o.radial_exact ? "exact" : "table") + (o.deterministic ? ", deterministic" : "");
  }

  Model model;
  Structure structure;
};

TEST_P(ModelKokkosTest, energies_equal_plain_loops) {
  const ImageStructure images = structure.images(model.cutoff);
  const std::vector<double> expected = scalar_energies(model, images);
  for (const KokkosOptions &o : all_double()) {
    const Evaluation e = evaluate_whole(*make_kokkos(model, o), images);
    ASSERT_GT(e.num_edges, structure.size());
    const double tolerance = o.radial_exact ? ROUNDING : TABLE;
    for (int i = 0; i < structure.size(); ++i)
      EXPECT_NEAR(e.atom_energy[i], expected[i], tolerance) << name(o) << ", atom " << i;
    EXPECT_NEAR(e.energy, std::accumulate(expected.begin(), expected.end(), 0.0), 10 * tolerance) << name(o);
  }
}

TEST_P(ModelKokkosTest, forces_are_minus_the_gradient_of_the_energy) {
  for (const KokkosOptions &o : all_double()) {
    const auto evaluator = make_kokkos(model, o);
    const Evaluation e = evaluate_whole(*evaluator, structure.images(model.cutoff));
    const double largest = largest_force(e.forces);
    ASSERT_GT(largest, 1e-4);
    for (int i = 0; i < structure.size(); i += 3)
      for (int k = 0; k < 3; ++k) {
        double best = INFINITY;
        for (const double h : {1e-3, 3e-4, 1e-4}) {
          // Richardson's combination of two steps removes the h^2 term.
          double slope[2];
          for (int n = 0; n < 2; ++n) {
            const double step = n == 0 ? h : 0.5 * h;
            Structure plus = structure, minus = structure;
            plus.positions[i][k] += step;
            minus.positions[i][k] -= step;
            slope[n] =
                (energy_of(*evaluator, plus, model.cutoff) - energy_of(*evaluator, minus, model.cutoff)) / (2 * step);
          }
          best = std::min(best, std::fabs((4 * slope[1] - slope[0]) / 3 + e.forces[i][k]));
        }
        EXPECT_LT(best, FINITE_DIFFERENCE * largest) << name(o) << ", atom " << i << " direction " << k;
      }
  }
}

TEST_P(ModelKokkosTest, virial_is_minus_the_strain_derivative) {
  for (const bool exact : {false, true}) {
    const auto evaluator = make_kokkos(model, {Precision::double_, exact});
    const Evaluation e = evaluate_whole(*evaluator, structure.images(model.cutoff));
    double largest = 0.0;
    for (const double v : e.virial) largest = std::max(largest, std::fabs(v));
    ASSERT_GT(largest, 1e-4);
    const int axes[6][2] = {{0, 0}, {1, 1}, {2, 2}, {0, 1}, {0, 2}, {1, 2}};
    for (int n = 0; n < 6; ++n) {
      const int a = axes[n][0], b = axes[n][1];
      double best = INFINITY;
      for (const double h : {3e-4, 1e-4, 3e-5}) {
        double slope[2];
        for (int half = 0; half < 2; ++half) {
          const double step = half == 0 ? h : 0.5 * h;
          double energy[2];
          for (int side = 0; side < 2; ++side) {
            const double strain = side == 0 ? step : -step;
            Structure s = structure;
            for (int i = 0; i < s.size(); ++i) s.positions[i][a] += strain * structure.positions[i][b];
            for (int row = 0; row < 3; ++row) s.cell[row][a] += strain * structure.cell[row][b];
            energy[side] = energy_of(*evaluator, s, model.cutoff);
          }
          slope[half] = (energy[0] - energy[1]) / (2 * step);
        }
        best = std::min(best, std::fabs((4 * slope[1] - slope[0]) / 3 + e.virial[n]));
      }
      EXPECT_LT(best, FINITE_DIFFERENCE * largest) << (exact ? "exact" : "table") << ", component " << n;
    }
  }
}

TEST_P(ModelKokkosTest, per_atom_values_sum_to_the_whole) {
  const Evaluation e = evaluate_whole(*make_kokkos(model), structure.images(model.cutoff));
  EXPECT_NEAR(std::accumulate(e.atom_energy.begin(), e.atom_energy.end(), 0.0), e.energy, ROUNDING);
  std::array<double, 9> sum{};
  Vector3 momentum{};
  for (int i = 0; i < structure.size(); ++i) {
    for (int k = 0; k < 9; ++k) sum[k] += e.atom_virial[i][k];
    for (int k = 0; k < 3; ++k) momentum[k] += e.forces[i][k];
  }
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(momentum[k], 0.0, ROUNDING);
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(sum[k], e.virial[k], 10 * ROUNDING) << k;
  // The virial of an energy that rotation leaves alone is symmetric.
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(sum[6 + k], sum[3 + k], 10 * ROUNDING) << k;
}

// Applies a 3x3 matrix to positions and cell and compares energies and turned forces.
void expect_covariant(const Model &model, const Structure &structure, const double q[3][3]) {
  const auto turn = [&](const double v[3], double out[3]) {
    for (int a = 0; a < 3; ++a) out[a] = q[a][0] * v[0] + q[a][1] * v[1] + q[a][2] * v[2];
  };
  Structure turned = structure;
  for (int i = 0; i < structure.size(); ++i) turn(structure.positions[i].data(), turned.positions[i].data());
  for (int row = 0; row < 3; ++row) turn(structure.cell[row], turned.cell[row]);
  const auto evaluator = make_kokkos(model);
  const Evaluation a = evaluate_whole(*evaluator, structure.images(model.cutoff));
  const Evaluation b = evaluate_whole(*evaluator, turned.images(model.cutoff));
  EXPECT_NEAR(a.energy, b.energy, ROUNDING);
  for (int i = 0; i < structure.size(); ++i) {
    double f[3];
    turn(a.forces[i].data(), f);
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(f[k], b.forces[i][k], ROUNDING) << "atom " << i;
  }
}

TEST_P(ModelKokkosTest, rotation_rotates_forces) {
  // By 0.7 about y, then 1.1 about x.
  const double c = std::cos(0.7), s = std::sin(0.7), d = std::cos(1.1), t = std::sin(1.1);
  const double q[3][3] = {{c, 0, s}, {t * s, d, -t * c}, {-d * s, t, d * c}};
  expect_covariant(model, structure, q);
}

TEST_P(ModelKokkosTest, inversion_inverts_forces_exactly_if_parity_is_kept) {
  const double q[3][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
  if (GetParam().keeps_parity) {
    expect_covariant(model, structure, q);
    return;
  }
  // A model of rotations alone tells left from right.
  Structure mirrored = structure;
  for (Vector3 &p : mirrored.positions)
    for (double &c : p) c = -c;
  const auto evaluator = make_kokkos(model);
  EXPECT_GT(std::fabs(energy_of(*evaluator, mirrored, model.cutoff) - energy_of(*evaluator, structure, model.cutoff)),
            1e-6);
}

TEST_P(ModelKokkosTest, permutation_and_translation_change_nothing) {
  Structure moved = structure;
  std::vector<int> order(structure.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  for (int i = 0; i < structure.size(); ++i) {
    const Vector3 &p = structure.positions[order[i]];
    moved.positions[i] = {p[0] + 1.7, p[1] - 0.9, p[2] + 11.3};
    moved.species[i] = structure.species[order[i]];
  }
  const auto evaluator = make_kokkos(model);
  const Evaluation a = evaluate_whole(*evaluator, structure.images(model.cutoff));
  const Evaluation b = evaluate_whole(*evaluator, moved.images(model.cutoff));
  EXPECT_NEAR(a.energy, b.energy, ROUNDING);
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(a.forces[order[i]][k], b.forces[i][k], ROUNDING) << "atom " << i;
}

TEST_P(ModelKokkosTest, ranks_agree_with_one_rank) {
  const ImageStructure images = structure.images(model.cutoff);
  for (const KokkosOptions &o : {KokkosOptions{Precision::double_}, KokkosOptions{Precision::double_, true, true},
                                 KokkosOptions{Precision::mixed}}) {
    const double tolerance = o.precision == Precision::double_ ? ROUNDING : FLOAT32;
    const Evaluation whole = evaluate_whole(*make_kokkos(model, o), images);
    // Rank 2 of the last split is empty.
    const std::vector<std::vector<int>> splits = {
        {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 0, 1, 1, 0, 1, 0}, {3, 0, 1, 1, 3, 0, 3, 1}};
    for (const std::vector<int> &split : splits) {
      const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
      const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
      std::vector<std::unique_ptr<Evaluator>> evaluators;
      for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make_kokkos(model, o));
      RankGroup group(parts);
      const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group);
      for (const auto &error : e.errors) ASSERT_FALSE(error);
      expect_same(e, whole, tolerance, std::to_string(num_ranks) + " ranks, " + name(o));
      EXPECT_EQ(e.bystander_force, 0.0);
      // One forward and one reverse for each convolution but the first, whose input the species alone determine.
      EXPECT_EQ(group.calls(0), 2 * (model.num_convolutions() - 1));

      if (model.num_convolutions() == 1) continue;
      group.mute_reverse = true;
      const Evaluation no_reverse = evaluate_ranks(evaluators, parts, structure.size(), group);
      EXPECT_NEAR(no_reverse.energy, whole.energy, tolerance);
      EXPECT_GT(largest_of<Vector3>(no_reverse.forces, whole.forces), 20 * tolerance);
      // Remote rows still hold the features of the step before; atoms have to move for that to show.
      Structure moved = structure;
      for (int i = 0; i < moved.size(); ++i) moved.positions[i][i % 3] += 0.2;
      const ImageStructure moved_images = moved.images(model.cutoff);
      const std::vector<RankPart> moved_parts = split_structure(moved_images, split, num_ranks);
      RankGroup moved_group(moved_parts);
      moved_group.mute_forward = true;
      const Evaluation no_forward = evaluate_ranks(evaluators, moved_parts, structure.size(), moved_group);
      EXPECT_GT(std::fabs(no_forward.energy - evaluate_whole(*evaluators[0], moved_images).energy), 20 * tolerance);
    }
  }
}

TEST_P(ModelKokkosTest, precisions_and_instruction_sets_agree) {
  const ImageStructure images = structure.images(model.cutoff);
  const Evaluation exact = evaluate_whole(*make_kokkos(model, {Precision::double_, true}), images);
  const double largest = std::max(1.0, largest_force(exact.forces));
  for (const InstructionSet set : {InstructionSet::generic, InstructionSet::avx2, InstructionSet::avx512}) {
    if (!instruction_set_available(set)) continue;
    const std::string what = host_kernels<double>(set).name;
    const Evaluation tabulated = evaluate_whole(*make_kokkos(model, {Precision::double_, false, false, set}), images);
    expect_same(tabulated, exact, 100 * TABLE * largest, what + " double");
    for (const Precision p : {Precision::mixed, Precision::single}) {
      const Evaluation e = evaluate_whole(*make_kokkos(model, {p, false, false, set}), images);
      expect_same(e, exact, FLOAT32 * largest, what + (p == Precision::mixed ? " mixed" : " single"));
      EXPECT_NE(e.energy, exact.energy);    // it is another arithmetic
    }
  }
}

TEST_P(ModelKokkosTest, deterministic_agrees_with_the_default) {
  const ImageStructure images = random_structure(model.num_species(), 11, 2).images(model.cutoff);
  for (const bool exact : {false, true})
    expect_same(evaluate_whole(*make_kokkos(model, {Precision::double_, exact, true}), images),
                evaluate_whole(*make_kokkos(model, {Precision::double_, exact, false}), images), 10 * ROUNDING,
                exact ? "exact" : "table");
}

TEST_P(ModelKokkosTest, evaluations_repeat_to_the_last_bit) {
  const ImageStructure images = random_structure(model.num_species(), 13, 2).images(model.cutoff);
  const ImageStructure other = structure.images(model.cutoff);
  for (const Precision p : {Precision::double_, Precision::mixed, Precision::single})
    for (const bool deterministic : {false, true}) {
      const auto evaluator = make_kokkos(model, {p, false, deterministic});
      const Evaluation first = evaluate_whole(*evaluator, images);
      evaluate_whole(*evaluator, other);    // leaves other numbers in the memory
      expect_same(evaluate_whole(*evaluator, images), first, 0.0, "repeated");
      expect_same(evaluate_whole(*make_kokkos(model, {p, false, deterministic}), images), first, 0.0,
                  "another evaluator");
    }
}

TEST_P(ModelKokkosTest, outputs_are_added_to_and_optional) {
  const ImageStructure images = structure.images(model.cutoff);
  const auto evaluator = make_kokkos(model);
  const Evaluation whole = evaluate_whole(*evaluator, images);
  EXPECT_EQ(energy_of(*evaluator, structure, model.cutoff), whole.energy);    // without forces

  evaluator->set_neighborhood(images.neighborhood);
  std::vector<Vector3> forces(images.positions.size(), Vector3{1.0, 2.0, 3.0});
  std::vector<double> energies(images.positions.size(), 4.0);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  request.atom_energy = energies.data();
  NoExchange none;
  const EvaluationResult result = evaluator->evaluate(request, none);
  for (const double v : result.virial) EXPECT_EQ(v, 0.0);    // was not asked for
  std::vector<Vector3> sum(structure.size(), Vector3{});
  for (size_t a = 0; a < forces.size(); ++a) {
    for (int k = 0; k < 3; ++k) sum[images.owner[a]][k] += forces[a][k] - (k + 1.0);
    const bool is_receiver = a < static_cast<size_t>(structure.size());
    EXPECT_NEAR(energies[a], 4.0 + (is_receiver ? whole.atom_energy[a] : 0.0), ROUNDING);
  }
  EXPECT_LT(largest_of<Vector3>(sum, whole.forces), ROUNDING);
}

TEST_P(ModelKokkosTest, a_lone_atom_has_no_force) {
  Structure lone;
  lone.positions = {{0.3, 0.2, 0.1}};
  lone.species = {model.num_species() - 1};
  for (bool &p : lone.periodic) p = false;
  const ImageStructure images = lone.images(model.cutoff);
  for (const KokkosOptions &o : all_double()) {
    const Evaluation e = evaluate_whole(*make_kokkos(model, o), images);
    EXPECT_EQ(e.num_edges, 0);
    EXPECT_NEAR(e.energy, scalar_energies(model, images)[0], ROUNDING);
    for (const double f : e.forces[0]) EXPECT_EQ(f, 0.0);
    for (const double v : e.virial) EXPECT_EQ(v, 0.0);
  }
}

TEST_P(ModelKokkosTest, an_empty_structure_has_no_energy) {
  Neighborhood nothing;
  nothing.first = {0};
  for (const KokkosOptions &o : all_double()) {
    const auto evaluator = make_kokkos(model, o);
    evaluator->set_neighborhood(nothing);
    double positions[1][3] = {}, forces[1][3] = {};
    EvaluationRequest request;
    request.positions = positions;
    request.forces = forces;
    request.virial = true;
    NoExchange none;
    const EvaluationResult result = evaluator->evaluate(request, none);
    EXPECT_EQ(result.energy, 0.0);
    EXPECT_EQ(result.num_edges, 0);
    for (const double v : result.virial) EXPECT_EQ(v, 0.0);
  }
}

TEST_P(ModelKokkosTest, an_atom_beyond_all_cutoffs_changes_nothing) {
  Structure open = structure;
  for (bool &p : open.periodic) p = false;
  const ImageStructure images = open.images(model.cutoff);
  const Evaluation without = evaluate_whole(*make_kokkos(model), images);
  Structure more = open;
  more.positions.push_back({100.0, 0.0, 0.0});
  more.species.push_back(0);
  const Evaluation with = evaluate_whole(*make_kokkos(model), more.images(model.cutoff));
  EXPECT_NEAR(with.energy - with.atom_energy.back(), without.energy, ROUNDING);
  for (int i = 0; i < open.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(with.forces[i][k], without.forces[i][k], ROUNDING);
  for (const double f : with.forces.back()) EXPECT_EQ(f, 0.0);
}

TEST_P(ModelKokkosTest, errors_name_the_atoms_and_let_other_ranks_finish) {
  Structure broken = structure;
  broken.positions[5] = broken.positions[2];
  for (const double distance : {0.5 * MIN_DISTANCE, 0.0}) {
    broken.positions[5][0] = broken.positions[2][0] + distance;
    const ImageStructure images = broken.images(model.cutoff);
    try {
      evaluate_whole(*make_kokkos(model), images);
      FAIL() << "no error";
    } catch (const EvaluationError &e) {
      EXPECT_EQ(images.owner[e.atom_i] + images.owner[e.atom_j], 7);
      EXPECT_NEAR(e.distance, distance, 1e-9);
    }

    // Both atoms on rank 0, all others on rank 1.
    const std::vector<RankPart> parts = split_structure(images, {1, 1, 0, 1, 1, 0, 1, 1}, 2);
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < 2; ++r) evaluators.push_back(make_kokkos(model));
    RankGroup group(parts);
    const Evaluation e = evaluate_ranks(evaluators, parts, broken.size(), group);
    ASSERT_TRUE(e.errors[0]);
    EXPECT_THROW(std::rethrow_exception(e.errors[0]), EvaluationError);
    EXPECT_EQ(group.calls(0), group.calls(1));
  }
}

TEST_P(ModelKokkosTest, positions_that_are_not_a_number_are_an_error) {
  for (const bool deterministic : {false, true}) {
    ImageStructure images = structure.images(model.cutoff);
    images.positions[3][1] = std::nan("");
    EXPECT_THROW(evaluate_whole(*make_kokkos(model, {Precision::mixed, false, deterministic}), images),
                 EvaluationError);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, ModelKokkosTest, ::testing::ValuesIn(tiny_cases()),
                         [](const auto &info) { return info.param.name; });

// ---- shapes of models that the builder does not make
// ----------------------------------------------------------------------

TEST(ModelKokkos, a_layer_that_the_energy_does_not_see_changes_nothing) {
  TinyModelOptions options;
  options.hidden = {"5x0e+3x1e", "5x0e"};
  ModelDocument longer = make_tiny_model(options);
  options.hidden = {"5x0e+3x1e"};
  // The readout and what follows of the long model, on the features of its first layer.
  for (auto &layer : longer.document["layers"])
    if (layer["type"] == "readout") {
      layer["input"] = "x1";
      layer["irreps_in"] = "5x0e+3x1e";
    }
  const Model model = longer.model();
  Model shorter = model;
  shorter.layers.clear();
  int num_convolutions = 0, num_gates = 0;
  for (const Layer &layer : model.layers) {
    // Layers of the second interaction lie between the first gate and the readout.
    if (std::holds_alternative<Readout>(layer) || std::holds_alternative<ScaleShift>(layer) || num_gates == 0)
      shorter.layers.push_back(layer);
    num_gates += std::holds_alternative<Gate>(layer);
    num_convolutions += std::holds_alternative<Convolution>(layer);
  }
  ASSERT_EQ(num_convolutions, 2);
  const ImageStructure images = random_structure(2, 7).images(model.cutoff);
  for (const bool deterministic : {false, true}) {
    const KokkosOptions o{Precision::double_, true, deterministic};
    const auto evaluator = make_kokkos(model, o);
    expect_same(evaluate_whole(*evaluator, images), evaluate_whole(*make_kokkos(shorter, o), images), ROUNDING,
                "unseen layer");
    // Memory that an earlier step has used must not show either.
    expect_same(evaluate_whole(*evaluator, images), evaluate_whole(*make_kokkos(shorter, o), images), ROUNDING,
                "unseen layer, warm");
  }
}

TEST(ModelKokkos, two_readouts_add_up) {
  TinyModelOptions options;
  options.hidden = {"5x0e+3x1e", "5x0e"};
  Model both = make_tiny_model(options).model();
  // A second readout, of the first layer's scalars.
  size_t at = 0;
  int first_gate = -1;
  Readout early{};
  for (size_t k = 0; k < both.layers.size(); ++k) {
    if (const auto *g = std::get_if<Gate>(&both.layers[k]); g && first_gate < 0) first_gate = g->output;
    if (const auto *r = std::get_if<Readout>(&both.layers[k])) {
      early = *r;
      at = k;
    }
  }
  early.input = first_gate;
  early.block = 0;
  both.layers.insert(both.layers.begin() + static_cast<std::ptrdiff_t>(at), early);
  const Structure structure = random_structure(2, 7);
  const ImageStructure images = structure.images(both.cutoff);
  const std::vector<double> expected = scalar_energies(both, images);
  for (const bool deterministic : {false, true}) {
    const auto evaluator = make_kokkos(both, {Precision::double_, true, deterministic});
    const Evaluation e = evaluate_whole(*evaluator, images);
    for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(e.atom_energy[i], expected[i], ROUNDING);
    for (int k = 0; k < 3; ++k) {
      const auto energy = [&](double step) {
        Structure moved = structure;
        moved.positions[2][k] += step;
        return energy_of(*evaluator, moved, both.cutoff);
      };
      const double h = 3e-4, wide = (energy(h) - energy(-h)) / (2 * h), narrow = (energy(h / 2) - energy(-h / 2)) / h;
      EXPECT_NEAR(e.forces[2][k], -(4 * narrow - wide) / 3, FINITE_DIFFERENCE * largest_force(e.forces));
    }
  }
}

TEST(ModelKokkos, the_log_names_precision_kernels_and_tables) {
  const Model model = make_tiny_model().model();
  const std::string text = make_kokkos(model, {Precision::mixed})->describe();
  for (const char *word : {"precision mixed", "2 threads", "convolution 0", "convolution 1", "knots", "error"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  EXPECT_NE(make_kokkos(model, {Precision::double_, true, true})->describe().find("deterministic"), std::string::npos);
  EXPECT_NE(make_kokkos(model, {Precision::double_, true})->describe().find("exact"), std::string::npos);
}

}    // namespace
