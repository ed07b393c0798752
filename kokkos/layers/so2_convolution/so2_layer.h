// SPDX-License-Identifier: MIT
// The SO(2) convolution; each back end has a class for its kernels.
#ifndef EQUI_SO2_LAYER_H
#define EQUI_SO2_LAYER_H

#include "kokkos/layers/so2_convolution/device_so2_layer.h"
#include "kokkos/layers/so2_convolution/host_so2_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const So2Convolution &layer) {
  return make_chosen_layer<Backend, HostSo2Layer, DeviceSo2Layer>(context, layer);
}

}    // namespace equi

#endif
