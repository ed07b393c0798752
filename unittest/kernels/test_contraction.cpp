// SPDX-License-Identifier: MIT
// Symmetric contractions on rows, generic and generated, compared with the double loops of ContractionProduct.
#include "kokkos/kernel_libraries/kernel_library.h"
#include "kokkos/layers/contraction/host_contraction.h"
#include "unittest/support/contraction_problem.h"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace equi;
using namespace equi::testing;

struct SpeciesRows {
  std::vector<int> order, begin;
  explicit SpeciesRows(bool per_species) {
    for (int s = 0; s < (per_species ? NUM_SPECIES : 1); ++s) {
      begin.push_back(static_cast<int>(order.size()));
      for (int r = 0; r < NUM_ROWS; ++r)
        if (!per_species || SPECIES[r] == s) order.push_back(r);
    }
    begin.push_back(NUM_ROWS);
  }
  SpeciesOrder get() const { return {order.data(), begin.data()}; }
};

template <class T>
class ContractionOpTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ContractionOpTest, Types);

// f(contraction, kernels, what) with the generic kernel and the build's one for every instruction set of this CPU.
template <class T, class F>
void for_kernels(const ContractionCase &c, const F &f) {
  for (const InstructionSet set : INSTRUCTION_SETS) {
    if (!instruction_set_available(set)) continue;
    HostContraction<T> contraction(
        {c.product, {FeatureLayout(c.product.irreps_in)}, FeatureLayout(c.product.irreps_out), NUM_SPECIES, c.form});
    const std::string what = c.name + ", " + instruction_set_name(set);
    f(contraction, host_kernels<T>(set), what + ", generic");
    contraction.select_kernel([set](const ContractionSchedule &s) { return find_contraction_kernel<T>(set, s); });
    ASSERT_EQ(contraction.is_generic(), !c.in_build || set == InstructionSet::generic) << what;
    if (!contraction.is_generic()) f(contraction, host_kernels<T>(set), what + ", generated");
  }
}

TYPED_TEST(ContractionOpTest, forward_equals_plain_loops) {
  using T = TypeParam;
  for (const ContractionCase &c : contraction_cases()) {
    const Rows expected = c.forward();
    const SpeciesRows order(c.product.per_species);
    for_kernels<T>(c,
                   [&](const HostContraction<T> &contraction, const HostKernels<T> &kernels, const std::string &what) {
                     PackedRows<T> px(c.product.irreps_in, c.x), py(c.product.irreps_out, size_t(NUM_ROWS));
                     AlignedVector<char> scratch(contraction.scratch_bytes(kernels));
                     contraction.forward(kernels, {px.rows()}, py.rows(), order.get(), scratch.data());
                     expect_near(py.values(), expected, 30 * ROUNDING<T>, what);
                     EXPECT_EQ(py.padding(), 0.0) << what;
                     expect_near(px.values(), PackedRows<T>(c.product.irreps_in, c.x).values(), 0.0, what + ", input");
                   });
  }
}

TYPED_TEST(ContractionOpTest, backward_equals_plain_loops) {
  using T = TypeParam;
  for (const ContractionCase &c : contraction_cases()) {
    const Rows expected = c.backward();
    const SpeciesRows order(c.product.per_species);
    for_kernels<T>(c,
                   [&](const HostContraction<T> &contraction, const HostKernels<T> &kernels, const std::string &what) {
                     PackedRows<T> px(c.product.irreps_in, c.x), pg(c.product.irreps_out, c.g);
                     AlignedVector<char> scratch(contraction.scratch_bytes(kernels));
                     contraction.backward(kernels, {px.rows()}, pg.rows(), order.get(), scratch.data());
                     expect_near(px.values(), expected, 100 * ROUNDING<T>, what);
                     EXPECT_EQ(px.padding(), 0.0) << what;
                   });
  }
}

