// SPDX-License-Identifier: MIT
// The scale and shift of energies. Evaluations apply them where energies are computed (LayerContext, EnergyScale),
// so this layer has no work in batches.
#ifndef EQUI_SCALE_SHIFT_LAYER_H
#define EQUI_SCALE_SHIFT_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"

namespace equi {

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const ScaleShift &) {
  context.pair_scale.assign(context.model.num_species(), 1.0);    // only pairs before it are scaled
  return nullptr;
}

}    // namespace equi

#endif
