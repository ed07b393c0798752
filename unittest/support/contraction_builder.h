// SPDX-License-Identifier: MIT
// Random equivariant symmetric contractions, made by repeated coupling of irreps.
#ifndef EQUI_TEST_CONTRACTION_BUILDER_H
#define EQUI_TEST_CONTRACTION_BUILDER_H

#include "src/algebra/coupling.h"
#include "src/algebra/symmetric_contraction.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace equi {
namespace testing {

// Homogeneous polynomials of the components of one channel, which transform together as `irrep`.
struct EquivariantPolynomials {
  using Monomials = std::map<std::vector<int>, double>;    // ascending components -> coefficient
  Irrep irrep;
  std::vector<Monomials> component;    // [irrep.dim()]
};

// All of one degree that result from couplings of the blocks of `irreps` from left to right, with intermediate orders
// up to l = lmax. Those that vanish when their factors are made symmetric are omitted.
inline std::vector<EquivariantPolynomials> equivariant_polynomials(const Irreps &irreps, int degree, int lmax) {
  std::vector<EquivariantPolynomials> units;
  int first = 0;
  for (const IrrepBlock &b : irreps) {
    EquivariantPolynomials unit{b.irrep, {}};
    for (int m = 0; m < b.irrep.dim(); ++m) unit.component.push_back({{{first + m}, 1.0}});
    first += b.irrep.dim();
    units.push_back(unit);
  }
  if (degree == 1) return units;

  std::vector<EquivariantPolynomials> all;
  for (const EquivariantPolynomials &left : equivariant_polynomials(irreps, degree - 1, lmax))
    for (const EquivariantPolynomials &right : units)
      for (int l = std::abs(left.irrep.l - right.irrep.l); l <= std::min(lmax, left.irrep.l + right.irrep.l); ++l) {
        EquivariantPolynomials product{{l, left.irrep.p * right.irrep.p}, {}};
        product.component.resize(2 * l + 1);
        for (const CouplingEntry &c : coupling_entries(left.irrep.l, right.irrep.l, l))
          for (const auto &[factors, value] : left.component[c.m1]) {
            std::vector<int> more = factors;
            more.push_back(right.component[c.m2].begin()->first.front());
            std::sort(more.begin(), more.end());
            product.component[c.m3][more] += std::sqrt(2.0 * l + 1.0) * c.value * value;
          }
        bool is_zero = true;
        for (auto &monomials : product.component)
          for (auto m = monomials.begin(); m != monomials.end();)
            if (std::fabs(m->second) < 1e-12) {
              m = monomials.erase(m);
            } else {
              is_zero = false;
              ++m;
            }
        if (!is_zero) all.push_back(product);
      }
  return all;
}

// Terms of all degrees up to max_degree for every block of irreps_out, at most max_paths paths each, with normal
// weights. num_species 0: weights of all species in common.
template <class Random>
ContractionProduct random_contraction(const Irreps &irreps_in, const Irreps &irreps_out, int max_degree, int max_paths,
                                      int num_species, Random &random) {
  ContractionProduct product;
  product.irreps_in = irreps_in;
  product.irreps_out = irreps_out;
  product.per_species = num_species > 0;
  std::normal_distribution<double> normal;
  const int lmax = std::max(irreps_in.lmax(), irreps_out.lmax());
  for (int degree = 1; degree <= max_degree; ++degree) {
    std::vector<EquivariantPolynomials> all = equivariant_polynomials(irreps_in, degree, lmax);
    std::shuffle(all.begin(), all.end(), random);
    for (int b = 0; b < irreps_out.size(); ++b) {
      ContractionTerm term;
      term.out = b;
      term.degree = degree;
      for (const EquivariantPolynomials &p : all) {
        if (p.irrep != irreps_out[b].irrep || term.num_paths == max_paths) continue;
        for (int m = 0; m < p.irrep.dim(); ++m)
          for (const auto &[factors, value] : p.component[m]) {
            ContractionEntry e;
            e.component = m;
            e.path = term.num_paths;
            std::copy(factors.begin(), factors.end(), e.factor.begin());
            e.coefficient = value;
            term.entries.push_back(e);
          }
        ++term.num_paths;
      }
      if (term.num_paths == 0) continue;
      for (int s = 0; s < std::max(1, num_species); ++s) {
        Matrix weight{term.num_paths, irreps_out[b].mul, {}};
        for (int k = 0; k < weight.rows * weight.cols; ++k) weight.data.push_back(normal(random));
        term.weight.push_back(weight);
      }
      product.terms.push_back(term);
    }
  }
  return product;
}

}    // namespace testing
}    // namespace equi

#endif
