// ModelDevice, on whatever Kokkos's default execution space is, against ModelKokkos, splits among ranks and the answers
// of the framework that are stored in converted models.

#include "device_model.h"
#include "model_builder.h"
#include "model_file.h"
#include "two_rank_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <random>

namespace {

using namespace equi;
using equi::testing::evaluate_ranks;
using equi::testing::evaluate_whole;
using equi::testing::Evaluation;
using equi::testing::make_tiny_model;
using equi::testing::RankGroup;
using equi::testing::RankPart;
using equi::testing::split_structure;
using equi::testing::TinyModelOptions;
using equi::testing::Vector3;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr double ROUNDING = 1e-12;
// In float32 through a few layers.
constexpr double FLOAT32 = 3e-5;
// Against the framework in float64, with tables in place of the radial networks.
constexpr double ENERGY_PER_ATOM = 1e-8, FORCE = 1e-6, STRESS = 1e-6;    // eV, eV/A, eV/A^3
constexpr double MIXED_ENERGY_PER_ATOM = 1e-6, MIXED_FORCE = 1e-4, MIXED_STRESS = 1e-4;

EvaluatorOptions options_of(Precision precision, bool radial_exact = false) {
  EvaluatorOptions options;
  options.precision = precision;
  options.radial_exact = radial_exact;
  return options;
}

struct Structure {
  std::vector<Vector3> positions;
  std::vector<int> species;
  double cell[3][3] = {};
  bool periodic[3] = {true, true, true};

