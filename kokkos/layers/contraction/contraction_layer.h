// SPDX-License-Identifier: MIT
// Layers that use the kernels of contractions: symmetric contractions and node products.
#ifndef EQUI_CONTRACTION_LAYER_H
#define EQUI_CONTRACTION_LAYER_H

#include "kokkos/layers/contraction/device_contraction_layer.h"
#include "kokkos/layers/contraction/host_contraction_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_polynomials(typename Backend::Context &context, const Ports &ports, const char *name,
                                           const ContractionProduct &product) {
  return make_chosen_layer<Backend, HostContractionLayer, DeviceContractionLayer>(context, ports, name, product);
}

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const SymmetricContraction &layer) {
  return prepare_polynomials<Backend>(context, layer.ports(), "symmetric contraction", layer.polynomials());
}
template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const NodeProduct &layer) {
  return prepare_polynomials<Backend>(context, layer.ports(), "node product", layer.polynomials());
}

}    // namespace equi

#endif
