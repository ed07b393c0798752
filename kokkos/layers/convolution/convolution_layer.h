// SPDX-License-Identifier: MIT
// The convolution; each back end has a class for its kernels.
#ifndef EQUI_CONVOLUTION_LAYER_H
#define EQUI_CONVOLUTION_LAYER_H

#include "kokkos/layers/convolution/device_convolution_layer.h"
#include "kokkos/layers/convolution/host_convolution_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Convolution &layer) {
  return make_chosen_layer<Backend, HostConvolutionLayer, DeviceConvolutionLayer>(context, layer);
}

}    // namespace equi

#endif
