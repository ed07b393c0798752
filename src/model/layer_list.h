// SPDX-License-Identifier: MIT
// The list of layers, which registers each type once, and what follows from it: the variant, and answers about one
// layer of any type.
#ifndef EQUI_LAYER_LIST_H
#define EQUI_LAYER_LIST_H

#include "src/algebra/symmetric_contraction.h"
#include "src/layers/channel_balance.h"
#include "src/layers/convolution.h"
#include "src/layers/coulomb.h"
#include "src/layers/density_normalization.h"
#include "src/layers/direct_forces.h"
#include "src/layers/dispersion.h"
#include "src/layers/ewald.h"
#include "src/layers/gate.h"
#include "src/layers/grid_network.h"
#include "src/layers/layer_norm.h"
#include "src/layers/linear.h"
#include "src/layers/local_network.h"
#include "src/layers/node_product.h"
#include "src/layers/norm_scale.h"
#include "src/layers/observable.h"
#include "src/layers/pair_attention.h"
#include "src/layers/pair_repulsion.h"
#include "src/layers/potential.h"
#include "src/layers/readout.h"
#include "src/layers/scale_shift.h"
#include "src/layers/so2_convolution.h"
#include "src/layers/species_embedding.h"
#include "src/layers/spherical_norm.h"
#include "src/layers/symmetric_contraction.h"

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace equi {

template <class... L>
struct LayerList {
  using Variant = std::variant<L...>;
};

// ScaleShift scales a PairRepulsion that precedes it, but not one that follows it.
using Layers = LayerList<SpeciesEmbedding, Linear, Convolution, So2Convolution, PairAttention, LocalNetwork, Gate,
                         DensityNormalization, LayerNorm, ChannelBalance, NodeProduct, NormScale, SphericalNorm,
                         GridNetwork, SymmetricContraction, Readout, Observable, DirectForces, PairRepulsion, Coulomb,
                         Dispersion, Ewald, Potential, ScaleShift>;
using Layer = Layers::Variant;

inline const char *layer_type(const Layer &layer) {
  return std::visit([](const auto &l) { return l.TYPE; }, layer);
}
inline Ports ports(const Layer &layer) {
  return std::visit([](const auto &l) { return l.ports(); }, layer);
}
inline LayerTraits traits(const Layer &layer) {
  return std::visit([](const auto &l) { return l.traits(); }, layer);
}

// Whether a layer is a convolution of some kind.
inline bool reads_senders(const Layer &layer) {
  return traits(layer).reads_senders;
}
inline bool reads_receivers(const Layer &layer) {
  return traits(layer).reads_receivers;
}

template <class L, class = void>
constexpr bool HAS_POLYNOMIALS = false;
template <class L>
constexpr bool HAS_POLYNOMIALS<L, std::void_t<decltype(std::declval<const L &>().polynomials())>> = true;

// The polynomials of a layer that the kernels of contractions evaluate, if it has any.
inline std::optional<ContractionProduct> polynomials(const Layer &layer) {
  return std::visit(
      [](const auto &l) -> std::optional<ContractionProduct> {
        if constexpr (HAS_POLYNOMIALS<std::decay_t<decltype(l)>>)
          return l.polynomials();
        else
          return std::nullopt;
      },
      layer);
}

}    // namespace equi

#endif
