// SPDX-License-Identifier: MIT
// The reference implementation of symmetric contractions and their adjoint.
#include "src/algebra/symmetric_contraction.h"

#include <cmath>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace equi {

namespace {

// Position of a component of one channel in a feature: start + channel * stride.
struct Position {
  int start, stride;
};

std::vector<Position> positions(const Irreps &irreps) {
  std::vector<Position> list;
  for (int b = 0; b < irreps.size(); ++b)
    for (int m = 0; m < irreps[b].irrep.dim(); ++m) list.push_back({irreps.offset(b) + m, irreps[b].irrep.dim()});
  return list;
}

std::string expected(const std::string &what, int largest, int found) {
  return "expected " + what + " from 0 to " + std::to_string(largest) + ", found " + std::to_string(found);
}

}    // namespace

void require_equal_channels(const char *what, const Irreps &in, const Irreps &out) {
  if (in.size() == 0 || out.size() == 0)
    throw std::invalid_argument(std::string(what) + " without input or output blocks");
  const int mul = in[0].mul;
  for (const Irreps *irreps : {&in, &out})
    for (const IrrepBlock &b : *irreps)
      if (b.mul != mul || b.mul < 1)
        throw std::invalid_argument("expected " + std::to_string(mul) + " channels in each block, found " +
                                    Irreps({b}).to_string());
}

void ContractionProduct::validate() const {
  require_equal_channels("a symmetric contraction", irreps_in, irreps_out);
  const int num_factors = num_components();
  std::set<std::pair<int, int>> seen;
  for (size_t t = 0; t < terms.size(); ++t) {
    const ContractionTerm &term = terms[t];
    const auto bad = [&](const std::string &why) {
      throw std::invalid_argument("term " + std::to_string(t) + ": " + why);
    };
    if (term.out < 0 || term.out >= irreps_out.size())
      bad(expected("an output block", irreps_out.size() - 1, term.out));
    if (term.degree < 1 || term.degree > MAX_CONTRACTION_DEGREE)
      bad("expected a degree from 1 to " + std::to_string(MAX_CONTRACTION_DEGREE) + ", found " +
          std::to_string(term.degree));
    if (!seen.emplace(term.out, term.degree).second) bad("its output block and degree belong to an earlier term");
    if (term.num_paths < 1) bad("expected at least one path");
    if (term.weight.empty() || (!per_species && term.weight.size() != 1))
      bad("expected " + std::string(per_species ? "weights for each species" : "one matrix of weights") + ", found " +
          std::to_string(term.weight.size()));
    for (const Matrix &w : term.weight)
      if (w.rows != term.num_paths || w.cols != mul() || w.data.size() != static_cast<size_t>(w.rows) * w.cols)
        bad("expected weights [" + std::to_string(term.num_paths) + ", " + std::to_string(mul()) + "], found [" +
            std::to_string(w.rows) + ", " + std::to_string(w.cols) + "]");
    for (size_t k = 0; k < term.entries.size(); ++k) {
      const ContractionEntry &e = term.entries[k];
      const auto where = [k] { return "entry " + std::to_string(k) + ": "; };
      const int last = irreps_out[term.out].irrep.dim() - 1;
      if (e.component < 0 || e.component > last) bad(where() + expected("a component", last, e.component));
      if (e.path < 0 || e.path >= term.num_paths) bad(where() + expected("a path", term.num_paths - 1, e.path));
      for (int n = 0; n < term.degree; ++n) {
        if (e.factor[n] < 0 || e.factor[n] >= num_factors)
          bad(where() + expected("a factor", num_factors - 1, e.factor[n]));
        if (n > 0 && e.factor[n] < e.factor[n - 1]) bad(where() + "expected its factors in ascending order");
      }
      if (!std::isfinite(e.coefficient)) bad(where() + "expected a finite coefficient");
    }
  }
}

void ContractionProduct::forward(int species, const double *x, double *out) const {
  const std::vector<Position> at = positions(irreps_in);
  for (const ContractionTerm &term : terms) {
    const Matrix &weight = term.weight[per_species ? species : 0];
    const int dim = irreps_out[term.out].irrep.dim();
    double *block = out + irreps_out.offset(term.out);
    for (const ContractionEntry &e : term.entries)
      for (int u = 0; u < mul(); ++u) {
        double product = e.coefficient * weight(e.path, u);
        for (int n = 0; n < term.degree; ++n) product *= x[at[e.factor[n]].start + u * at[e.factor[n]].stride];
        block[u * dim + e.component] += product;
      }
  }
}

void ContractionProduct::backward(int species, const double *x, const double *out_adj, double *x_adj) const {
  const std::vector<Position> at = positions(irreps_in);
  for (const ContractionTerm &term : terms) {
    const Matrix &weight = term.weight[per_species ? species : 0];
    const int dim = irreps_out[term.out].irrep.dim();
    const double *block = out_adj + irreps_out.offset(term.out);
    for (const ContractionEntry &e : term.entries)
      for (int u = 0; u < mul(); ++u)
        for (int target = 0; target < term.degree; ++target) {
          double product = e.coefficient * weight(e.path, u) * block[u * dim + e.component];
          for (int n = 0; n < term.degree; ++n)
            if (n != target) product *= x[at[e.factor[n]].start + u * at[e.factor[n]].stride];
          x_adj[at[e.factor[target]].start + u * at[e.factor[target]].stride] += product;
        }
  }
}

}    // namespace equi
