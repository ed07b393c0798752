// SPDX-License-Identifier: MIT
// Quantities of atoms besides the energy, and the energy of dipoles in a field.
#ifndef EQUI_OBSERVABLE_LAYER_H
#define EQUI_OBSERVABLE_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "src/layers/observable.h"
#include "src/numbers/dual.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace equi {

// Adds scale x to number n % size of an atom. x: a block of one channel.
template <class R>
struct ObservableNumber {
  const R *x;
  int64_t width, stride, size;
  double scale;
  double *to;    // [count][to_width]
  int64_t to_width;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t row = n / size, m = n % size;
    to[row * to_width + m] += scale * static_cast<double>(x[row * width + m * stride]);
  }
};

// The energy of an atom's dipole in a field, and its derivative by the dipole.
template <class T>
struct FieldEnergy {
  using D = DoubleOf<T>;
  Pointer<const T> x;
  int64_t width, stride;
  double minus_field[3];    // times the unit of the dipole
  D *energy;
  EQUI_FUNCTION void operator()(int64_t row) const {
    D sum = 0.0;
    for (int m = 0; m < 3; m++) sum += minus_field[m] * static_cast<D>(x[row * width + m * stride]);
    energy[row] += sum;
  }
};
template <class R>
struct FieldAdjoint {
  R *x_adj;
  int64_t width, stride;
  double minus_field[3];
  EQUI_FUNCTION void operator()(int64_t n) const {
    x_adj[n / 3 * width + n % 3 * stride] += static_cast<R>(minus_field[n % 3]);
  }
};

template <class Backend>
class ObservableLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  ObservableLayer(const typename Backend::Context &context, const Observable &layer)
      : input_(layer.input), scale_(layer.scale), has_field_(layer.has_field()) {
    const FeatureLayout &layout = context.layout(input_);
    for (const int block : layer.blocks) {
      const FeatureBlock &of = layout.block(block);
      blocks_.push_back({layout.group(of.group), of.channel});
    }
    offset_ = context.model.observable_offset(layer.name);
    all_ = context.model.num_observable_numbers();
    for (int k = 0; k < 3; k++) minus_field_[k] = -layer.scale * layer.field[k];
  }

  void forward(Batch &batch) override {
    if (batch.evaluation.observables) add_numbers(batch);
    for (int d = 0; has_field_ && d < batch.evaluation.num_directions(); d++) {
      const Block &b = blocks_.front();
      FieldEnergy<T> energy{channel_of<const T, const R>(batch.rows(input_), b.group, b.channel, d),
                            b.group.width(),
                            b.group.stride(),
                            {},
                            batch.evaluation.energy_of(d) + batch.first};
      for (int k = 0; k < 3; k++) energy.minus_field[k] = minus_field_[k];
      Backend::for_numbers(batch.evaluation.work(), "equi:field_energy", batch.count, energy);
    }
  }
  // The derivative by the dipole is constant: it has no tangents.
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, batch.evaluation.planes);
    if (batch.evaluation.tangents_alone()) return;
    const Block &b = blocks_.front();
    FieldAdjoint<R> adjoint{x_adj.group(b.group) + b.channel, b.group.width(), b.group.stride(), {}};
    for (int k = 0; k < 3; k++) adjoint.minus_field[k] = minus_field_[k];
    Backend::for_numbers(batch.evaluation.work(), "equi:field_adjoint", 3 * static_cast<int64_t>(batch.count), adjoint);
  }

 private:
  struct Block {
    FeatureGroup group;
    int channel;
  };

  void add_numbers(Batch &batch) const {
    int64_t offset = offset_;
    for (const Block &b : blocks_) {
      const int64_t size = b.group.irrep.dim();
      Backend::for_numbers(
          batch.evaluation.work(), "equi:observable", size * batch.count,
          ObservableNumber<R>{batch.rows(input_).group(b.group) + b.channel, b.group.width(), b.group.stride(), size,
                              scale_, batch.evaluation.observables + all_ * batch.first + offset, all_});
      offset += size;
    }
  }

  int input_;
  double scale_;
  bool has_field_;
  std::vector<Block> blocks_;
  int64_t offset_ = 0, all_ = 0;    // EvaluationRequest::observables
  double minus_field_[3];
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Observable &layer) {
  return std::make_unique<ObservableLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
