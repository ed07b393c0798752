// SPDX-License-Identifier: MIT
// The pair repulsion.
#ifndef EQUI_REPULSION_LAYER_H
#define EQUI_REPULSION_LAYER_H

#include "kokkos/layers/repulsion/device_repulsion_layer.h"
#include "kokkos/layers/repulsion/host_repulsion_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const PairRepulsion &layer) {
  using T = typename Backend::Number;
  using G = typename Backend::Geometry;
  using ChosenLayer = typename Backend::template Choose<HostRepulsionLayer<T, G>, DeviceRepulsionLayer<T, G>>;
  return std::make_unique<ChosenLayer>(context, layer);
}

}    // namespace equi

#endif
