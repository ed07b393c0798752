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
  using T = typename Backend::Number;
  using G = typename Backend::Geometry;
  using ChosenLayer = typename Backend::template Choose<HostContractionLayer<T, G>, DeviceContractionLayer<T, G>>;
  return std::make_unique<ChosenLayer>(context, ports, name, product);
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