  ImageStructure images(double cutoff) const {
    return build_image_structure(positions, species, cell, periodic, cutoff);
  }
  int size() const { return static_cast<int>(positions.size()); }
};

// side^3 atoms on a jittered grid in a triclinic cell.
Structure random_structure(int num_species, int side, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> jitter(-0.35, 0.35);
  constexpr double EDGES[3][3] = {{2.6, 0.1, -0.2}, {0.2, 2.8, 0.1}, {-0.1, 0.2, 3.1}};
  Structure s;
  for (int k = 0; k < 3; ++k)
    for (int c = 0; c < 3; ++c) s.cell[k][c] = side * EDGES[k][c];
  for (int n = 0; n < side * side * side; ++n) {
    const int grid[3] = {n % side, n / side % side, n / side / side};
    Vector3 x{};
    for (int c = 0; c < 3; ++c) {
      x[c] = jitter(random);
      for (int k = 0; k < 3; ++k) x[c] += grid[k] * EDGES[k][c];
    }
    s.positions.push_back(x);
    s.species.push_back(static_cast<int>(random() % num_species));
  }
  return s;
}

struct Scale {
  double energy = 1.0, force = 1.0, virial = 1.0;
};

Scale scale_of(const Evaluation &e) {
  Scale s;
  for (size_t i = 0; i < e.forces.size(); ++i) {
    s.energy += std::fabs(e.atom_energy[i]);
    for (const double f : e.forces[i]) s.force = std::max(s.force, std::fabs(f));
    for (const double v : e.atom_virial[i]) s.virial = std::max(s.virial, std::fabs(v));
  }
  return s;
}

void expect_same(const Evaluation &a, const Evaluation &b, double tolerance) {
  const Scale scale = scale_of(b);
  const double num_atoms = static_cast<double>(b.forces.size());
  EXPECT_EQ(a.num_edges, b.num_edges);
  EXPECT_NEAR(a.energy, b.energy, tolerance * scale.energy);
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(a.virial[k], b.virial[k], tolerance * scale.virial * num_atoms) << "virial " << k;
  ASSERT_EQ(a.forces.size(), b.forces.size());
  for (size_t i = 0; i < a.forces.size(); ++i) {
    EXPECT_NEAR(a.atom_energy[i], b.atom_energy[i], tolerance * scale.energy) << "atom " << i;
    for (int k = 0; k < 3; ++k) EXPECT_NEAR(a.forces[i][k], b.forces[i][k], tolerance * scale.force) << "atom " << i;
    for (int k = 0; k < 9; ++k)
      EXPECT_NEAR(a.atom_virial[i][k], b.atom_virial[i][k], tolerance * scale.virial) << "atom " << i;
  }
  EXPECT_EQ(a.bystander_force, 0.0);
}

struct TinyCase {
  std::string name;
  TinyModelOptions options;
  friend void PrintTo(const TinyCase &c, std::ostream *out) { *out << c.name; }
};

std::vector<TinyCase> tiny_cases() {
  std::vector<TinyCase> cases(8);
  cases[0].name = "plain";
  cases[1].name = "odd_multiplicities";
  cases[1].options.hidden = {"37x0e+19x1e+5x2e", "50x0e+1x1e", "7x0e"};
  cases[1].options.embedding_channels = 33;
  cases[2].name = "parity";
  cases[2].options.parity = true;
  cases[2].options.hidden = {"5x0e+2x0o+3x1o+2x1e+2x2e", "4x0e+3x1o+1x2o", "5x0e"};
  cases[3].name = "per_species_linear";
  cases[3].options.per_species_linear = true;
  cases[3].options.elements = {"Na", "Cl", "K"};
  cases[3].options.hidden = {"6x0e+3x1e", "17x0e+3x1e", "5x0e"};
  cases[4].name = "biases_and_deep_readout";
  cases[4].options.biases = true;
  cases[4].options.readout_hidden = {9, 40};
  cases[5].name = "order_3";
  cases[5].options.lmax_edge = 3;
  cases[5].options.hidden = {"4x0e+3x1e+2x2e+2x3e", "4x0e+2x1e+1x3e", "5x0e"};
  cases[6].name = "order_4";
  cases[6].options.lmax_edge = 4;
  cases[6].options.hidden = {"4x0e+3x1e+2x2e+2x3e+18x4e", "4x0e+2x4e", "5x0e"};
  cases[7].name = "one_layer_r_power_polynomial";
  cases[7].options.hidden = {"5x0e"};
  cases[7].options.r_power = true;
  cases[7].options.xplor = false;
  return cases;
}

class DeviceModel : public ::testing::TestWithParam<TinyCase> {
 protected:
  Model model() const { return make_tiny_model(GetParam().options).model(); }
  Structure structure(int side = 2) const {
    return random_structure(static_cast<int>(GetParam().options.elements.size()), side, 7);
  }
};

TEST_P(DeviceModel, agrees_with_the_host_kernels) {
  const Model m = model();
  const Structure s = structure();
  for (const bool exact : {false, true}) {
    SCOPED_TRACE(exact ? "exact" : "tables");
    const EvaluatorOptions options = options_of(Precision::double_, exact);
    auto device = make_device_evaluator(m, options), host = make_kokkos_evaluator(m, options);
    const ImageStructure images = s.images(m.cutoff);
    expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), ROUNDING);
  }
}

TEST_P(DeviceModel, float32_agrees_with_float64) {
  const Model m = model();
  const ImageStructure images = structure().images(m.cutoff);
  auto reference = make_kokkos_evaluator(m, options_of(Precision::double_));
  const Evaluation expected = evaluate_whole(*reference, images);
  for (const Precision precision : {Precision::single, Precision::mixed}) {
    SCOPED_TRACE(precision == Precision::single ? "single" : "mixed");
    auto device = make_device_evaluator(m, options_of(precision));
    expect_same(evaluate_whole(*device, images), expected, FLOAT32);
  }
}

TEST_P(DeviceModel, repeats_bit_by_bit) {
  const Model m = model();
  const ImageStructure images = structure().images(m.cutoff);
  auto first = make_device_evaluator(m, options_of(Precision::mixed)),
       second = make_device_evaluator(m, options_of(Precision::mixed));
  const Evaluation a = evaluate_whole(*first, images), b = evaluate_whole(*first, images),
                   c = evaluate_whole(*second, images);
  for (const Evaluation *other : {&b, &c}) {
    EXPECT_EQ(a.energy, other->energy);
    EXPECT_EQ(a.virial, other->virial);
    EXPECT_EQ(a.forces, other->forces);
    EXPECT_EQ(a.atom_energy, other->atom_energy);
    EXPECT_EQ(a.atom_virial, other->atom_virial);
  }
}

