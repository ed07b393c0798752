// SPDX-License-Identifier: MIT
// Networks on the edges of each receiver.
#ifndef EQUI_LOCAL_NETWORK_LAYER_H
#define EQUI_LOCAL_NETWORK_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "src/layers/local_network.h"

#include <stdexcept>

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &, const LocalNetwork &) {
  throw std::invalid_argument("layers local_network are evaluated only by the reference: reference yes");
}

}    // namespace equi

#endif
