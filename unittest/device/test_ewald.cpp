// SPDX-License-Identifier: MIT
// Ewald sums on a device: the sum itself, compared with that of hosts, and the layer in evaluations, compared with
// HostEvaluation and with differences. core/test_ewald_sum.cpp and test_ewald.cpp of the level `model` compare those of
// hosts with sums of point charges, LibTorch and differences.
#include "kokkos/evaluation/device_evaluation.h"
#include "kokkos/layers/ewald/device_ewald_sum.h"
#include "src/evaluation/committee.h"
#include "src/evaluation/native_evaluators.h"
#include "src/functions/ewald_sum.h"
#include "unittest/support/device_directional.h"
#include "unittest/support/evaluator_laws.h"
#include "unittest/support/strain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr Closeness SUM_ORDER = {0.0, 1e-12};
constexpr double TANGENT_ORDER = 1e-11;
// In float32 through a few layers.
constexpr Closeness FLOAT32 = {0.0, 3e-5};
// The best of central differences with several steps, relative to the largest number of a kind.
constexpr double DIFFERENCES = 2e-7;

// ---- the sum
// Largest difference relative to the largest of the expected numbers, or to 1: the force on a lone atom is rounding.
template <class Number>
double relative_error(int64_t n, const Number &found, const Number &expected) {
  double error = 0.0, largest = 1.0;
  for (int64_t k = 0; k < n; ++k) {
    const double difference = std::fabs(found(k) - expected(k));
    if (!(difference <= error)) error = difference;    // also NaN
    largest = std::max(largest, std::fabs(expected(k)));
  }
  return error / largest;
}

template <class D>
struct SumResults {
  std::vector<D> factors;    // real and imaginary parts, in turn
  std::vector<EwaldAtom<D>> atoms;
  std::vector<D> strain;
  std::vector<double> atom_strain;
};

template <class D>
struct SumCase {
  SumCase(const CellMatrix &cell, int count, double cutoff) : waves(cell, cutoff), positions(count), charges(count) {
    std::mt19937 random(count);
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    for (auto &v : direction)
      for (double &x : v) x = 0.1 * uniform(random);
    for (int i = 0; i < count; ++i) {
      for (int a = 0; a < 3; ++a) {
        double x = 0.0;
        for (int d = 0; d < 3; ++d) x += uniform(random) * cell[d][a];
        positions[i][a] = make_number<D>(x, uniform(random));
      }
      charges[i] = make_number<D>(uniform(random), uniform(random));
    }
  }
  SumResults<D> on_host() const {
    const int64_t count = static_cast<int64_t>(charges.size()), size = waves.size();
    EwaldSum<D> sum(FUNCTION, waves, &direction);
    std::vector<D> planes(2 * size);
    SumResults<D> r;
    r.atoms.resize(count);
    sum.add_up(count, positions.data(), charges.data(), planes.data());
    sum.gather(planes.data(), charges.data(), r.atoms.data());
    for (int64_t k = 0; k < size; ++k) {
      r.factors.push_back(planes[k]);
      r.factors.push_back(planes[size + k]);
    }
    const auto total = sum.total(planes.data());
    r.strain.assign(total.strain.begin(), total.strain.end());
    std::vector<double> values;
    for (const D &q : charges) values.push_back(value_of(q));
    std::vector<std::array<double, 6>> strain(count);
    sum.gather_strain(0, count, values.data(), strain.data());
    for (const auto &s : strain) r.atom_strain.insert(r.atom_strain.end(), s.begin(), s.end());
    return r;
  }
  SumResults<D> on_device(DeviceEwaldSum<D> &sum) const {
    const DeviceExec exec;
    const int count = static_cast<int>(charges.size());
    // Atoms of the sum are every second one of all.
    std::vector<int> receiver(count);
    std::vector<double> all(6 * count), moved(6 * count);
    for (int i = 0; i < count; ++i) {
      receiver[i] = 2 * i + 1;
      for (int a = 0; a < 3; ++a) {
        all[3 * receiver[i] + a] = value_of(positions[i][a]);
        moved[3 * receiver[i] + a] = tangent_of(positions[i][a]);
      }
    }
    DeviceBuffer<int> d_receiver;
    DeviceBuffer<double> d_positions, d_direction, d_atom_strain;
    DeviceBuffer<D> d_charges, d_strain;
    DeviceBuffer<EwaldNumber<D>> d_factors;
    DeviceBuffer<EwaldAtom<D>> d_atoms;
    assign(exec, d_receiver, receiver);
    assign(exec, d_positions, all);
    assign(exec, d_direction, moved);
    assign(exec, d_charges, charges);
    assign(exec, d_strain, std::vector<D>(6, D(0.0)));
    assign(exec, d_atom_strain, std::vector<double>(6 * count, 0.0));
    sum.set_integers(exec, waves);
    sum.set_cell(exec, EwaldCell<D>(FUNCTION, waves, &direction));
    EwaldNumber<D> *factors = d_factors.reserve(waves.size());
    EwaldAtom<D> *atoms = d_atoms.reserve(count);
    sum.tabulate(exec, count, d_receiver.data(), d_positions.data(), IS_DUAL<D> ? d_direction.data() : nullptr);
    sum.add_up(exec, count, d_charges.data(), factors);
    sum.gather(exec, count, d_charges.data(), factors, atoms);
    sum.subtract_total_strain(exec, -1.0, factors, d_strain.data());
    sum.subtract_strain(exec, count, d_charges.data(), d_atom_strain.data());
    SumResults<D> r;
    r.factors.resize(2 * waves.size());
    r.atoms.resize(count);
    r.strain.resize(6);
    r.atom_strain.resize(6 * count);
    copy_to_host(exec, r.factors.data(), reinterpret_cast<const D *>(factors), 2 * waves.size());
    copy_to_host(exec, r.atoms.data(), static_cast<const EwaldAtom<D> *>(atoms), count);
    copy_to_host(exec, r.strain.data(), static_cast<const D *>(d_strain.data()), 6);
    copy_to_host(exec, r.atom_strain.data(), static_cast<const double *>(d_atom_strain.data()), 6 * count);
    for (double &s : r.atom_strain) s = -s;
    return r;
  }

