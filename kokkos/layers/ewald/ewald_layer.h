// SPDX-License-Identifier: MIT
// The energy of charges and all their periodic images (src/layers/ewald.h).
#ifndef EQUI_EWALD_LAYER_H
#define EQUI_EWALD_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/device_backend.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/host_backend.h"
#include "kokkos/layers/ewald/host_system_ewald.h"
#include "src/layers/ewald.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace equi {

// The channels of charges. All blocks are scalars, so they form one group. Channels between blocks have weights of 0.
inline std::vector<double> charge_weights(const FeatureLayout &layout, const Ewald &layer) {
  std::vector<double> weights;
  auto from = layer.weights.begin();
  for (int b = 0; b < layout.num_blocks(); b++) {
    const FeatureBlock &block = layout.block(b);
    weights.resize(block.channel, 0.0);
    weights.insert(weights.end(), from, from + block.mul);
    from += block.mul;
  }
  return weights;
}

// The sum runs in float64, whatever the precision of the features.
template <class T>
class HostEwaldLayer : public SystemSumLayer<HostBatch<T>> {
  using Batch = HostBatch<T>;
  using D = DoubleOf<T>;
  using R = typename Batch::R;

 public:
  HostEwaldLayer(const HostContext &context, const Ewald &layer)
      : input_(layer.input),
        group_(context.layout(layer.input).group(0)),
        weights_(charge_weights(context.layout(layer.input), layer)),
        system_(layer, context.options.wave_vectors) {}

  void sum_up(FeatureRows<const R> x, int count, const SystemOfStep &system, GhostExchange &exchange) override {
    D *charges = system_.charges(count);
    const Pointer<const T> channels = channel_of<const T>(x, group_, 0, 0);
    for (int64_t a = 0; a < count; a++) {
      charges[a] = D(0.0);
      for (size_t c = 0; c < weights_.size(); c++)
        charges[a] += weights_[c] * static_cast<D>(channels[a * group_.width() + static_cast<int64_t>(c)]);
    }
    system_.evaluate(system, exchange);
  }
  void forward(Batch &batch) override {
    D *energy = batch.evaluation.energy_of(0) + batch.first;
    for (int a = 0; a < batch.count; a++) energy[a] += system_.energy(batch.first + a);
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, {0, group_.planes});
    const Pointer<T> to = channel_of<T>(x_adj, group_, 0, 0);
    for (int64_t a = 0; a < batch.count; a++)
      for (size_t c = 0; c < weights_.size(); c++) {
        const int64_t at = a * group_.width() + static_cast<int64_t>(c);
        put(to, at, static_cast<T>(to[at] + static_cast<T>(weights_[c] * system_.potential(batch.first + a))));
      }
  }
  std::size_t bytes() const override { return system_.bytes() + weights_.size() * sizeof(double); }
  std::string describe_system() const override { return system_.describe(); }

 private:
  int input_;
  FeatureGroup group_;
  std::vector<double> weights_;    // [channels of the group]
  HostSystemEwald<D> system_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Ewald &layer) {
  using T = typename Backend::Number;
  if constexpr (std::is_same_v<Backend, HostBackend<T>>)
    return std::make_unique<HostEwaldLayer<T>>(context, layer);
  else
    throw std::invalid_argument(
        "the layer ewald runs on CPUs alone: use the keyword 'kernels host', or a LAMMPS without GPUs");
}

}    // namespace equi

#endif
