// SPDX-License-Identifier: MIT
// The pair repulsion.
#ifndef EQUI_REPULSION_LAYER_H
#define EQUI_REPULSION_LAYER_H

#include "kokkos/layers/repulsion/device_repulsion_layer.h"
#include "kokkos/layers/repulsion/host_repulsion_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const PairRepulsion &layer) {
  return make_chosen_layer<Backend, HostRepulsionLayer, DeviceRepulsionLayer>(context, layer);
}

}    // namespace equi

#endif
