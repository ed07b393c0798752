// SPDX-License-Identifier: MIT
// The convolution; each back end has a class for its kernels.
#ifndef EQUI_CONVOLUTION_LAYER_H
#define EQUI_CONVOLUTION_LAYER_H

#include "kokkos/layers/convolution/device_convolution_layer.h"
#include "kokkos/layers/convolution/host_convolution_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Convolution &layer) {
  using T = typename Backend::Number;
  using G = typename Backend::Geometry;
  using ChosenLayer = typename Backend::template Choose<HostConvolutionLayer<T, G>, DeviceConvolutionLayer<T, G>>;
  return std::make_unique<ChosenLayer>(context, layer);
}

}    // namespace equi

#endif
