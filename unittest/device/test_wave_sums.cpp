// SPDX-License-Identifier: MIT
// Sums of multipoles over wave vectors on a device, compared with those of a host.
#include "kokkos/wave_sums/wave_sums.h"
#include "unittest/support/plain_waves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// The same sums in another order, in float64, relative to the largest number of their kind.
constexpr double SUM_ORDER = 1e-12;

constexpr CellMatrix TRICLINIC = {{{7.1, 0.2, -0.3}, {1.4, 6.3, 0.5}, {-0.8, 1.1, 8.2}}};

// The multipoles of a sum.
struct Shape {
  const char *name;
  int channels;
  bool has_dipoles, has_gradients;
  std::vector<double> widths;
};
const Shape SHAPES[] = {{"charges", 1, false, false, {0.0}},
                        {"dipoles", 1, true, true, {0.0}},
                        {"potentials", 2, false, false, {0.7, 1.3}},
                        {"fields", 2, false, true, {0.9}},
                        {"potentials of dipoles", 1, true, false, {0.7, 1.3, 1.9}},
                        {"fields of dipoles", 3, true, true, {0.7, 1.1}}};

template <class D>
struct Results {
  std::vector<D> probe_fields, source_fields, gradient, strain, half_gradient, half_strain;
  std::vector<double> atom_strains, half_atom_strains;
  double total_charge, num_atoms;
};

template <class D>
struct SumCase {
  SumCase(const Shape &shape, const CellMatrix &cell, int count, double cutoff)
      : shape(shape), cell(cell), cutoff(cutoff), positions(count) {
    std::mt19937 random(count);
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    const auto number = [&] { return make_number<D>(uniform(random), uniform(random)); };
    for (auto &v : direction)
      for (double &x : v) x = 0.1 * uniform(random);
    for (auto &position : positions)
      for (int a = 0; a < 3; ++a) {
        double x = 0.0;
        for (int d = 0; d < 3; ++d) x += uniform(random) * cell[d][a];
        position[a] = make_number<D>(x, uniform(random));
      }
    const int columns = shape.channels * static_cast<int>(shape.widths.size());
    sources.resize(static_cast<size_t>(count) * shape.channels * (shape.has_dipoles ? 4 : 1));
    probes.resize(static_cast<size_t>(count) * columns * (shape.has_gradients ? 4 : 1));
    for (D &x : sources) x = number();
    for (D &x : probes) x = number();
  }
  MultipoleFunction function() const { return {180.95, 0.9, shape.widths}; }
  int count() const { return static_cast<int>(positions.size()); }
  // Whether the interaction of the sources with themselves has a meaning.
  bool has_half() const { return shape.widths.size() == 1 && shape.has_dipoles == shape.has_gradients; }

  Results<D> on_host() const {
    const WaveVectors waves(cell, cutoff);
    PlainMultipoles<D> sum =
        plain_multipoles<D>(function(), shape.channels, shape.has_dipoles, shape.has_gradients, waves, &direction);
    const PlainSystem<D> system(positions), of_half(positions);
    NoExchange alone;
    Results<D> r;
    r.probe_fields.resize(count() * sum.num_columns() * sum.probe_stride());
    r.source_fields.resize(count() * shape.channels * sum.source_stride());
    sum.evaluate({}, system, count(), sources.data(), r.probe_fields.data(), alone);
    if (has_half()) sum.add_half({}, of_half, count(), sources.data(), r.probe_fields.data());
    sum.evaluate_adjoint({}, system, count(), sources.data(), r.probe_fields.data(), probes.data(),
                         r.source_fields.data(), alone);
    r.gradient = system.gradient;
    r.strain.assign(system.strain.begin(), system.strain.end());
    r.atom_strains = system.atom_strains;
    r.half_gradient = of_half.gradient;
    r.half_strain.assign(of_half.strain.begin(), of_half.strain.end());
    r.half_atom_strains = of_half.atom_strains;
    r.total_charge = sum.total_charge();
    r.num_atoms = sum.num_atoms();
    return r;
  }

  const Shape shape;
  const CellMatrix cell;
  const double cutoff;
  CellMatrix direction;
  std::vector<std::array<D, 3>> positions;
  std::vector<D> sources, probes;
};

// A sum on a device for the cases of a shape, one after the other. Its memory is reused.
template <class D>
class DeviceSumOf {
 public:
  DeviceSumOf(const Shape &shape, double cutoff)
      : waves_(std::make_shared<DeviceWaves<D>>(SystemWaves(cutoff, 1.0, "sphere", WaveVectorSet::of_file))),
        sum_({180.95, 0.9, shape.widths}, shape.channels, shape.has_dipoles, shape.has_gradients, waves_, true) {}

