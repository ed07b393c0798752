// SPDX-License-Identifier: MIT
// Pair attention; each back end has a class for it.
#ifndef EQUI_PAIR_ATTENTION_LAYER_H
#define EQUI_PAIR_ATTENTION_LAYER_H

#include "kokkos/layers/pair_attention/device_pair_attention.h"
#include "kokkos/layers/pair_attention/host_pair_attention.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const PairAttention &layer) {
  return make_chosen_layer<Backend, HostPairAttention, DevicePairAttention>(context, layer);
}

}    // namespace equi

#endif
