// SPDX-License-Identifier: MIT
// The Coulomb energy of a model's charges.
#ifndef EQUI_COULOMB_LAYER_H
#define EQUI_COULOMB_LAYER_H

#include "kokkos/layers/coulomb/device_coulomb_layer.h"
#include "kokkos/layers/coulomb/host_coulomb_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Coulomb &layer) {
  return make_chosen_layer<Backend, HostCoulombLayer, DeviceCoulombLayer>(context, layer);
}

}    // namespace equi

#endif
