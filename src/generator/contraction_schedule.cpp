// SPDX-License-Identifier: MIT
#include "src/generator/contraction_schedule.h"

#include "src/base/fnv_hash.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace equi {

namespace {

using Factors = std::vector<int>;

Factors factors_of(const ContractionTerm &term, const ContractionEntry &entry) {
  return Factors(entry.factor.begin(), entry.factor.begin() + term.degree);
}

// Entries in the order of the schedule: products, each with its outputs. std::map orders a product directly before
// those that it begins, which is the pre-order of the tree.
using Entries = std::map<Factors, std::map<int, int>>;    // product -> output -> number

std::vector<int> first_components(const Irreps &irreps) {
  std::vector<int> first;
  int next = 0;
  for (const IrrepBlock &b : irreps) {
    first.push_back(next);
    next += b.irrep.dim();
  }
  return first;
}

Entries collect_entries(const ContractionProduct &product) {
  const std::vector<int> first = first_components(product.irreps_out);
  Entries entries;
  for (const ContractionTerm &term : product.terms)
    for (const ContractionEntry &e : term.entries) {
      Factors factors = factors_of(term, e);
      entries[factors][first[term.out] + e.component];
      // Products on the way to this one are nodes too.
      for (factors.pop_back(); !factors.empty(); factors.pop_back()) entries[factors];
    }
  int number = 0;
  for (auto &[factors, outputs] : entries)
    for (auto &[output, entry] : outputs) entry = number++;
  return entries;
}

int num_components(const std::vector<int> &l) {
  int n = 0;
  for (int each : l) n += 2 * each + 1;
  return n;
}

}    // namespace

int ContractionSchedule::num_inputs() const {
  return num_components(in_l);
}

int ContractionSchedule::num_outputs() const {
  return num_components(out_l);
}

int ContractionSchedule::forward_products() const {
  int n = num_entries();
  for (const ContractionNode &node : nodes) n += node.depth > 1;
  return n;
}

int ContractionSchedule::backward_products() const {
  int n = num_entries();
  for (size_t k = 0; k < nodes.size(); ++k) {
    const bool is_leaf = k + 1 == nodes.size() || nodes[k + 1].depth <= nodes[k].depth;
    n += nodes[k].depth > 1 ? (is_leaf ? 2 : 3) : 0;
  }
  return n;
}

std::string ContractionSchedule::key() const {
  std::string text;
  for (int l : in_l) text += std::to_string(l);
  text += '_';
  for (int l : out_l) text += std::to_string(l);
  text += '_' + std::to_string(degree) + '_';
  FnvHash hash;
  const auto add = [&](int value) { hash.add(static_cast<uint64_t>(value)); };
  size_t entry = 0;
  for (const ContractionNode &node : nodes) {
    add(node.depth);
    add(node.factor);
    for (int k = 0; k < node.num_entries; ++k) add(100 + outputs[entry++]);
  }
  return text + hash.hex();
}

ContractionSchedule make_contraction_schedule(const ContractionProduct &product) {
  ContractionSchedule schedule;
  for (const IrrepBlock &b : product.irreps_in) schedule.in_l.push_back(b.irrep.l);
  for (const IrrepBlock &b : product.irreps_out) schedule.out_l.push_back(b.irrep.l);
  for (const auto &[factors, outputs] : collect_entries(product)) {
    const int depth = static_cast<int>(factors.size());
    schedule.degree = std::max(schedule.degree, depth);
    schedule.nodes.push_back({factors.back(), depth, static_cast<int>(outputs.size())});
    for (const auto &[output, entry] : outputs) schedule.outputs.push_back(output);
  }
  return schedule;
}

std::vector<double> contraction_coefficients(const ContractionProduct &product, const ContractionSchedule &schedule,
                                             int species) {
  const Entries entries = collect_entries(product);
  const std::vector<int> first = first_components(product.irreps_out);
  const int mul = product.mul(), num_entries = schedule.num_entries();
  std::vector<double> coefficients(static_cast<size_t>(mul) * num_entries, 0.0);
  for (const ContractionTerm &term : product.terms) {
    const Matrix &weight = term.weight[product.per_species ? species : 0];
    for (const ContractionEntry &e : term.entries) {
      const int entry = entries.at(factors_of(term, e)).at(first[term.out] + e.component);
      for (int u = 0; u < mul; ++u)
        coefficients[static_cast<size_t>(u) * num_entries + entry] += e.coefficient * weight(e.path, u);
    }
  }
  return coefficients;
}

}    // namespace equi
