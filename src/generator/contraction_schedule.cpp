// SPDX-License-Identifier: MIT
// Makes the schedule of a symmetric contraction, and chooses between tree and grid for Gaunt products.
#include "src/generator/contraction_schedule.h"

#include "src/base/fnv_hash.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace equi {

namespace {

// A product on a grid costs as much as this number of products in a tree. Measured with bench_gaunt, kernels of the
// build, forward and backward together (AVX-512, float32 and float64). At L = 3 both forms need the same time, where
// the grid has 0.94 times the products. At L = 2, with 1.42 times the products, the grid needs 1.4 to 1.6 times as
// long. At L = 4 it has 0.75 times the products and needs 0.57 times as long. The reason is that the text of a tree
// does not keep its factors in registers.
constexpr double GRID_COST = 1.0;

using Factors = std::vector<int>;

Factors factors_of(const ContractionTerm &term, const ContractionEntry &entry) {
  return Factors(entry.factor.begin(), entry.factor.begin() + term.degree);
}

// Entries in the order of the schedule: products, each with its outputs. std::map orders a product directly before the
// products that begin with it, which is the pre-order of the tree.
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
      // The shorter products at the beginning of this one are nodes too.
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
  if (grid) return grid->forward_products();
  int n = num_entries();
  for (const ContractionNode &node : nodes) n += node.depth > 1;
  return n;
}

int ContractionSchedule::backward_products() const {
  if (grid) return grid->backward_products();
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
  text += grid ? "_grid_" : '_' + std::to_string(degree) + '_';
  FnvHash hash;
  const auto add = [&](int value) { hash.add(static_cast<uint64_t>(value)); };
  if (grid) {
    add(grid->num_rings);
    for (const SphereFunction *function : {&grid->first, &grid->second, &grid->out}) {
      add(function->num_values());
      for (const RingPart &part : function->parts) add(part.component);
    }
  }
  size_t entry = 0;
  for (const ContractionNode &node : nodes) {
    add(node.depth);
    add(node.factor);
    for (int k = 0; k < node.num_entries; ++k) add(100 + outputs[entry++]);
  }
  return text + hash.hex();
}

ContractionSchedule make_contraction_schedule(const ContractionProduct &product, GauntForm form) {
  ContractionSchedule schedule;
  for (const IrrepBlock &b : product.irreps_in) schedule.in_l.push_back(b.irrep.l);
  for (const IrrepBlock &b : product.irreps_out) schedule.out_l.push_back(b.irrep.l);
  for (const auto &[factors, outputs] : collect_entries(product)) {
    const int depth = static_cast<int>(factors.size());
    schedule.degree = std::max(schedule.degree, depth);
    schedule.nodes.push_back({factors.back(), depth, static_cast<int>(outputs.size())});
    for (const auto &[output, entry] : outputs) schedule.outputs.push_back(output);
  }
  if (!product.functions || form == GauntForm::tree) return schedule;
  const SphereGrid grid = make_sphere_grid(*product.functions, product.irreps_in, product.irreps_out);
  const double of_tree = schedule.forward_products() + schedule.backward_products(),
               of_grid = grid.forward_products() + grid.backward_products();
  if (form == GauntForm::grid || GRID_COST * of_grid < of_tree) {
    schedule.nodes.clear();
    schedule.outputs.clear();
    schedule.grid = grid;
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
