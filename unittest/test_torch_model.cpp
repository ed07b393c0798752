// TorchModel on tiny random models: against plain loops, finite differences, symmetries and splits among ranks.

#include "model_builder.h"
#include "model_file.h"
#include "scalar_model.h"
#include "torch_model.h"
#include "two_rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <random>

namespace {

using namespace equi;
using equi::testing::evaluate_ranks;
using equi::testing::evaluate_whole;
using equi::testing::Evaluation;
using equi::testing::make_tiny_model;
using equi::testing::ModelDocument;
using equi::testing::RankGroup;
using equi::testing::RankPart;
using equi::testing::scalar_energies;
using equi::testing::split_structure;
using equi::testing::TinyModelOptions;
using equi::testing::Vector3;

// Two float64 routes to one number differ by the rounding of some thousand operations on numbers of order one to ten.
constexpr double ROUNDING = 1e-11;
// Truncation h^2 and rounding 1e-16/h of a central difference, at the best of several steps.
constexpr double FINITE_DIFFERENCE = 1e-7;
// float32 network: 6e-8 per operation, relative to the numbers above.
constexpr double FLOAT32 = 2e-5;

EvaluatorOptions precision(Precision p) {
  EvaluatorOptions options;
  options.precision = p;
  return options;
}

std::unique_ptr<Evaluator> make(const Model &model, Precision p = Precision::double_) {
  return std::make_unique<TorchModel>(model, precision(p));
}

struct Structure {
  std::vector<Vector3> positions;
  std::vector<int> species;
  double cell[3][3] = {{5.1, 0.2, -0.3}, {0.4, 5.6, 0.1}, {-0.2, 0.3, 6.2}};
  bool periodic[3] = {true, true, true};

  ImageStructure images(double cutoff) const {
    return build_image_structure(positions, species, cell, periodic, cutoff);
  }
  int size() const { return static_cast<int>(positions.size()); }
};

// Atoms on a jittered grid, so that none are close; the cell is smaller than twice the cutoff.
Structure random_structure(int num_species, unsigned seed, int num_atoms = 8) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> jitter(-0.4, 0.4);
  Structure s;
  for (int n = 0; n < num_atoms; ++n) {
    const double corner[3] = {n & 1 ? 2.6 : 0.1, n & 2 ? 2.8 : 0.0, n & 4 ? 3.1 : 0.2};
    s.positions.push_back({corner[0] + jitter(random), corner[1] + jitter(random), corner[2] + jitter(random)});
    s.species.push_back(static_cast<int>(random() % num_species));
  }
  return s;
}

double energy_of(Evaluator &evaluator, const Structure &s, double cutoff) {
  const ImageStructure images = s.images(cutoff);
  evaluator.set_neighborhood(images.neighborhood);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  NoExchange none;
  return evaluator.evaluate(request, none).energy;
}

void expect_same_evaluation(const Evaluation &a, const Evaluation &b, double tolerance, const std::string &what) {
  EXPECT_NEAR(a.energy, b.energy, tolerance) << what;
  EXPECT_EQ(a.num_edges, b.num_edges) << what;
  for (int k = 0; k < 6; ++k) EXPECT_NEAR(a.virial[k], b.virial[k], 10 * tolerance) << what << " virial " << k;
  ASSERT_EQ(a.forces.size(), b.forces.size());
  for (size_t i = 0; i < a.forces.size(); ++i) {
    EXPECT_NEAR(a.atom_energy[i], b.atom_energy[i], tolerance) << what << " atom " << i;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(a.forces[i][k], b.forces[i][k], tolerance) << what << " atom " << i;
    for (int k = 0; k < 9; ++k)
      EXPECT_NEAR(a.atom_virial[i][k], b.atom_virial[i][k], 10 * tolerance) << what << " atom " << i;
  }
}

double largest_difference(const std::vector<Vector3> &a, const std::vector<Vector3> &b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i)
    for (int k = 0; k < 3; ++k) largest = std::max(largest, std::fabs(a[i][k] - b[i][k]));
  return largest;
}

struct TinyCase {
  std::string name;
  TinyModelOptions options;
  // Replaces the builder's activations of the gates on even scalars, where not empty.
  std::string scalar_activation, gate_activation;
  bool keeps_parity = false;

  Model model() const {
    ModelDocument d = make_tiny_model(options);
    for (auto &layer : d.document["layers"]) {
      if (layer["type"] != "gate") continue;
      for (auto &term : layer["terms"]) {
        if (term["activation"] == "tanh") continue;
        const std::string &a = term.contains("gate_in") ? gate_activation : scalar_activation;
        if (!a.empty()) term["activation"] = a;
      }
    }
    return d.model();
  }
};