// The first block from one feature, the others from another.
TYPED_TEST(ContractionOpTest, reads_two_features_as_one) {
  using T = TypeParam;
  for (const ContractionCase &c : contraction_cases()) {
    if (c.product.irreps_in.size() == 1) continue;
    const TwoFeatures x(c.product.irreps_in, c.x);
    const Rows expected_y = c.forward();
    const TwoFeatures expected_x(c.product.irreps_in, c.backward());
    const SpeciesRows order(c.product.per_species);
    const HostContraction<T> contraction({c.product,
                                          {FeatureLayout(x.irreps[0]), FeatureLayout(x.irreps[1])},
                                          FeatureLayout(c.product.irreps_out),
                                          NUM_SPECIES,
                                          c.form});
    for (const InstructionSet set : INSTRUCTION_SETS) {
      if (!instruction_set_available(set)) continue;
      HostContraction<T> own = contraction;
      own.select_kernel([set](const ContractionSchedule &s) { return find_contraction_kernel<T>(set, s); });
      const HostKernels<T> &kernels = host_kernels<T>(set);
      AlignedVector<char> scratch(own.scratch_bytes(kernels));
      PackedRows<T> first(x.irreps[0], x.rows[0]), second(x.irreps[1], x.rows[1]);
      PackedRows<T> y(c.product.irreps_out, size_t(NUM_ROWS)), g(c.product.irreps_out, c.g);
      own.forward(kernels, {first.rows(), second.rows()}, y.rows(), order.get(), scratch.data());
      expect_near(y.values(), expected_y, 30 * ROUNDING<T>, c.name);
      own.backward(kernels, {first.rows(), second.rows()}, g.rows(), order.get(), scratch.data());
      expect_near(first.values(), expected_x.rows[0], 100 * ROUNDING<T>, c.name);
      expect_near(second.values(), expected_x.rows[1], 100 * ROUNDING<T>, c.name);
    }
  }
}

double largest_of(const Rows &rows) {
  double largest = 0.0;
  for (const auto &row : rows)
    for (const double v : row) largest = std::fmax(largest, std::fabs(v));
  return largest;
}

// Compares ChannelwiseProduct, which is tested against the integral (test_gaunt_product.cpp), with both forms.
TEST(GauntKernels, are_exact_to_the_largest_order) {
  constexpr double EXACT = 1e-13;    // relative to the largest number: some thousand products in float64
  for (int l = 0; l <= 8; ++l) {
    const ChannelwiseProduct product = gaunt_product(5, l, l, l);
    Random random(7);
    const Rows x = random.rows(1, product.irreps_in.dim()), g = random.rows(1, product.irreps_out.dim());
    Rows expected_y(1, std::vector<double>(g[0].size())), expected_x(1, std::vector<double>(x[0].size()));
    product.forward(x[0].data(), expected_y[0].data());
    product.backward(x[0].data(), g[0].data(), expected_x[0].data());
    const int order[] = {0}, begin[] = {0, 1};
    for (const GauntForm form : {GauntForm::tree, GauntForm::grid})
      for (const InstructionSet set : INSTRUCTION_SETS) {
        if (!instruction_set_available(set)) continue;
        HostContraction<double> contraction(
            {product.polynomials(), {FeatureLayout(product.irreps_in)}, FeatureLayout(product.irreps_out), 1, form});
        contraction.select_kernel(
            [set](const ContractionSchedule &s) { return find_contraction_kernel<double>(set, s); });
        const std::string what =
            "order " + std::to_string(l) + ", " + contraction.constants().describe() + ", " + instruction_set_name(set);
        const HostKernels<double> &kernels = host_kernels<double>(set);
        AlignedVector<char> scratch(contraction.scratch_bytes(kernels));
        PackedRows<double> px(product.irreps_in, x), py(product.irreps_out, size_t(1)), pg(product.irreps_out, g);
        contraction.forward(kernels, {px.rows()}, py.rows(), {order, begin}, scratch.data());
        expect_near(py.values(), expected_y, EXACT * largest_of(expected_y), what);
        contraction.backward(kernels, {px.rows()}, pg.rows(), {order, begin}, scratch.data());
        expect_near(px.values(), expected_x, EXACT * largest_of(expected_x), what);
      }
  }
}

