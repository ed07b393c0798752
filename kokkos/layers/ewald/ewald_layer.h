// SPDX-License-Identifier: MIT
// The energy of charges and all their periodic images (src/layers/ewald.h).
#ifndef EQUI_EWALD_LAYER_H
#define EQUI_EWALD_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/ewald/device_system_ewald.h"
#include "kokkos/layers/ewald/host_system_ewald.h"
#include "src/layers/ewald.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

template <class T>
struct ChargesOfRows {
  using D = DoubleOf<T>;
  Pointer<const T> channels;
  int64_t width, num;       // num: channels with weights
  const double *weights;    // [num]
  D *charges;
  EQUI_FUNCTION void operator()(int64_t a) const {
    D sum(0.0);
    for (int64_t c = 0; c < num; c++) sum += weights[c] * static_cast<D>(channels[a * width + c]);
    charges[a] = sum;
  }
};
template <class D>
struct EnergyOfCharges {
  const D *charges;
  const EwaldAtom<D> *atoms;
  D *energy;
  EQUI_FUNCTION void operator()(int64_t a) const { energy[a] += D(0.5) * charges[a] * atoms[a].potential; }
};
template <class T>
struct AdjointOfCharges {
  using D = DoubleOf<T>;
  const EwaldAtom<D> *atoms;
  int64_t width, num;
  const double *weights;
  Pointer<T> to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t a = n / num, c = n % num, at = a * width + c;
    put(to, at, static_cast<T>(to[at] + static_cast<T>(weights[c] * atoms[a].potential)));
  }
};

// The sum runs in float64, whatever the precision of the features.
template <class Backend>
class EwaldLayer : public SystemSumLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using D = DoubleOf<T>;
  using R = typename Batch::R;

 public:
  EwaldLayer(const typename Backend::Context &context, const Ewald &layer)
      : input_(layer.input),
        group_(context.layout(layer.input).group(0)),
        system_(layer, context.options.wave_vectors) {
    const std::vector<double> weights = charge_weights(context.layout(layer.input), layer);
    num_channels_ = static_cast<int64_t>(weights.size());
    Backend::copy(context.target(), weights, weights_);
  }

  void sum_up(const typename Batch::Work &work, FeatureRows<const R> x, int count, const SystemOfStep<Batch> &system,
              GhostExchange &exchange) override {
    D *charges = charges_.data();
    Backend::for_numbers(work, "equi:ewald_charges", count,
                         ChargesOfRows<T>{channel_of<const T>(x, group_, 0, 0), group_.width(), num_channels_,
                                          weights_.data(), charges});
    system_.evaluate(work, system, count, charges, atoms_.data(), exchange);
  }
  void forward(Batch &batch) override {
    Backend::for_numbers(batch.evaluation.work(), "equi:ewald_energy", batch.count,
                         EnergyOfCharges<D>{charges_.data() + batch.first, atoms_.data() + batch.first,
                                            batch.evaluation.energy_of(0) + batch.first});
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, {0, group_.planes});
    Backend::for_numbers(batch.evaluation.work(), "equi:ewald_adjoint", batch.count * num_channels_,
                         AdjointOfCharges<T>{atoms_.data() + batch.first, group_.width(), num_channels_,
                                             weights_.data(), channel_of<T>(x_adj, group_, 0, 0)});
  }
  void for_arrays(const ArrayVisitor &f) override {
    f(charges_, 1);
    f(atoms_, 1);
  }
  std::size_t additional_bytes(const PeriodicVectors &cell, int count) const override {
    return system_.additional_bytes(cell, count);
  }
  std::size_t bytes() const override { return system_.bytes() + weights_.bytes(); }
  std::string describe_system() const override { return system_.describe(charges_.bytes() + atoms_.bytes()); }

 private:
  int input_;
  FeatureGroup group_;
  int64_t num_channels_;
  typename Backend::template Array<double> weights_;        // [num_channels_]
  typename Backend::template Array<D> charges_;             // [receivers]
  typename Backend::template Array<EwaldAtom<D>> atoms_;    // [receivers]
  typename Backend::template Choose<HostEwald<T>, DeviceEwald<T>> system_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Ewald &layer) {
  return std::make_unique<EwaldLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
