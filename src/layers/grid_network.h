// SPDX-License-Identifier: MIT
// This layer evaluates functions on the sphere at points, applies one network to the channels at each point, and
// computes components of the results. An activation is no polynomial, so the sums over points are not exact. A rotation
// of the input rotates the output, except for an error of the points.
#ifndef EQUI_GRID_NETWORK_H
#define EQUI_GRID_NETWORK_H

#include "src/functions/network.h"
#include "src/layers/layer.h"

namespace equi {

// y_c = sum_q from[q,c] network(sum_d to[q,d] x_d), where x_d and y_c are the channels of a component. Components are
// those of one channel of the input, or of the output, block after block. All blocks of a feature have equally many
// channels.
struct GridNetwork {
  static constexpr const char *TYPE = "grid_network";

  int input, output;
  Matrix to_points, from_points;    // [points, components of the input] and [points, components of the output]
  Network network;                  // two matrices or more

  int num_points() const { return to_points.rows; }

  static const FieldSpecs &fields();
  static GridNetwork read(const JsonField &layer, LayerReader &reader);
  Ports ports() const { return {input, output, true}; }
  LayerOperations operations(const OperationContext &context) const;
  LayerTraits traits() const {
    LayerTraits t;
    t.depends_on_orientation = true;
    return t;
  }
  void restrict_to(const KeptSpecies &) {}
};

}    // namespace equi

#endif
