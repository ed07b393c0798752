// SPDX-License-Identifier: MIT
// The density normalization.
#ifndef EQUI_DENSITY_LAYER_H
#define EQUI_DENSITY_LAYER_H

#include "kokkos/layers/density/device_density_layer.h"
#include "kokkos/layers/density/host_density_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const DensityNormalization &layer) {
  return make_chosen_layer<Backend, HostDensityLayer, DeviceDensityLayer>(context, layer);
}

}    // namespace equi

#endif