  static constexpr EwaldFunction FUNCTION{0.9, 180.95, true};
  const WaveVectors waves;
  CellMatrix direction;
  std::vector<std::array<D, 3>> positions;
  std::vector<D> charges;
};

template <class D>
void expect_same_results(const SumResults<D> &found, const SumResults<D> &expected, const std::string &what) {
  const auto compare = [&](const char *kind, const auto &a, const auto &b, int64_t n, const auto &of) {
    for (const bool is_tangent : {false, true}) {
      const auto number = [&](const auto &numbers) {
        return std::function<double(int64_t)>([&, is_tangent](int64_t k) {
          const D x = of(numbers, k);
          return is_tangent ? tangent_of(x) : value_of(x);
        });
      };
      EXPECT_LE(relative_error(n, number(a), number(b)), 1e-12) << what << ", " << kind << (is_tangent ? "'" : "");
    }
  };
  const auto itself = [](const auto &numbers, int64_t k) { return D(numbers[k]); };
  compare("structure factors", found.factors, expected.factors, expected.factors.size(), itself);
  compare("strain", found.strain, expected.strain, 6, itself);
  compare("strain of atoms", found.atom_strain, expected.atom_strain, expected.atom_strain.size(), itself);
  const int64_t count = static_cast<int64_t>(expected.atoms.size());
  compare("potential", found.atoms, expected.atoms, count,
          [](const auto &atoms, int64_t k) { return atoms[k].potential; });
  compare("gradient", found.atoms, expected.atoms, 3 * count,
          [](const auto &atoms, int64_t k) { return atoms[k / 3].gradient[k % 3]; });
}

constexpr CellMatrix TRICLINIC = {{{7.1, 0.2, -0.3}, {1.4, 6.3, 0.5}, {-0.8, 1.1, 8.2}}};

// Numbers of atoms around those of a block and of a chunk; cells with few, with many and without wave vectors.
template <class D>
void expect_sums_of_the_host() {
  const CellMatrix cells[] = {TRICLINIC,
                              {{{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 60.0}}},
                              {{{60.0, 0.0, 0.0}, {1.0, 4.0, 0.0}, {0.0, 2.0, 4.0}}},
                              {{{1.5, 0.0, 0.0}, {0.0, 1.6, 0.0}, {0.0, 0.0, 1.7}}}};
  DeviceEwaldSum<D> sum;    // whose memory is reused
  for (const CellMatrix &cell : cells)
    for (const int count : {0, 1, 5, 13, 32, 33, 130}) {
      const SumCase<D> c(cell, count, 3.1);
      expect_same_results(c.on_device(sum), c.on_host(), std::to_string(count) + " atoms");
    }
}

TEST(DeviceEwaldSums, are_those_of_the_host) {
  expect_sums_of_the_host<double>();
}
TEST(DeviceEwaldSums, of_duals_are_those_of_the_host) {
  expect_sums_of_the_host<Dual<double>>();
}

