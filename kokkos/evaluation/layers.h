// SPDX-License-Identifier: MIT
// The layers of an evaluation: the headers that define prepare_layer() for each type in the list of layers
// (src/model/layer_list.h).
#ifndef EQUI_LAYERS_H
#define EQUI_LAYERS_H

#include "kokkos/layers/channel_balance/channel_balance_layer.h"
#include "kokkos/layers/contraction/contraction_layer.h"
#include "kokkos/layers/convolution/convolution_layer.h"
#include "kokkos/layers/coulomb/coulomb_layer.h"
#include "kokkos/layers/density/density_layer.h"
#include "kokkos/layers/direct_forces/direct_forces_layer.h"
#include "kokkos/layers/dispersion/dispersion_layer.h"
#include "kokkos/layers/embedding/embedding_layer.h"
#include "kokkos/layers/ewald/ewald_layer.h"
#include "kokkos/layers/gate/gate_layer.h"
#include "kokkos/layers/grid_network/grid_network_layer.h"
#include "kokkos/layers/layer_norm/layer_norm_layer.h"
#include "kokkos/layers/linear/linear_layer.h"
#include "kokkos/layers/local_network/local_network_layer.h"
#include "kokkos/layers/norm_scale/norm_scale_layer.h"
#include "kokkos/layers/observable/observable_layer.h"
#include "kokkos/layers/pair_attention/pair_attention_layer.h"
#include "kokkos/layers/potential/potential_layer.h"
#include "kokkos/layers/readout/readout_layer.h"
#include "kokkos/layers/repulsion/repulsion_layer.h"
#include "kokkos/layers/scale_shift/scale_shift_layer.h"
#include "kokkos/layers/so2_convolution/so2_layer.h"
#include "kokkos/layers/spherical_norm/spherical_norm_layer.h"

#endif