TEST_P(DeviceModel, ranks_agree_with_one) {
  const Model m = model();
  const Structure s = structure();
  const ImageStructure images = s.images(m.cutoff);
  auto one = make_device_evaluator(m, options_of(Precision::double_));
  const Evaluation expected = evaluate_whole(*one, images);
  const bool exchanges = GetParam().options.hidden.size() > 1;
  const auto split = [&](bool mute_forward, bool mute_reverse) {
    std::vector<int> rank_of_atom;
    for (int i = 0; i < s.size(); ++i) rank_of_atom.push_back(i % 3 == 0 ? 0 : 2);    // rank 1 has no atoms
    const std::vector<RankPart> parts = split_structure(images, rank_of_atom, 3);
    RankGroup group(parts);
    group.mute_forward = mute_forward;
    group.mute_reverse = mute_reverse;
    std::vector<std::unique_ptr<Evaluator>> evaluators;
    for (int r = 0; r < 3; ++r) evaluators.push_back(make_device_evaluator(m, options_of(Precision::double_)));
    const Evaluation e = evaluate_ranks(evaluators, parts, s.size(), group);
    if (!mute_forward && !mute_reverse)
      for (const auto &error : e.errors)
        if (error) std::rethrow_exception(error);
    return e;
  };
  expect_same(split(false, false), expected, ROUNDING);
  // The comparison notices a broken exchange.
  if (!exchanges) return;
  EXPECT_GT(std::fabs(split(true, false).energy - expected.energy), 1e-6);
  const Evaluation muted = split(false, true);
  double difference = 0.0;
  for (int i = 0; i < s.size(); ++i)
    difference = std::max(difference, std::fabs(muted.forces[i][0] - expected.forces[i][0]));
  EXPECT_GT(difference, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(, DeviceModel, ::testing::ValuesIn(tiny_cases()),
                         [](const ::testing::TestParamInfo<TinyCase> &info) { return info.param.name; });

// More atoms than a chunk holds, a size that fills no chunk, and a second neighbourhood for the same evaluator.
TEST(DeviceModelRun, chunks_do_not_show) {
  TinyModelOptions tiny;
  tiny.per_species_linear = true;
  const Model m = make_tiny_model(tiny).model();
  for (const bool exact : {false, true}) {
    const EvaluatorOptions options = options_of(Precision::double_, exact);
    auto device = make_device_evaluator(m, options), host = make_kokkos_evaluator(m, options);
    for (const int side : {7, 3, 8}) {
      SCOPED_TRACE(side);
      const ImageStructure images = random_structure(2, side, 3).images(m.cutoff);
      expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), ROUNDING);
    }
    EXPECT_GT(device->memory_bytes(), 0u);
  }
}

TEST(DeviceModelRun, energy_alone_needs_no_forces) {
  const Model m = make_tiny_model().model();
  const ImageStructure images = random_structure(2, 2, 5).images(m.cutoff);
  auto device = make_device_evaluator(m, options_of(Precision::double_));
  const Evaluation all = evaluate_whole(*device, images);
  EvaluationRequest request;
  request.positions = reinterpret_cast<const double(*)[3]>(images.positions.data());
  NoExchange none;
  EXPECT_EQ(device->evaluate(request, none).energy, all.energy);
}

TEST(DeviceModelRun, isolated_atoms_and_no_atoms) {
  const Model m = make_tiny_model().model();
  const EvaluatorOptions options = options_of(Precision::double_);
  auto device = make_device_evaluator(m, options), host = make_kokkos_evaluator(m, options);
  Structure s;
  std::fill_n(s.periodic, 3, false);
  s.positions = {{0.0, 0.0, 0.0}, {100.0, 0.0, 0.0}};
  s.species = {0, 1};
  const ImageStructure apart = s.images(m.cutoff);
  expect_same(evaluate_whole(*device, apart), evaluate_whole(*host, apart), ROUNDING);

  Neighborhood nobody;
  nobody.first = {0};
  device->set_neighborhood(nobody);
  EvaluationRequest request;
  double none_at_all[1][3] = {};
  request.positions = none_at_all;
  request.forces = none_at_all;
  request.virial = true;
  NoExchange none;
  EXPECT_EQ(device->evaluate(request, none).energy, 0.0);
}