TEST(DeviceEwaldSums, repeat_to_the_last_bit) {
  const SumCase<double> c(TRICLINIC, 77, 4.0), other(TRICLINIC, 150, 5.0);
  DeviceEwaldSum<double> sum;
  const SumResults<double> first = c.on_device(sum);
  other.on_device(sum);
  const SumResults<double> again = c.on_device(sum);
  EXPECT_EQ(first.factors, again.factors);
  EXPECT_EQ(first.strain, again.strain);
  EXPECT_EQ(first.atom_strain, again.atom_strain);
  for (size_t i = 0; i < first.atoms.size(); ++i) {
    EXPECT_EQ(first.atoms[i].potential, again.atoms[i].potential);
    for (int a = 0; a < 3; ++a) EXPECT_EQ(first.atoms[i].gradient[a], again.atoms[i].gradient[a]);
  }
}

// The bound of the memory is not far above what is used.
TEST(DeviceEwaldSums, use_no_more_memory_than_planned) {
  for (const double cutoff : {2.0, 4.0, 7.0})
    for (const int count : {1, 100, 700}) {
      const SumCase<double> c(TRICLINIC, count, cutoff);
      DeviceEwaldSum<double> sum;
      c.on_device(sum);
      const auto planned = DeviceEwaldSum<double>::bytes_for(WaveVectors::extent(TRICLINIC, cutoff), count);
      EXPECT_GE(planned, 0.98 * sum.bytes()) << cutoff << ", " << count;
      EXPECT_LE(planned, 4.0 * sum.bytes()) << cutoff << ", " << count;
    }
}

// ---- the layer
EvaluatorOptions plain(Precision precision = Precision::double_) {
  EvaluatorOptions options = directional(precision, true);
  options.directional = false;
  return options;
}

class DeviceEwaldLayer : public OfDirection {
 protected:
  void expect_tangents(const Evaluation &device, const Evaluation &host) const {
    const double largest = largest_force(host.force_tangents);
    EXPECT_LT(largest_difference(device.force_tangents, host.force_tangents), TANGENT_ORDER * largest);
    for (int k = 0; k < 6; ++k)
      EXPECT_NEAR(device.virial_tangent[k], host.virial_tangent[k],
                  TANGENT_ORDER * structure.size() * model.cutoff * largest);
    EXPECT_NEAR(device.energy_tangent, host.energy_tangent,
                TANGENT_ORDER * structure.size() * (1.0 + largest_force(host.forces)));
  }
};

TEST_P(DeviceEwaldLayer, agrees_with_the_host_kernels) {
  const Evaluation host = evaluate_whole(*make_host_evaluator(model, plain()), images);
  const auto device = make_device_evaluator(model, plain());
  for (const char *step : {"first", "recorded", "replayed"})
    expect_same(evaluate_whole(*device, images), host, SUM_ORDER, step);
  expect_same(evaluate_whole(*make_device_evaluator(model, plain(Precision::mixed)), images), host, FLOAT32, "mixed");
}

TEST_P(DeviceEwaldLayer, second_derivatives_agree_with_the_host_kernels) {
  const EvaluatorOptions options = directional(Precision::double_, true);
  const auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
  const Evaluation expected = evaluate_whole(*host, images, &direction);
  const Evaluation found = evaluate_whole(*device, images, &direction);
  expect_same(found, expected, SUM_ORDER, "along a direction");
  expect_tangents(found, expected);
  expect_tangents(evaluate_along_strain(*device, images, structure), evaluate_along_strain(*host, images, structure));
  const Evaluation mixed =
      evaluate_whole(*make_device_evaluator(model, directional(Precision::mixed)), images, &direction);
  EXPECT_LT(largest_difference(mixed.force_tangents, expected.force_tangents),
            FLOAT32_NETWORK * std::max(1.0, largest_force(expected.force_tangents)));
}

TEST_P(DeviceEwaldLayer, ranks_agree_with_one_and_need_the_sum) {
  const EvaluatorOptions options = directional(Precision::double_, true);
  const Evaluation whole = evaluate_whole(*make_device_evaluator(model, options), images, &direction);
  for_splits(options, Wanted::all, [&](const Evaluation &e, int num_ranks, RankGroup &) {
    expect_same(e, whole, {1e-11, 1e-12}, std::to_string(num_ranks) + " ranks");
    expect_tangents(e, whole);
  });
  const std::vector<RankPart> parts = split_structure(images, {0, 1, 0, 1, 1, 0, 1, 0}, 2);
  std::vector<std::unique_ptr<Evaluator>> evaluators;
  for (int r = 0; r < 2; ++r) evaluators.push_back(make_device_evaluator(model, options));
  RankGroup muted(parts);
  muted.mute_sum = true;
  EXPECT_GT(std::fabs(evaluate_ranks(evaluators, parts, structure.size(), muted).energy - whole.energy), NOTICEABLE);
}

