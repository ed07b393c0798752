// SPDX-License-Identifier: MIT
// The reference implementation of products of blocks channel by channel, and their polynomials.
#include "src/algebra/channelwise_product.h"

#include "src/algebra/coupling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace equi {

namespace {

// Terms of a path with two blocks: coefficients without the scale. With one block the second component is unused.
std::vector<CouplingEntry> entries_of(const ChannelwiseProduct &product, const ChannelwisePath &path) {
  const int l1 = product.irreps_in[path.first].irrep.l, l3 = product.irreps_out[path.out].irrep.l;
  if (path.second >= 0) return coupling_entries(l1, product.irreps_in[path.second].irrep.l, l3);
  std::vector<CouplingEntry> entries;
  for (int m = 0; m <= 2 * l1; ++m) entries.push_back({m, 0, m, 1.0});
  return entries;
}

}    // namespace

void ChannelwiseProduct::validate() const {
  require_equal_channels("a channelwise product", irreps_in, irreps_out);
  for (size_t q = 0; q < paths.size(); ++q) {
    const ChannelwisePath &path = paths[q];
    const auto bad = [&](const std::string &why) {
      throw std::invalid_argument("path " + std::to_string(q) + ": " + why);
    };
    const auto check_block = [&](const char *what, int block, const Irreps &irreps) {
      if (block < 0 || block >= irreps.size())
        bad(std::string("expected ") + what + " block from 0 to " + std::to_string(irreps.size() - 1) + ", found " +
            std::to_string(block));
    };
    check_block("an input", path.first, irreps_in);
    if (path.second >= 0) check_block("an input", path.second, irreps_in);
    check_block("an output", path.out, irreps_out);
    if (!std::isfinite(path.scale)) bad("expected a finite scale");
    const Irrep first = irreps_in[path.first].irrep, out = irreps_out[path.out].irrep;
    const Irrep second = path.second < 0 ? Irrep{0, 1} : irreps_in[path.second].irrep;
    const bool couple = std::abs(first.l - second.l) <= out.l && out.l <= first.l + second.l;
    if (!couple || first.p * second.p != out.p) {
      std::string found = Irreps({{1, first}}).to_string();
      if (path.second >= 0) found += " and " + Irreps({{1, second}}).to_string();
      bad("expected blocks that make " + Irreps({{1, out}}).to_string() + ", found " + found);
    }
  }
}

void ChannelwiseProduct::forward(const double *x, double *out) const {
  for (const ChannelwisePath &path : paths) {
    const int d1 = irreps_in[path.first].irrep.dim(), d3 = irreps_out[path.out].irrep.dim();
    const int d2 = path.second < 0 ? 0 : irreps_in[path.second].irrep.dim();
    const double *x1 = x + irreps_in.offset(path.first), *x2 = d2 ? x + irreps_in.offset(path.second) : nullptr;
    double *y = out + irreps_out.offset(path.out);
    for (const CouplingEntry &e : entries_of(*this, path))
      for (int u = 0; u < mul(); ++u)
        y[u * d3 + e.m3] += path.scale * e.value * x1[u * d1 + e.m1] * (x2 ? x2[u * d2 + e.m2] : 1.0);
  }
}

void ChannelwiseProduct::backward(const double *x, const double *out_adj, double *x_adj) const {
  for (const ChannelwisePath &path : paths) {
    const int d1 = irreps_in[path.first].irrep.dim(), d3 = irreps_out[path.out].irrep.dim();
    const int d2 = path.second < 0 ? 0 : irreps_in[path.second].irrep.dim();
    const int first = irreps_in.offset(path.first), second = d2 ? irreps_in.offset(path.second) : 0;
    const double *y_adj = out_adj + irreps_out.offset(path.out);
    for (const CouplingEntry &e : entries_of(*this, path))
      for (int u = 0; u < mul(); ++u) {
        const double g = path.scale * e.value * y_adj[u * d3 + e.m3];
        const int k1 = first + u * d1 + e.m1, k2 = second + u * d2 + e.m2;
        x_adj[k1] += g * (d2 ? x[k2] : 1.0);
        if (d2) x_adj[k2] += g * x[k1];
      }
  }
}

ContractionProduct ChannelwiseProduct::polynomials() const {
  std::vector<int> first_component;
  int next = 0;
  for (const IrrepBlock &b : irreps_in) {
    first_component.push_back(next);
    next += b.irrep.dim();
  }
  // Map from output block and degree to component and factors, and from these to the sum of the coefficients. Products
  // commute, so several paths may contribute to one.
  using Product = std::pair<int, std::array<int, MAX_CONTRACTION_DEGREE>>;
  std::map<std::pair<int, int>, std::map<Product, double>> terms;
  for (const ChannelwisePath &path : paths) {
    const int degree = path.second < 0 ? 1 : 2;
    for (const CouplingEntry &e : entries_of(*this, path)) {
      std::array<int, MAX_CONTRACTION_DEGREE> factor{};
      factor[0] = first_component[path.first] + e.m1;
      if (degree == 2) factor[1] = first_component[path.second] + e.m2;
      std::sort(factor.begin(), factor.begin() + degree);
      terms[{path.out, degree}][{e.m3, factor}] += path.scale * e.value;
    }
  }
  ContractionProduct product;
  product.irreps_in = irreps_in;
  product.irreps_out = irreps_out;
  product.functions = functions;
  for (const auto &[key, products] : terms) {
    ContractionTerm term{key.first, key.second, 1, {}, {Matrix{1, mul(), std::vector<double>(mul(), 1.0)}}};
    for (const auto &[p, coefficient] : products) term.entries.push_back({p.first, 0, p.second, coefficient});
    product.terms.push_back(term);
  }
  return product;
}

}    // namespace equi
