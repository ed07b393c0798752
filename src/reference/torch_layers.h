// SPDX-License-Identifier: MIT
// The layers of doc/model_file.rst as ATen operators on features [rows, dim] in the order of irreps.h. Only
// torch_model.cpp includes this header. A layer evaluates itself in that source's Run, from which it reads features and
// to which it writes others.
#ifndef EQUI_TORCH_LAYERS_H
#define EQUI_TORCH_LAYERS_H

#include "src/model/model.h"
#include "src/reference/torch_atom_layers.h"
#include "src/reference/torch_edge_layers.h"
#include "src/reference/torch_functions.h"
#include "src/reference/torch_local_network.h"
#include "src/reference/torch_so2_convolution.h"

#include <ATen/ATen.h>

#include <type_traits>
#include <utility>
#include <variant>

namespace equi {
namespace torch_layers {

// The variant of the types that the makers of all layers in the list return.
template <class... L>
auto torch_variant(LayerList<L...>)
    -> std::variant<decltype(make_layer(std::declval<const L &>(), std::declval<const LayerOptions &>()))...>;
using TorchLayer = decltype(torch_variant(Layers()));

inline TorchLayer make_torch_layer(const Layer &layer, const LayerOptions &options) {
  return std::visit([&](const auto &l) -> TorchLayer { return make_layer(l, options); }, layer);
}

// The part of a layer that is computed in chunks, or null.
inline const Chunked *chunked_part(const TorchLayer &layer) {
  return std::visit(
      [](const auto &l) -> const Chunked * {
        if constexpr (std::is_base_of_v<Chunked, std::decay_t<decltype(l)>>)
          return &l;
        else
          return nullptr;
      },
      layer);
}

}    // namespace torch_layers
}    // namespace equi

#endif