// The number of wave vectors changes while layers are replayed. In `frozen` only the cell changes.
TEST_P(DeviceEwaldLayer, follows_the_cell_from_step_to_step) {
  for (const WaveVectorSet set : {WaveVectorSet::of_file, WaveVectorSet::frozen}) {
    EvaluatorOptions options = plain();
    options.wave_vectors = set;
    const auto device = make_device_evaluator(model, options), host = make_host_evaluator(model, options);
    for (const double by : {0.0, 0.0, 0.1, -0.1, 0.2, 0.2, 0.0}) {
      const ImageStructure moved = strained(structure, by).images(model.reach());
      expect_same(evaluate_whole(*device, moved), evaluate_whole(*host, moved), SUM_ORDER, std::to_string(by));
    }
    // The same list with another cell.
    ImageStructure wide = structure.images(1.2 * model.reach());
    device->set_neighborhood(wide.neighborhood);
    host->set_neighborhood(wide.neighborhood);
    for (const double scale : {1.0, 1.02, 0.97, 1.1, 1.0}) {
      ImageStructure scaled = wide;
      for (Vector3 &r : scaled.positions)
        for (double &x : r) x *= scale;
      for (int k = 0; k < 3; ++k)
        for (int a = 0; a < 3; ++a) wide.neighborhood.cell[k][a] = scale * structure.cell[k][a];
      expect_same(evaluate_in_last_neighborhood(*device, scaled), evaluate_in_last_neighborhood(*host, scaled),
                  SUM_ORDER, "scale " + std::to_string(scale));
    }
  }
}

// The best of central differences of fourth order with several steps.
double best_difference(const std::function<double(double)> &energy, double expected) {
  double best = INFINITY;
  for (const double h : {4e-3, 2e-3}) {
    const double slope = (8 * (energy(0.5 * h) - energy(-0.5 * h)) - (energy(h) - energy(-h))) / (6 * h);
    best = std::min(best, std::fabs(slope - expected));
  }
  return best;
}

TEST_P(DeviceEwaldLayer, forces_and_virials_are_derivatives_of_the_energy) {
  EvaluatorOptions options = plain();
  options.wave_vectors = WaveVectorSet::frozen;
  const auto device = make_device_evaluator(model, options);
  const Evaluation e = evaluate_whole(*device, images);
  const auto by_direction = [&](double h) {
    Structure s = structure;
    for (int i = 0; i < s.size(); ++i)
      for (int a = 0; a < 3; ++a) s.positions[i][a] += h * direction[i][a];
    return energy_of(*device, s, model.reach());
  };
  double work = 0.0, of_strain = 0.0, size = structure.size() * std::max(1.0, largest_force(e.forces));
  for (int i = 0; i < structure.size(); ++i)
    for (int a = 0; a < 3; ++a) work -= e.forces[i][a] * direction[i][a];
  EXPECT_LE(best_difference(by_direction, work), DIFFERENCES * size);
  constexpr int FIRST[6] = {0, 1, 2, 0, 0, 1}, SECOND[6] = {0, 1, 2, 1, 2, 2};
  for (int c = 0; c < 6; ++c) {
    of_strain -= (c < 3 ? 1.0 : 2.0) * STRAIN[FIRST[c]][SECOND[c]] * e.virial[c];
    size = std::max(size, std::fabs(e.virial[c]));
  }
  const auto by_strain = [&](double h) { return energy_of(*device, strained(structure, h), model.reach()); };
  EXPECT_LE(best_difference(by_strain, of_strain), DIFFERENCES * size);
}

INSTANTIATE_TEST_SUITE_P(, DeviceEwaldLayer, ::testing::ValuesIn(ewald_cases()),
                         [](const auto &info) { return info.param.name; });

TEST(DeviceEwald, of_other_numbers_of_atoms_agrees_with_the_host) {
  const Model model = ewald_cases()[0].model();
  const auto device = make_device_evaluator(model, plain()), host = make_host_evaluator(model, plain());
  const auto compare = [&](const Structure &s, const std::string &what) {
    const ImageStructure images = s.images(model.reach());
    expect_same(evaluate_whole(*device, images), evaluate_whole(*host, images), SUM_ORDER, what);
  };
  for (const int side : {3, 1, 4}) compare(random_structure(model.num_species(), 3, side), std::to_string(side));
  Structure tall;
  for (int i = 0; i < 5; ++i) {
    tall.positions.push_back({0.3 * i, 1.9 * (i % 2), 2.3 * i});
    tall.species.push_back(i % model.num_species());
  }
  const double cell[3][3] = {{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 100.0}};
  for (int k = 0; k < 3; ++k) std::copy_n(cell[k], 3, tall.cell[k]);
  compare(tall, "tall");
  tall.positions.resize(1);
  tall.species.resize(1);
  compare(tall, "one atom");
  tall.positions.clear();
  tall.species.clear();
  compare(tall, "no atoms");
}

