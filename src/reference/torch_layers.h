// SPDX-License-Identifier: MIT
// The layers of doc/model_file.rst as ATen operators on features [rows, dim] in the order of irreps.h. Part of
// torch_model.cpp alone, its only includer, whose Run is what a layer evaluates itself in: it reads features from it
// and writes others.
#ifndef EQUI_TORCH_LAYERS_H
#define EQUI_TORCH_LAYERS_H

#include "src/model/model.h"
#include "src/reference/torch_atom_layers.h"
#include "src/reference/torch_edge_layers.h"
#include "src/reference/torch_functions.h"
#include "src/reference/torch_so2_convolution.h"

#include <ATen/ATen.h>

#include <type_traits>
#include <variant>

namespace equi {
namespace torch_layers {

using TorchLayer = std::variant<TorchEmbedding, TorchLinear, TorchConvolution, TorchSo2Convolution, TorchGate,
                                TorchDensity, TorchLayerNorm, TorchChannelBalance, TorchNodeProduct, TorchNormScale,
                                TorchSphericalNorm, TorchGridNetwork, TorchContraction, TorchReadout, TorchDirectForces,
                                TorchRepulsion, TorchCoulomb, TorchScaleShift>;

// The part of a layer that is worked on in chunks, or null.
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

struct LayerBuilder {
  const Model &model;
  at::ScalarType type;
  double chunk_bytes;

  TorchLayer operator()(const SpeciesEmbedding &l) const { return TorchEmbedding{l.output, to_tensor(l.weight, type)}; }
  TorchLayer operator()(const Linear &l) const { return TorchLinear(l, model, type); }
  TorchLayer operator()(const Convolution &l) const { return TorchConvolution(l, type, chunk_bytes); }
  TorchLayer operator()(const So2Convolution &l) const { return TorchSo2Convolution(l, model, type, chunk_bytes); }
  TorchLayer operator()(const Gate &l) const { return TorchGate(l, model); }
  TorchLayer operator()(const DensityNormalization &l) const { return TorchDensity(l, model, type, chunk_bytes); }
  TorchLayer operator()(const LayerNorm &l) const {
    return TorchLayerNorm{l.input, l.output, to_tensor(l.weight, type), to_tensor(l.bias, type), l.epsilon};
  }
  TorchLayer operator()(const ChannelBalance &l) const {
    const Irreps &irreps = model.features[l.input];
    return TorchChannelBalance{l.input,
                               l.output,
                               irreps.offset(l.block) + l.first,
                               l.has_shares() ? irreps.offset(l.share_block) + l.share_first : -1,
                               to_tensor(l.target, at::kDouble),
                               l.epsilon};
  }
  TorchLayer operator()(const NodeProduct &l) const { return TorchNodeProduct(l, type); }
  TorchLayer operator()(const NormScale &l) const {
    return TorchNormScale{l.input, l.output, model.features[l.input], l.offset, l.factor};
  }
  TorchLayer operator()(const SphericalNorm &l) const {
    TorchSphericalNorm norm{
        l.input, l.output, model.features[l.input], l.groups, l.epsilon, to_tensor(l.scale, type).unsqueeze(2), {}};
    if (!l.bias.empty()) norm.bias = to_tensor(l.bias, type).unsqueeze(1);
    return norm;
  }
  TorchLayer operator()(const GridNetwork &l) const {
    return TorchGridNetwork{l.input,
                            l.output,
                            model.features[l.input],
                            model.features[l.output],
                            to_tensor(l.to_points, type),
                            to_tensor(l.from_points, type),
                            TorchNetwork(l.network, type)};
  }
  TorchLayer operator()(const SymmetricContraction &l) const { return TorchContraction(l, model, type, chunk_bytes); }
  TorchLayer operator()(const PairRepulsion &l) const { return TorchRepulsion(l, chunk_bytes); }
  TorchLayer operator()(const Coulomb &l) const { return TorchCoulomb(l, chunk_bytes); }
  TorchLayer operator()(const Readout &l) const {
    return TorchReadout{l.input, l.block, model.features[l.input], TorchNetwork(l.network, type)};
  }
  TorchLayer operator()(const DirectForces &l) const {
    return TorchDirectForces{l.input, l.block, model.features[l.input], l.scale};
  }
  TorchLayer operator()(const ScaleShift &l) const {
    return TorchScaleShift{to_tensor(l.scale, at::kDouble), to_tensor(l.shift, at::kDouble)};
  }
};

}    // namespace torch_layers
}    // namespace equi

#endif