void PrintTo(const TinyCase &c, std::ostream *out) {
  *out << c.name;
}

// Odd multiplicities, every option of the format at least once, one to three layers.
std::vector<TinyCase> tiny_cases() {
  std::vector<TinyCase> cases(4);
  cases[0].name = "rotations_only";
  cases[0].keeps_parity = true;    // two layers form nothing but products of two harmonics of equal l
  cases[1].name = "one_layer";
  cases[1].options.hidden = {"7x0e"};
  cases[1].keeps_parity = true;    // nothing but distances enters
  cases[1].options.lmax_edge = 1;
  cases[1].options.xplor = false;
  cases[1].options.radial_hidden = {};
  cases[1].options.readout_hidden = {6};
  cases[2].name = "parity_three_layers";
  TinyModelOptions &parity = cases[2].options;
  parity.elements = {"O", "H", "Si"};
  parity.parity = true;
  parity.lmax_edge = 3;
  parity.hidden = {"3x0e+1x0o+2x1o+3x1e+1x2e+1x3o", "2x0o+4x0e+1x2o+2x1o", "5x0e"};
  parity.per_species_linear = true;
  parity.biases = true;
  parity.xplor = false;
  parity.p = 5.5;
  parity.readout_hidden = {4, 3};
  parity.seed = 2;
  cases[2].keeps_parity = true;
  cases[2].scalar_activation = "ssp";
  cases[2].gate_activation = "sigmoid";
  cases[3].name = "unnormalised_high_l";
  TinyModelOptions &high = cases[3].options;
  high.lmax_edge = 4;
  high.hidden = {"4x0e+1x4e+3x1e", "3x0e+1x3e", "4x0e"};
  high.embedding_channels = 1;
  high.r_power = true;
  high.radial_hidden = {5};
  high.is_double = false;
  high.seed = 3;
  cases[3].scalar_activation = "identity";
  cases[3].gate_activation = "tanh";
  return cases;
}

class TorchModelTest : public ::testing::TestWithParam<TinyCase> {
 protected:
  TorchModelTest() : model(GetParam().model()), structure(random_structure(model.num_species(), 7)) {}
  Model model;
  Structure structure;
};

TEST_P(TorchModelTest, energies_equal_plain_loops) {
  const ImageStructure images = structure.images(model.cutoff);
  const std::vector<double> expected = scalar_energies(model, images);
  const Evaluation e = evaluate_whole(*make(model), images);
  ASSERT_GT(e.num_edges, structure.size());
  for (int i = 0; i < structure.size(); ++i) EXPECT_NEAR(e.atom_energy[i], expected[i], ROUNDING) << "atom " << i;
  EXPECT_NEAR(e.energy, std::accumulate(expected.begin(), expected.end(), 0.0), ROUNDING);
}

TEST_P(TorchModelTest, forces_are_minus_the_gradient_of_the_energy) {
  const auto evaluator = make(model);
  const Evaluation e = evaluate_whole(*evaluator, structure.images(model.cutoff));
  double largest = 0.0;
  for (const Vector3 &f : e.forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
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
      EXPECT_LT(best, FINITE_DIFFERENCE * largest) << "atom " << i << " direction " << k;
    }
}

TEST_P(TorchModelTest, virial_is_minus_the_strain_derivative) {
  const auto evaluator = make(model);
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
          for (Vector3 &p : s.positions) p[a] += strain * structure.positions[&p - s.positions.data()][b];
          for (int row = 0; row < 3; ++row) s.cell[row][a] += strain * structure.cell[row][b];
          energy[side] = energy_of(*evaluator, s, model.cutoff);
        }
        slope[half] = (energy[0] - energy[1]) / (2 * step);
      }
      best = std::min(best, std::fabs((4 * slope[1] - slope[0]) / 3 + e.virial[n]));
    }
    EXPECT_LT(best, FINITE_DIFFERENCE * largest) << "component " << n;
  }
}

TEST_P(TorchModelTest, per_atom_values_sum_to_the_whole) {
  const Evaluation e = evaluate_whole(*make(model), structure.images(model.cutoff));
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
  const Evaluation a = evaluate_whole(*make(model), structure.images(model.cutoff));
  const Evaluation b = evaluate_whole(*make(model), turned.images(model.cutoff));
  EXPECT_NEAR(a.energy, b.energy, ROUNDING);
  for (int i = 0; i < structure.size(); ++i) {
    double f[3];
    turn(a.forces[i].data(), f);
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(f[k], b.forces[i][k], ROUNDING) << "atom " << i;
  }
}