TEST(DeviceModelRun, coinciding_atoms_are_named) {
  const Model m = make_tiny_model().model();
  Structure s;
  std::fill_n(s.periodic, 3, false);
  s.positions = {{0.0, 0.0, 0.0}, {2.0, 0.0, 0.0}, {2.0, 0.0, 1e-5}};
  s.species = {0, 1, 0};
  auto device = make_device_evaluator(m, options_of(Precision::mixed));
  try {
    evaluate_whole(*device, s.images(m.cutoff));
    FAIL() << "no error";
  } catch (const EvaluationError &e) {
    EXPECT_EQ(std::min(e.atom_i, e.atom_j), 1);
    EXPECT_EQ(std::max(e.atom_i, e.atom_j), 2);
    EXPECT_NEAR(e.distance, 1e-5, 1e-12);
  }
}

// ---- models of the framework
// ------------------------------------------------------------------------------------------------

// The build converts models into EQUI_MODELS_DIR; the environment may name another folder. Subfolders count.
std::vector<std::string> model_files() {
  const char *named = std::getenv("EQUI_MODELS_DIR");
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(named ? named : EQUI_MODELS_DIR))
    if (entry.path().extension() == ".equi") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

double volume(const double c[3][3]) {
  return std::fabs(c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
                   c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
                   c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]));
}

void expect_reference(const Model &whole_model, const ReferenceStructure &r, Precision precision) {
  std::vector<std::string> symbols;
  for (const std::string &s : r.symbols)
    if (std::find(symbols.begin(), symbols.end(), s) == symbols.end()) symbols.push_back(s);
  const Model model = whole_model.restricted_to(symbols);
  std::vector<int> species;
  for (const std::string &s : r.symbols) species.push_back(model.species(s));
  auto device = make_device_evaluator(model, options_of(precision));
  const Evaluation e =
      evaluate_whole(*device, build_image_structure(r.positions, species, r.cell, r.periodic, model.cutoff));

  const bool exact = precision == Precision::double_;
  double largest = 1.0;
  for (const auto &f : r.forces)
    for (const double c : f) largest = std::max(largest, std::fabs(c));
  EXPECT_NEAR(e.energy, r.energy,
              static_cast<double>(r.symbols.size()) * (exact ? ENERGY_PER_ATOM : MIXED_ENERGY_PER_ATOM));
  ASSERT_EQ(e.forces.size(), r.forces.size());
  for (size_t i = 0; i < r.forces.size(); ++i)
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(e.forces[i][k], r.forces[i][k], largest * (exact ? FORCE : MIXED_FORCE)) << "atom " << i;
  if (!r.has_stress) return;
  constexpr int ASE_ORDER[6] = {0, 1, 2, 5, 4, 3};    // of xx,yy,zz,xy,xz,yz
  for (int k = 0; k < 6; ++k)
    EXPECT_NEAR(-e.virial[k] / volume(r.cell), r.stress[ASE_ORDER[k]], largest * (exact ? STRESS : MIXED_STRESS))
        << "stress " << k;
}

TEST(DeviceModelReference, stored_structures) {
  const std::vector<std::string> files = model_files();
  ASSERT_FALSE(files.empty());
  for (const std::string &file : files) {
    SCOPED_TRACE(file);
    const Model model = read_model(file);
    ASSERT_FALSE(model.self_check.empty());
    for (const ReferenceStructure &r : model.self_check) {
      SCOPED_TRACE(r.name);
      for (const Precision precision : {Precision::mixed, Precision::double_}) expect_reference(model, r, precision);
    }
  }
}

}    // namespace