  Results<D> evaluate(const SumCase<D> &c) {
    const DeviceExec exec;
    const int count = c.count();
    // Atoms of the sum are every second one of all.
    std::vector<int> receiver(count);
    std::vector<double> all(6 * count), moved(6 * count);
    for (int i = 0; i < count; ++i) {
      receiver[i] = 2 * i + 1;
      for (int a = 0; a < 3; ++a) {
        all[3 * receiver[i] + a] = value_of(c.positions[i][a]);
        moved[3 * receiver[i] + a] = tangent_of(c.positions[i][a]);
      }
    }
    DeviceBuffer<int> d_receiver;
    DeviceBuffer<double> d_positions, d_direction;
    DeviceBuffer<D> sources, probes, probe_fields, source_fields;
    assign(exec, d_receiver, receiver);
    assign(exec, d_positions, all);
    assign(exec, d_direction, moved);
    assign(exec, sources, c.sources);
    assign(exec, probes, c.probes);
    Results<D> r;
    r.probe_fields.resize(count * sum_.num_columns() * sum_.probe_stride());
    r.source_fields.resize(count * c.shape.channels * sum_.source_stride());
    probe_fields.reserve(r.probe_fields.size());
    source_fields.reserve(r.source_fields.size());
    double direction[3][3];
    for (int k = 0; k < 3; ++k) std::copy_n(c.direction[k].data(), 3, direction[k]);
    ++step_;
    NoExchange alone;
    // Adds what f does to results that are 0.
    const auto add = [&](std::vector<D> &gradient, std::vector<D> &strain, std::vector<double> &atom_strains,
                         const auto &f) {
      DeviceBuffer<D> d_gradient, d_virial;
      DeviceBuffer<double> d_atom_virial;
      assign(exec, d_gradient, std::vector<D>(3 * count, D(0.0)));
      assign(exec, d_virial, std::vector<D>(SYMMETRIC, D(0.0)));
      assign(exec, d_atom_virial, std::vector<double>(SYMMETRIC * count, 0.0));
      const DeviceDirections directions{IS_DUAL<D> ? d_direction.data() : nullptr, 1, 2 * count};
      const PeriodicBox box{{true, true, true}, c.cell};
      f(DeviceSystem<D>{step_, box, direction, d_positions.data(), directions, nullptr, d_receiver.data(),
                        d_gradient.data(), d_virial.data(), d_atom_virial.data()});
      gradient.resize(3 * count);
      strain.resize(SYMMETRIC);
      atom_strains.resize(SYMMETRIC * count);
      copy_to_host(exec, gradient.data(), static_cast<const D *>(d_gradient.data()), 3 * count);
      copy_to_host(exec, strain.data(), static_cast<const D *>(d_virial.data()), SYMMETRIC);
      copy_to_host(exec, atom_strains.data(), static_cast<const double *>(d_atom_virial.data()), SYMMETRIC * count);
      for (D &x : strain) x = -x;
      for (double &x : atom_strains) x = -x;
    };
    add(r.half_gradient, r.half_strain, r.half_atom_strains, [&](const DeviceSystem<D> &system) {
      sum_.evaluate(exec, system, count, sources.data(), probe_fields.data(), alone);
      if (c.has_half()) sum_.add_half(exec, system, count, sources.data(), probe_fields.data());
    });
    add(r.gradient, r.strain, r.atom_strains, [&](const DeviceSystem<D> &system) {
      sum_.evaluate_adjoint(exec, system, count, sources.data(), probe_fields.data(), probes.data(),
                            source_fields.data(), alone);
    });
    copy_to_host(exec, r.probe_fields.data(), static_cast<const D *>(probe_fields.data()), r.probe_fields.size());
    copy_to_host(exec, r.source_fields.data(), static_cast<const D *>(source_fields.data()), r.source_fields.size());
    r.total_charge = sum_.total_charge();
    r.num_atoms = sum_.num_atoms();
    return r;
  }
  const SystemMultipoles<DeviceWaves<D>> &sum() const { return sum_; }

 private:
  std::shared_ptr<DeviceWaves<D>> waves_;
  SystemMultipoles<DeviceWaves<D>> sum_;
  int64_t step_ = 0;
};

