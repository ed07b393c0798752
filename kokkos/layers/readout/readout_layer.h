// SPDX-License-Identifier: MIT
// The readout.
#ifndef EQUI_READOUT_LAYER_H
#define EQUI_READOUT_LAYER_H

#include "kokkos/layers/readout/device_readout_layer.h"
#include "kokkos/layers/readout/host_readout_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Readout &layer) {
  using T = typename Backend::Number;
  using G = typename Backend::Geometry;
  using ChosenLayer = typename Backend::template Choose<HostReadoutLayer<T, G>, DeviceReadoutLayer<T, G>>;
  return std::make_unique<ChosenLayer>(context, layer);
}

}    // namespace equi

#endif
