// SPDX-License-Identifier: MIT
// The readout.
#ifndef EQUI_READOUT_LAYER_H
#define EQUI_READOUT_LAYER_H

#include "kokkos/layers/readout/device_readout_layer.h"
#include "kokkos/layers/readout/host_readout_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Readout &layer) {
  return make_chosen_layer<Backend, HostReadoutLayer, DeviceReadoutLayer>(context, layer);
}

}    // namespace equi

#endif