// The largest difference relative to the largest of the expected numbers, or to 1: the force on a lone atom is
// rounding.
template <class V>
void expect_near(const V &found, const V &expected, const std::string &what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double errors[2] = {}, largest[2] = {1.0, 1.0};
  for (size_t k = 0; k < found.size(); ++k) {
    const auto compare = [&](int plane, double a, double b) {
      if (!(std::fabs(a - b) <= errors[plane])) errors[plane] = std::fabs(a - b);    // also NaN
      largest[plane] = std::max(largest[plane], std::fabs(b));
    };
    compare(0, value_of(found[k]), value_of(expected[k]));
    compare(1, tangent_of(found[k]), tangent_of(expected[k]));
  }
  for (int plane = 0; plane < 2; ++plane) EXPECT_LE(errors[plane], SUM_ORDER * largest[plane]) << what << plane;
}

template <class D>
void expect_same_results(const Results<D> &a, const Results<D> &b, const std::string &what) {
  expect_near(a.probe_fields, b.probe_fields, what + ", fields of probes ");
  expect_near(a.source_fields, b.source_fields, what + ", fields of sources ");
  expect_near(a.gradient, b.gradient, what + ", gradient ");
  expect_near(a.strain, b.strain, what + ", strain ");
  expect_near(a.atom_strains, b.atom_strains, what + ", strains of atoms ");
  expect_near(a.half_gradient, b.half_gradient, what + ", gradient of half ");
  expect_near(a.half_strain, b.half_strain, what + ", strain of half ");
  expect_near(a.half_atom_strains, b.half_atom_strains, what + ", strains of atoms of half ");
  EXPECT_NEAR(a.total_charge, b.total_charge, SUM_ORDER * 100) << what;
  EXPECT_EQ(a.num_atoms, b.num_atoms) << what;
}

// Numbers of atoms around those of a block and of a chunk; cells with few, with many and without wave vectors.
template <class D>
void expect_sums_of_the_host() {
  const CellMatrix cells[] = {TRICLINIC,
                              {{{4.0, 0.0, 0.0}, {0.0, 4.0, 0.0}, {0.0, 0.0, 60.0}}},
                              {{{60.0, 0.0, 0.0}, {1.0, 4.0, 0.0}, {0.0, 2.0, 4.0}}},
                              {{{1.5, 0.0, 0.0}, {0.0, 1.6, 0.0}, {0.0, 0.0, 1.7}}}};
  for (const Shape &shape : SHAPES) {
    DeviceSumOf<D> device(shape, 2.6);
    for (const CellMatrix &cell : cells)
      for (const int count : {0, 1, 5, 13, 32, 33, 130}) {
        const SumCase<D> c(shape, cell, count, 2.6);
        expect_same_results(device.evaluate(c), c.on_host(), shape.name + (", " + std::to_string(count)) + " atoms");
      }
  }
}

TEST(DeviceWaveSums, are_those_of_the_host) {
  expect_sums_of_the_host<double>();
}
TEST(DeviceWaveSums, of_duals_are_those_of_the_host) {
  expect_sums_of_the_host<Dual<double>>();
}

TEST(DeviceWaveSums, repeat_to_the_last_bit) {
  for (const Shape &shape : SHAPES) {
    const SumCase<double> c(shape, TRICLINIC, 77, 4.0), other(shape, TRICLINIC, 150, 4.0);
    DeviceSumOf<double> sum(shape, 4.0);
    const Results<double> first = sum.evaluate(c);
    sum.evaluate(other);
    const Results<double> again = sum.evaluate(c);
    EXPECT_EQ(first.probe_fields, again.probe_fields) << shape.name;
    EXPECT_EQ(first.source_fields, again.source_fields) << shape.name;
    EXPECT_EQ(first.gradient, again.gradient) << shape.name;
    EXPECT_EQ(first.strain, again.strain) << shape.name;
    EXPECT_EQ(first.atom_strains, again.atom_strains) << shape.name;
  }
}

// The bound of the memory is not far above what is used.
TEST(DeviceWaveSums, use_no_more_memory_than_planned) {
  for (const Shape &shape : SHAPES)
    for (const double cutoff : {2.0, 4.0, 6.0})
      for (const int count : {1, 100, 700}) {
        DeviceSumOf<double> sum(shape, cutoff);
        const auto planned = sum.sum().additional_bytes(TRICLINIC, count);
        sum.evaluate(SumCase<double>(shape, TRICLINIC, count, cutoff));
        EXPECT_GE(planned, 0.98 * bytes_of(sum.sum())) << shape.name << ", " << cutoff << ", " << count;
        EXPECT_LE(planned, 4.0 * bytes_of(sum.sum())) << shape.name << ", " << cutoff << ", " << count;
      }
}

}    // namespace