// A row of a feature of duals: its values in plane 0, the tangents in plane 1. f(number of the row, place in memory).
template <class F>
void for_duals(const Irreps &irreps, const FeatureLayout &layout, int plane, const F &f) {
  for (int b = 0; b < irreps.size(); ++b) {
    const FeatureGroup &group = layout.group(layout.block(b).group);
    const int dim = irreps[b].irrep.dim();
    for (int u = 0; u < irreps[b].mul; ++u)
      for (int m = 0; m < dim; ++m)
        f(irreps.offset(b) + u * dim + m,
          group.offset + m * group.stride() + plane * group.channels + layout.block(b).channel + u);
  }
}

// Products are quadratic along a line, so their central differences are exact.
TEST(GauntKernels, of_duals_are_derivatives) {
  using Row = std::vector<double>;
  constexpr double EXACT = 1e-12;    // of numbers of some tens
  for (int l = 1; l <= 5; ++l) {
    const ChannelwiseProduct p = gaunt_product(5, l, l, l);
    const FeatureLayout in(p.irreps_in, 2), out(p.irreps_out, 2);
    Random random(11);
    const Rows x = random.rows(2, p.irreps_in.dim()), g = random.rows(2, p.irreps_out.dim());
    const auto at = [](const Rows &rows, double t) {
      Row row = rows[0];
      for (size_t k = 0; k < row.size(); ++k) row[k] += t * rows[1][k];
      return row;
    };
    Row y[3], x_adj[3];
    for (int t = -1; t <= 1; ++t) {
      y[1 + t].assign(g[0].size(), 0.0);
      x_adj[1 + t].assign(x[0].size(), 0.0);
      p.forward(at(x, t).data(), y[1 + t].data());
      p.backward(at(x, t).data(), at(g, t).data(), x_adj[1 + t].data());
    }
    for (const GauntForm form : {GauntForm::tree, GauntForm::grid})
      for (const InstructionSet set : INSTRUCTION_SETS) {
        if (!instruction_set_available(set)) continue;
        const HostContraction<Dual<double>> contraction({p.polynomials(), {in}, out, 1, form});
        const HostKernels<Dual<double>> &kernels = host_kernels<Dual<double>>(set);
        AlignedVector<double> px(in.row_size(), 0.0), py(out.row_size(), 0.0), pg(out.row_size(), 0.0);
        for (int plane = 0; plane < 2; ++plane) {
          for_duals(p.irreps_in, in, plane, [&](int k, int64_t place) { px[place] = x[plane][k]; });
          for_duals(p.irreps_out, out, plane, [&](int k, int64_t place) { pg[place] = g[plane][k]; });
        }
        const int order[] = {0}, begin[] = {0, 1};
        AlignedVector<char> scratch(contraction.scratch_bytes(kernels));
        const FeatureRows<double> rows_x{px.data(), 1, 0};
        contraction.forward(kernels, {rows_x}, {py.data(), 1, 0}, {order, begin}, scratch.data());
        contraction.backward(kernels, {rows_x}, {pg.data(), 1, 0}, {order, begin}, scratch.data());
        for (int plane = 0; plane < 2; ++plane) {
          const auto expected = [plane](const Row(&v)[3], int k) { return plane ? (v[2][k] - v[0][k]) / 2 : v[1][k]; };
          for_duals(p.irreps_out, out, plane, [&](int k, int64_t place) {
            ASSERT_NEAR(py[place], expected(y, k), EXACT) << contraction.constants().describe();
          });
          for_duals(p.irreps_in, in, plane, [&](int k, int64_t place) {
            ASSERT_NEAR(px[place], expected(x_adj, k), EXACT) << contraction.constants().describe();
          });
        }
      }
  }
}

}    // namespace