TEST(DeviceEwald, recorded_steps_change_no_bit) {
  const Model model = ewald_cases()[0].model();
  EvaluatorOptions options = plain(Precision::mixed);
  DeviceEvaluation<float> recorded(model, options);
  options.graphs = false;
  DeviceEvaluation<float> counted(model, options);
  const ImageStructure images = random_structure(model.num_species(), 7).images(model.reach());
  recorded.set_neighborhood(images.neighborhood);
  counted.set_neighborhood(images.neighborhood);
  for (const double by : {0.0, 1e-3, 2e-3, 3e-3}) {
    ImageStructure moved = images;
    for (Vector3 &r : moved.positions) r[0] += by;
    expect_same(evaluate_in_last_neighborhood(recorded, moved), evaluate_in_last_neighborhood(counted, moved), {0.0},
                std::to_string(by));
  }
}

TEST(DeviceEwald, committees_have_the_mean) {
  std::vector<std::unique_ptr<Evaluator>> on_device, on_host;
  const std::vector<TinyCase> cases = ewald_cases();
  for (const int n : {0, 3}) {
    on_device.push_back(make_device_evaluator(cases[n].model(), plain()));
    on_host.push_back(make_host_evaluator(cases[n].model(), plain()));
  }
  Committee host(std::move(on_host));
  const auto device = make_device_committee(std::move(on_device));
  const Model model = cases[0].model(), other = cases[3].model();
  const ImageStructure images = random_structure(2, 7).images(std::max(model.reach(), other.reach()));
  expect_same(evaluate_whole(*device, images), evaluate_whole(host, images), ROUNDING, "mean");
}

// What a first evaluation is known to need includes the tables.
TEST(DeviceEwald, memory_is_planned_for_the_tables) {
  TinyCase with = ewald_cases()[0], without = with;
  without.options.ewald_width = 0.0;
  const ImageStructure images = random_structure(2, 3, 5).images(with.model().reach());
  for (const bool is_host : {true, false}) {
    const auto make = [&](const TinyCase &c, double limit) {
      EvaluatorOptions options = plain();
      options.memory_limit = limit;
      return is_host ? make_host_evaluator(c.model(), options) : make_device_evaluator(c.model(), options);
    };
    const auto used = [&](const TinyCase &c) {
      const auto evaluator = make(c, 0.0);
      evaluate_whole(*evaluator, images);
      return static_cast<double>(evaluator->memory_bytes());
    };
    const auto planned = [&](const TinyCase &c) {
      try {
        evaluate_whole(*make(c, 1.0), images);
      } catch (const MemoryLimitError &e) {
        return e.bytes;
      }
      return 0.0;
    };
    const double more = used(with) - used(without);
    EXPECT_GT(more, 125 * 2 * 16 * 20);
    EXPECT_GE(planned(with) - planned(without), 0.9 * more) << is_host;
    EXPECT_LE(planned(with) - planned(without), 3.0 * more) << is_host;
  }
}

TEST(DeviceEwald, needs_a_cell_and_states_what_it_found) {
  const Model model = ewald_cases()[0].model();
  const auto evaluator = make_device_evaluator(model, plain());
  Structure open = random_structure(model.num_species(), 7);
  EXPECT_EQ(evaluator->describe_system(), "");
  open.periodic[1] = false;
  EXPECT_THROW(energy_of(*evaluator, open, model.reach()), EvaluationError);
  energy_of(*evaluator, random_structure(model.num_species(), 7), model.reach());
  const std::string lines = evaluator->describe_system();
  for (const char *part : {"wave vectors within 3.3/Angstrom", "kspace", "MB per rank", "WARNING", "background"})
    EXPECT_NE(lines.find(part), std::string::npos) << part << " in " << lines;
}

TEST(DeviceEwald, charges_that_are_not_finite_are_an_error) {
  Model model = ewald_cases()[0].model();
  for (Layer &layer : model.layers)
    if (auto *ewald = std::get_if<Ewald>(&layer)) ewald->weights[0] = NAN;
  EXPECT_THROW(energy_of(*make_device_evaluator(model, plain()), random_structure(2, 7), model.reach()),
               EvaluationError);
}

}    // namespace
