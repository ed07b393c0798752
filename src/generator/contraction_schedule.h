// SPDX-License-Identifier: MIT
// The products of a symmetric contraction as a tree. The generic kernel walks it, and generated kernels have it
// unrolled.
//
// A node of depth d is a product A_i1 ... A_id with ascending factors; its children append a factor. Terms that differ
// only in their path are one entry. Their coefficients are summed with the weights of a species and channel once, when
// a model is loaded.
//
// The Gaunt product of two functions may be evaluated on a grid on the sphere (sphere_grid.h) instead. Its kernels have
// the same interface. The coefficients are then the table of the grid, the same for all channels and species.
#ifndef EQUI_CONTRACTION_SCHEDULE_H
#define EQUI_CONTRACTION_SCHEDULE_H

#include "src/algebra/sphere_grid.h"
#include "src/algebra/symmetric_contraction.h"
#include "src/generator/contraction_node.h"

#include <optional>
#include <string>
#include <vector>

namespace equi {

struct ContractionSchedule {
  std::vector<int> in_l, out_l;          // per block
  int degree = 0;                        // largest
  std::vector<ContractionNode> nodes;    // in pre-order, children by ascending factor
  std::vector<int> outputs;              // per entry, node after node: component of the output, block after block
  std::optional<SphereGrid> grid;        // if set, the kernel uses this grid, and the tree is empty

  int num_inputs() const;    // components of one channel
  int num_outputs() const;
  int num_entries() const { return static_cast<int>(outputs.size()); }
  // Multiply-adds and products per channel.
  int forward_products() const;
  int backward_products() const;

  // The name under which the kernel is looked up: for this tree "0123_01_3_" and a hash of it, for this grid
  // "012012_012_grid_" and a hash.
  std::string key() const;
};

// How to evaluate a Gaunt product: by a tree of the products of couplings, on a grid, or the faster way.
enum class GauntForm { faster, tree, grid };

// form: ignored for other products, which have trees.
ContractionSchedule make_contraction_schedule(const ContractionProduct &product, GauntForm form = GauntForm::faster);

// Coefficients of all entries of a tree for one species, [mul][num_entries].
std::vector<double> contraction_coefficients(const ContractionProduct &product, const ContractionSchedule &schedule,
                                             int species);

}    // namespace equi

#endif