TEST_P(TorchModelTest, rotation_rotates_forces) {
  // By 0.7 about y, then 1.1 about x.
  const double c = std::cos(0.7), s = std::sin(0.7), d = std::cos(1.1), t = std::sin(1.1);
  const double q[3][3] = {{c, 0, s}, {t * s, d, -t * c}, {-d * s, t, d * c}};
  expect_covariant(model, structure, q);
}

TEST_P(TorchModelTest, inversion_inverts_forces_exactly_if_parity_is_kept) {
  const double q[3][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}};
  if (GetParam().keeps_parity) {
    expect_covariant(model, structure, q);
    return;
  }
  // A model of rotations alone tells left from right.
  Structure mirrored = structure;
  for (Vector3 &p : mirrored.positions)
    for (double &c : p) c = -c;
  const auto evaluator = make(model);
  EXPECT_GT(std::fabs(energy_of(*evaluator, mirrored, model.cutoff) - energy_of(*evaluator, structure, model.cutoff)),
            1e-6);
}

TEST_P(TorchModelTest, permutation_and_translation_change_nothing) {
  Structure moved = structure;
  std::vector<int> order(structure.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  for (int i = 0; i < structure.size(); ++i) {
    const Vector3 &p = structure.positions[order[i]];
    moved.positions[i] = {p[0] + 1.7, p[1] - 0.9, p[2] + 11.3};
    moved.species[i] = structure.species[order[i]];
  }
  const Evaluation a = evaluate_whole(*make(model), structure.images(model.cutoff));
  const Evaluation b = evaluate_whole(*make(model), moved.images(model.cutoff));
  EXPECT_NEAR(a.energy, b.energy, ROUNDING);
  for (int i = 0; i < structure.size(); ++i)
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(a.forces[order[i]][k], b.forces[i][k], ROUNDING) << "atom " << i;
}

TEST_P(TorchModelTest, ranks_agree_with_one_rank) {
  const ImageStructure images = structure.images(model.cutoff);
  for (const Precision p : {Precision::double_, Precision::mixed}) {
    const double tolerance = p == Precision::double_ ? ROUNDING : FLOAT32;
    const Evaluation whole = evaluate_whole(*make(model, p), images);
    // Rank 2 of the last split is empty.
    const std::vector<std::vector<int>> splits = {
        {0, 0, 0, 0, 1, 1, 1, 1}, {0, 1, 0, 1, 1, 0, 1, 0}, {3, 0, 1, 1, 3, 0, 3, 1}};
    for (const std::vector<int> &split : splits) {
      const int num_ranks = 1 + *std::max_element(split.begin(), split.end());
      const std::vector<RankPart> parts = split_structure(images, split, num_ranks);
      std::vector<std::unique_ptr<Evaluator>> evaluators;
      for (int r = 0; r < num_ranks; ++r) evaluators.push_back(make(model, p));
      RankGroup group(parts);
      const Evaluation e = evaluate_ranks(evaluators, parts, structure.size(), group);
      for (const auto &error : e.errors) EXPECT_FALSE(error);
      expect_same_evaluation(e, whole, tolerance, std::to_string(num_ranks) + " ranks");
      EXPECT_EQ(e.bystander_force, 0.0);
      // One forward and one reverse for each convolution but the first, whose input the species alone determine.
      EXPECT_EQ(group.calls(0), 2 * (model.num_convolutions() - 1));

      if (model.num_convolutions() == 1) continue;
      group.mute_reverse = true;
      const Evaluation no_reverse = evaluate_ranks(evaluators, parts, structure.size(), group);
      EXPECT_NEAR(no_reverse.energy, whole.energy, tolerance);
      EXPECT_GT(largest_difference(no_reverse.forces, whole.forces), 100 * tolerance);
      group.mute_forward = true;
      const Evaluation no_forward = evaluate_ranks(evaluators, parts, structure.size(), group);
      EXPECT_GT(std::fabs(no_forward.energy - whole.energy), 100 * tolerance);
    }
  }
}

TEST_P(TorchModelTest, precisions_agree) {
  const ImageStructure images = structure.images(model.cutoff);
  const Evaluation exact = evaluate_whole(*make(model), images);
  const Evaluation mixed = evaluate_whole(*make(model, Precision::mixed), images);
  expect_same_evaluation(mixed, exact, FLOAT32, "mixed");
  EXPECT_NE(mixed.energy, exact.energy);    // it is another arithmetic
}

TEST_P(TorchModelTest, chunks_of_edges_change_only_rounding) {
  const ImageStructure images = structure.images(model.cutoff);
  TorchModel chunked(model, precision(Precision::double_), 30e3);
  expect_same_evaluation(evaluate_whole(chunked, images), evaluate_whole(*make(model), images), ROUNDING, "chunks");
  EXPECT_LT(chunked.memory_bytes(), make(model)->memory_bytes() + (1 << 20));
}

TEST_P(TorchModelTest, evaluations_repeat_and_add_to_their_outputs) {
  const ImageStructure images = structure.images(model.cutoff);
  const auto evaluator = make(model);
  const Evaluation first = evaluate_whole(*evaluator, images);
  expect_same_evaluation(evaluate_whole(*evaluator, images), first, 0.0, "repeated");
  EXPECT_NEAR(energy_of(*evaluator, structure, model.cutoff), first.energy, 0.0);    // without forces

  evaluator->set_neighborhood(images.neighborhood);
  std::vector<Vector3> forces(images.positions.size(), Vector3{1.0, 2.0, 3.0});
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  request.forces = reinterpret_cast<double(*)[3]>(forces.data());
  NoExchange none;
  evaluator->evaluate(request, none);
  Vector3 sum{};
  for (const Vector3 &f : forces)
    for (int k = 0; k < 3; ++k) sum[k] += f[k];
  for (int k = 0; k < 3; ++k) EXPECT_NEAR(sum[k], (k + 1.0) * static_cast<double>(forces.size()), 1e-9);
}

TEST_P(TorchModelTest, a_lone_atom_has_no_force) {
  Structure lone;
  lone.positions = {{0.3, 0.2, 0.1}};
  lone.species = {model.num_species() - 1};
  for (bool &p : lone.periodic) p = false;
  const ImageStructure images = lone.images(model.cutoff);
  const Evaluation e = evaluate_whole(*make(model), images);
  EXPECT_EQ(e.num_edges, 0);
  EXPECT_NEAR(e.energy, scalar_energies(model, images)[0], ROUNDING);
  for (const double f : e.forces[0]) EXPECT_EQ(f, 0.0);
}

TEST_P(TorchModelTest, errors_name_the_atoms_and_let_other_ranks_finish) {
  Structure broken = structure;
  broken.positions[5] = broken.positions[2];
  broken.positions[5][0] += 0.5 * MIN_DISTANCE;
  const ImageStructure images = broken.images(model.cutoff);
  try {
    evaluate_whole(*make(model), images);
    FAIL() << "no error";
  } catch (const EvaluationError &e) {
    EXPECT_EQ(images.owner[e.atom_i] + images.owner[e.atom_j], 7);
    EXPECT_NEAR(e.distance, 0.5 * MIN_DISTANCE, 1e-9);
  }

  // Both atoms on rank 0, all others on rank 1.
  const std::vector<RankPart> parts = split_structure(images, {1, 1, 0, 1, 1, 0, 1, 1}, 2);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 2; ++r) evaluators.push_back(make(model));
  RankGroup group(parts);
  const Evaluation e = evaluate_ranks(evaluators, parts, broken.size(), group);
  ASSERT_TRUE(e.errors[0]);
  EXPECT_THROW(std::rethrow_exception(e.errors[0]), EvaluationError);
  EXPECT_EQ(group.calls(0), group.calls(1));
  if (e.errors[1]) {
    EXPECT_THROW(std::rethrow_exception(e.errors[1]), EvaluationError);
  }

  Structure lost = structure;
  ImageStructure with_nan = lost.images(model.cutoff);
  with_nan.positions[1][2] = NAN;
  EXPECT_THROW(evaluate_whole(*make(model), with_nan), EvaluationError);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, TorchModelTest, ::testing::ValuesIn(tiny_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(TorchEntry, reports_a_model_that_does_not_fit_together) {
  Model model = tiny_cases().front().model();
  EvaluatorOptions options;
  char error[200] = "";
  std::unique_ptr<Evaluator> evaluator(equi_make_torch_evaluator(&model, &options, error, sizeof(error)));
  ASSERT_TRUE(evaluator) << error;
  EXPECT_NE(evaluator->describe().find("LibTorch"), std::string::npos);
  for (Layer &layer : model.layers)
    if (auto *c = std::get_if<Convolution>(&layer)) c->product.paths.front().l2 = 99;
  evaluator.reset(equi_make_torch_evaluator(&model, &options, error, sizeof(error)));
  EXPECT_FALSE(evaluator);
  EXPECT_STRNE(error, "");
}

}    // namespace
