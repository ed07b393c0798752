// Symmetric contractions on rows, generic and generated, against the double loops of ContractionProduct.
#include "contraction_generator.h"
#include "contraction_op.h"
#include "kernel_library.h"
#include "node_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace {

using namespace equi;
using namespace equi::testing;

constexpr int NUM_ROWS = 11, NUM_SPECIES = 3;
// None of species 1; the others are no multiple of the atoms that a kernel takes at once.
constexpr int SPECIES[NUM_ROWS] = {2, 0, 0, 2, 2, 0, 2, 0, 0, 2, 2};
constexpr InstructionSet ALL_SETS[] = {InstructionSet::generic, InstructionSet::avx2, InstructionSet::avx512};

// The products of `support` on mul channels with random numbers, each reached by several paths.
ContractionProduct random_product(ContractionProduct support, int mul, bool per_species, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  const auto widen = [mul](const Irreps &irreps) {
    std::vector<IrrepBlock> blocks(irreps.begin(), irreps.end());
    for (IrrepBlock &b : blocks) b.mul = mul;
    return Irreps(blocks);
  };
  support.irreps_in = widen(support.irreps_in);
  support.irreps_out = widen(support.irreps_out);
  support.per_species = per_species;
  for (ContractionTerm &term : support.terms) {
    term.num_paths = 3;
    std::vector<ContractionEntry> entries;
    for (ContractionEntry e : term.entries)
      for (const int path : {0, 2}) {
        e.path = path;
        e.coefficient = normal(random);
        entries.push_back(e);
      }
    term.entries = entries;
    for (int s = 0; s < (per_species ? NUM_SPECIES : 1); ++s) {
      Matrix w{term.num_paths, mul, {}};
      for (int k = 0; k < term.num_paths * mul; ++k) w.data.push_back(normal(random) / std::sqrt(entries.size()));
      term.weight.push_back(w);
    }
  }
  return support;
}

// Degree 4, two blocks of one irrep, blocks without an output, products with gaps: nothing that a build has kernels
// for.
ContractionProduct odd_support() {
  ContractionProduct p;
  p.irreps_in = Irreps::parse("1x0e+1x0e+1x1o");
  p.irreps_out = Irreps::parse("1x1o+1x2e+1x0e");
  p.terms.push_back({0, 1, 1, {{0, 0, {2}, 1.0}, {1, 0, {3}, 1.0}, {2, 0, {4}, 1.0}}, {}});
  p.terms.push_back({0, 4, 1, {{0, 0, {0, 1, 1, 2}, 1.0}, {2, 0, {0, 4, 4, 4}, 1.0}, {1, 0, {3, 3, 4, 4}, 1.0}}, {}});
  p.terms.push_back({2, 3, 1, {{0, 0, {0, 0, 1}, 1.0}, {0, 0, {2, 2, 2}, 1.0}}, {}});
  p.terms.push_back({2, 2, 1, {{0, 0, {4, 4}, 1.0}}, {}});
  return p;
}

struct Case {
  std::string name;
  ContractionProduct product;
  bool in_build;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  int mul = 0;
  for (const std::string &name : common_contractions()) {
    const int muls[] = {5, 13, 33, 16, 1};
    all.push_back({name, random_product(contraction_of(name), muls[mul++ % 5], mul % 2 == 0, 3), true});
  }
  all.push_back({"odd", random_product(odd_support(), 13, true, 4), false});
  return all;
}

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

// f(op, kernels, what) with the generic kernel and the build's one for every instruction set of this CPU.
template <class T, class F>
void for_kernels(const Case &c, const F &f) {
  for (const InstructionSet set : ALL_SETS) {
    if (!instruction_set_available(set)) continue;
    ContractionOp<T> op({0, 1, c.product}, FeatureLayout(c.product.irreps_in), FeatureLayout(c.product.irreps_out),
                        NUM_SPECIES);
    const std::string what = c.name + ", " + instruction_set_name(set);
    f(op, host_kernels<T>(set), what + ", generic");
    op.select_kernel([set](const std::string &key) { return find_contraction_kernel<T>(set, key); });
    ASSERT_EQ(op.is_generic(), !c.in_build || set == InstructionSet::generic) << what;
    if (!op.is_generic()) f(op, host_kernels<T>(set), what + ", generated");
  }
}

TYPED_TEST(ContractionOpTest, forward_equals_plain_loops) {
  using T = TypeParam;
  for (const Case &c : cases()) {
    const Rows x = Random(7).rows(NUM_ROWS, c.product.irreps_in.dim());
    Rows expected(NUM_ROWS, std::vector<double>(c.product.irreps_out.dim(), 0.0));
    for (int r = 0; r < NUM_ROWS; ++r) c.product.forward(SPECIES[r], x[r].data(), expected[r].data());
    const SpeciesRows order(c.product.per_species);
    for_kernels<T>(c, [&](const ContractionOp<T> &op, const HostKernels<T> &kernels, const std::string &what) {
      PackedRows<T> px(c.product.irreps_in, x), py(c.product.irreps_out, size_t(NUM_ROWS));
      AlignedVector<char> scratch(op.scratch_bytes(kernels));
      op.forward(kernels, px.rows(), py.rows(), order.get(), scratch.data());
      expect_near(py.values(), expected, 30 * ROUNDING<T>, what);
      EXPECT_EQ(py.padding(), 0.0) << what;
      expect_near(px.values(), PackedRows<T>(c.product.irreps_in, x).values(), 0.0, what + ", input");
    });
  }
}

TYPED_TEST(ContractionOpTest, backward_equals_plain_loops) {
  using T = TypeParam;
  for (const Case &c : cases()) {
    Random random(9);
    const Rows x = random.rows(NUM_ROWS, c.product.irreps_in.dim()),
               g = random.rows(NUM_ROWS, c.product.irreps_out.dim());
    Rows expected(NUM_ROWS, std::vector<double>(c.product.irreps_in.dim(), 0.0));
    for (int r = 0; r < NUM_ROWS; ++r) c.product.backward(SPECIES[r], x[r].data(), g[r].data(), expected[r].data());
    const SpeciesRows order(c.product.per_species);
    for_kernels<T>(c, [&](const ContractionOp<T> &op, const HostKernels<T> &kernels, const std::string &what) {
      PackedRows<T> px(c.product.irreps_in, x), pg(c.product.irreps_out, g);
      AlignedVector<char> scratch(op.scratch_bytes(kernels));
      op.backward(kernels, px.rows(), pg.rows(), order.get(), scratch.data());
      expect_near(px.values(), expected, 100 * ROUNDING<T>, what);
      EXPECT_EQ(px.padding(), 0.0) << what;
    });
  }
}

}    // namespace
