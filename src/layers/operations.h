// SPDX-License-Identifier: MIT
// The floating-point operations of layers, as counted by the kernels' schedules.
//
// A multiply-add counts as two operations. An activation, its derivative, a root, an exponential and a quotient count
// as one each. Padding does not count, nor do layers and products that are evaluated once per species when a model is
// loaded. The work that all layers share does not count either: distances, harmonics and rotations of edges, positions
// in tables, sums of forces. Radial factors of SO(2) convolutions count like their network, and complex products like
// four real ones.
#ifndef EQUI_OPERATIONS_H
#define EQUI_OPERATIONS_H

#include "src/algebra/irreps.h"
#include "src/functions/network.h"
#include "src/generator/contraction_schedule.h"
#include "src/generator/kernel_schedule.h"

#include <vector>

namespace equi {

// backward: operations of the adjoints of forces, in addition to the forward pass.
struct Operations {
  double forward = 0.0, backward = 0.0;
  double both() const { return forward + backward; }
};
inline Operations operator+(const Operations &a, const Operations &b) {
  return {a.forward + b.forward, a.backward + b.backward};
}
inline Operations operator*(double factor, const Operations &a) {
  return {factor * a.forward, factor * a.backward};
}

struct LayerOperations {
  Operations per_atom, per_edge;
  // Operations of an atom with this number of neighbors.
  Operations per_atom_with(double neighbors) const { return per_atom + neighbors * per_edge; }
};

// Operations of a dense product of `rows` rows by a matrix [in, out].
inline double product_operations(double rows, double in, double out) {
  return 2.0 * rows * in * out;
}
// Operations of a path group on one edge. Its input block has `channels` channels, and its radial weights come from
// tables of rows_per_bin rows (1: from a network). outputs: channels of the output of a uvw path.
Operations path_group_operations(const PathGroupSchedule &schedule, int channels, int rows_per_bin, int outputs = 0);
// Operations of a contraction on one atom.
Operations contraction_operations(const ContractionSchedule &schedule, int channels);
// Operations of a network on one row: all matrices once in each direction, and the activations between them.
Operations network_operations(const Network &network);
// Operations of polynomials on one atom.
LayerOperations polynomial_operations(const ContractionProduct &product);

// The data that a layer needs to count, besides its own numbers.
struct OperationContext {
  const std::vector<Irreps> &features;
  // The schedules of all targets have the same operations.
  const KernelTarget &target;
  int rows_per_bin;            // rows per bin of radial tables
  bool fixed_input = false;    // the input depends only on the species
};

}    // namespace equi

#endif
