// SPDX-License-Identifier: MIT
// The gate.
#ifndef EQUI_GATE_LAYER_H
#define EQUI_GATE_LAYER_H

#include "kokkos/layer_interface/row_layer.h"
#include "kokkos/layers/gate/device_gate.h"
#include "kokkos/layers/gate/host_gate.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Gate &layer) {
  using T = typename Backend::Number;
  using Rows = typename Backend::template Choose<HostGate<T>, DeviceGate<T>>;
  return make_row_layer<typename Backend::Batch>(
      layer, Rows(GateConstants(layer, context.layout(layer.input), context.layout(layer.output))));
}

}    // namespace equi

#endif
