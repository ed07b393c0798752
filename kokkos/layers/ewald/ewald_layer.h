// SPDX-License-Identifier: MIT
// The energy of charges and all their periodic images (src/layers/ewald.h).
#ifndef EQUI_EWALD_LAYER_H
#define EQUI_EWALD_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/wave_sums/wave_sums.h"
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
// What removes the interaction of each charge with itself from the fields.
template <class D>
struct FieldsWithoutSelf {
  double self;
  const D *charges;
  int64_t stride;
  D *fields;    // [receivers][stride]
  EQUI_FUNCTION void operator()(int64_t a) const { fields[a * stride] -= self * charges[a]; }
};
template <class D>
struct EnergyOfCharges {
  const D *charges, *fields;
  int64_t stride;
  D *energy;
  EQUI_FUNCTION void operator()(int64_t a) const { energy[a] += D(0.5) * charges[a] * fields[a * stride]; }
};
template <class T>
struct AdjointOfCharges {
  using D = DoubleOf<T>;
  const D *fields;
  int64_t stride, width, num;
  const double *weights;
  Pointer<T> to;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t a = n / num, c = n % num, at = a * width + c;
    put(to, at, static_cast<T>(to[at] + static_cast<T>(weights[c] * fields[a * stride])));
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
  EwaldLayer(typename Backend::Context &context, const Ewald &layer)
      : input_(layer.input),
        group_(context.layout(layer.input).group(0)),
        self_(layer.function.self()),
        system_(make_system_multipoles<Backend>(context, layer.function.of_multipoles(), 1, false, false, layer.cutoff,
                                                layer.wave_vectors)) {
    const std::vector<double> weights = charge_weights(context.layout(layer.input), layer);
    num_channels_ = static_cast<int64_t>(weights.size());
    Backend::copy(context.target(), weights, weights_);
  }

  void sum_up(const typename Batch::Work &work, FeatureRows<const R> x, int count, const SystemOfStep<Batch> &system,
              GhostExchange &exchange) override {
    check_cell(box_of(system).cell());    // no slab
    D *charges = charges_.data();
    Backend::for_numbers(work, "equi:ewald_charges", count,
                         ChargesOfRows<T>{channel_of<const T>(x, group_, 0, 0), group_.width(), num_channels_,
                                          weights_.data(), charges});
    system_.evaluate(work, system, count, charges, fields_.data(), exchange);
    system_.add_half(work, system, count, charges, fields_.data());
    if (self_ != 0.0)
      Backend::for_numbers(work, "equi:ewald_self", count,
                           FieldsWithoutSelf<D>{self_, charges, stride(), fields_.data()});
  }
  void forward(Batch &batch) override {
    Backend::for_numbers(batch.evaluation.work(), "equi:ewald_energy", batch.count,
                         EnergyOfCharges<D>{charges_.data() + batch.first, fields_of(batch), stride(),
                                            batch.evaluation.energy_of(0) + batch.first});
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, {0, group_.planes});
    Backend::for_numbers(batch.evaluation.work(), "equi:ewald_adjoint", batch.count * num_channels_,
                         AdjointOfCharges<T>{fields_of(batch), stride(), group_.width(), num_channels_, weights_.data(),
                                             channel_of<T>(x_adj, group_, 0, 0)});
  }
  void for_arrays(const ArrayVisitor &f) override {
    f(charges_, 1);
    f(fields_, stride());
  }
  std::size_t additional_bytes(const PeriodicBox &box, int count) const override {
    return system_.additional_bytes(box.cell_of_waves(), count);
  }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, system_, weights_); }
  std::string describe_system() const override {
    const std::string line = system_.describe("Ewald sum", bytes_of(charges_, fields_));
    return line.empty() ? line : line + SystemWaves::warning_of_charge(system_.total_charge(), system_.num_atoms());
  }

 private:
  int64_t stride() const { return system_.probe_stride(); }
  const D *fields_of(const Batch &batch) const { return fields_.data() + batch.first * stride(); }

  int input_;
  FeatureGroup group_;
  double self_;    // EwaldFunction::self()
  int64_t num_channels_;
  MultipolesOf<Backend> system_;                        // of the charges as sources and as probes
  typename Backend::template Array<double> weights_;    // [num_channels_]
  typename Backend::template Array<D> charges_;         // [receivers]
  typename Backend::template Array<D> fields_;          // [receivers][stride]: potential and its gradient
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Ewald &layer) {
  return std::make_unique<EwaldLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
