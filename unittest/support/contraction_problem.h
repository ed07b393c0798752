// SPDX-License-Identifier: MIT
// Symmetric contractions with random numbers, for tests of their kernels, with the results of ContractionProduct.
#ifndef EQUI_TEST_CONTRACTION_PROBLEM_H
#define EQUI_TEST_CONTRACTION_PROBLEM_H

#include "src/algebra/gaunt_product.h"
#include "src/generator/common_kernels.h"
#include "src/generator/contraction_generator.h"
#include "unittest/support/node_rows.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace equi {
namespace testing {

constexpr int NUM_ROWS = 11, NUM_SPECIES = 3;
// No atom has species 1; the other counts are not multiples of the number of atoms that a kernel processes at once.
constexpr int SPECIES[NUM_ROWS] = {2, 0, 0, 2, 2, 0, 2, 0, 0, 2, 2};

// The products of `support` on mul channels with random numbers, each reached by several paths.
inline ContractionProduct random_product(ContractionProduct support, int mul, bool per_species, unsigned seed) {
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

// A product on more channels, whose weights are 1.
inline ContractionProduct with_channels(ContractionProduct product, int mul) {
  for (Irreps *irreps : {&product.irreps_in, &product.irreps_out}) {
    std::vector<IrrepBlock> blocks(irreps->begin(), irreps->end());
    for (IrrepBlock &b : blocks) b.mul = mul;
    *irreps = Irreps(blocks);
  }
  for (ContractionTerm &term : product.terms) term.weight = {Matrix{1, mul, std::vector<double>(mul, 1.0)}};
  return product;
}

// Degree 4, two blocks of one irrep, blocks without an output, products with gaps: no build has kernels for these.
inline ContractionProduct odd_support() {
  ContractionProduct p;
  p.irreps_in = Irreps::parse("1x0e+1x0e+1x1o");
  p.irreps_out = Irreps::parse("1x1o+1x2e+1x0e");
  p.terms.push_back({0, 1, 1, {{0, 0, {2}, 1.0}, {1, 0, {3}, 1.0}, {2, 0, {4}, 1.0}}, {}});
  p.terms.push_back({0, 4, 1, {{0, 0, {0, 1, 1, 2}, 1.0}, {2, 0, {0, 4, 4, 4}, 1.0}, {1, 0, {3, 3, 4, 4}, 1.0}}, {}});
  p.terms.push_back({2, 3, 1, {{0, 0, {0, 0, 1}, 1.0}, {0, 0, {2, 2, 2}, 1.0}}, {}});
  p.terms.push_back({2, 2, 1, {{0, 0, {4, 4}, 1.0}}, {}});
  return p;
}

struct ContractionCase {
  std::string name;
  ContractionProduct product;
  bool in_build;    // whether the build has generated kernels for it
  Rows x, g;        // rows of inputs and of cotangents
  GauntForm form = GauntForm::faster;

  Rows forward() const {
    Rows out(NUM_ROWS, std::vector<double>(product.irreps_out.dim(), 0.0));
    for (int r = 0; r < NUM_ROWS; ++r) product.forward(SPECIES[r], x[r].data(), out[r].data());
    return out;
  }
  Rows backward() const {
    Rows x_adj(NUM_ROWS, std::vector<double>(product.irreps_in.dim(), 0.0));
    for (int r = 0; r < NUM_ROWS; ++r) product.backward(SPECIES[r], x[r].data(), g[r].data(), x_adj[r].data());
    return x_adj;
  }
};

// Rows of a feature as those of two: its first block, and the others.
struct TwoFeatures {
  Irreps irreps[2];
  Rows rows[2];
  TwoFeatures(const Irreps &all, const Rows &x)
      : irreps{Irreps({all[0]}), Irreps(std::vector<IrrepBlock>(all.begin() + 1, all.end()))} {
    const int first = all[0].dim();
    for (const std::vector<double> &row : x) {
      rows[0].emplace_back(row.begin(), row.begin() + first);
      rows[1].emplace_back(row.begin() + first, row.end());
    }
  }
};

inline std::vector<ContractionCase> contraction_cases() {
  std::vector<ContractionCase> all;
  const auto add = [&](const std::string &name, const ContractionProduct &product, bool in_build) {
    Random random(7);
    const Rows x = random.rows(NUM_ROWS, product.irreps_in.dim());
    all.push_back({name, product, in_build, x, random.rows(NUM_ROWS, product.irreps_out.dim())});
  };
  int mul = 0;
  for (const std::string &name : common_contractions()) {
    const int muls[] = {5, 13, 33, 16, 1};
    const int channels = muls[mul++ % 5];
    const ContractionProduct product = contraction_of(name);
    if (product.functions)
      add(name, with_channels(product, channels), true);
    else
      add(name, random_product(product, channels, mul % 2 == 1, 3), true);
  }
  add("odd", random_product(odd_support(), 13, true, 4), false);

  // Gaunt products in both forms: blocks in no order and one that is not read, a square, functions that share a block,
  // one order each, only scalars.
  const auto add_gaunt = [&](const std::string &in, const SphereFunctions &functions, const std::string &out) {
    for (const GauntForm form : {GauntForm::tree, GauntForm::grid}) {
      add("Gaunt product of " + in, gaunt_product(Irreps::parse(in), functions, Irreps::parse(out)).polynomials(),
          false);
      all.back().form = form;
    }
  };
  add_gaunt("5x2e+5x1e+5x0e+5x1o+5x4e+5x0e+5x3o", {{3, 2, 0}, {5, 6, 4}}, "5x5o+5x0e+5x2e");
  add_gaunt("13x0e+13x1o+13x2e+13x3o", {{0, 1, 2, 3}, {3, 2, 1, 0}}, "13x0e+13x1o+13x2e+13x3o+13x4e");
  add_gaunt("1x0e+1x1e+1x2e", {{0, 2}, {2, 1}}, "1x1e+1x0e");
  add_gaunt("33x6e+33x5o", {{0}, {1}}, "33x1o+33x7o");
  add_gaunt("16x0e", {{0}, {0}}, "16x0e");
  return all;
}

}    // namespace testing
}    // namespace equi

#endif
