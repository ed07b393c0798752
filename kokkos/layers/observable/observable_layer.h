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

// The derivatives of an atom's energy by the numbers of a block: those of the request, or those of a dipole in a field.
struct ObservableWeights {
  const double *of_atoms;    // [count][width] from the first number of the block; null: all atoms have the same
  int64_t width;
  double scale, same[3];    // with the unit of the block
  EQUI_FUNCTION double operator()(int64_t row, int64_t m) const {
    return of_atoms ? scale * of_atoms[row * width + m] : same[m];
  }
};

// The energy of an atom that is linear in an observable, and its derivative.
template <class T>
struct ObservableEnergy {
  using D = DoubleOf<T>;
  Pointer<const T> x;
  int64_t width, stride, size;
  ObservableWeights weights;
  D *energy;
  EQUI_FUNCTION void operator()(int64_t row) const {
    D sum = 0.0;
    for (int64_t m = 0; m < size; m++) sum += weights(row, m) * static_cast<D>(x[row * width + m * stride]);
    energy[row] += sum;
  }
};
template <class R>
struct ObservableAdjoint {
  R *x_adj;
  int64_t width, stride, size;
  ObservableWeights weights;
  EQUI_FUNCTION void operator()(int64_t n) const {
    const int64_t row = n / size, m = n % size;
    x_adj[row * width + m * stride] += static_cast<R>(weights(row, m));
  }
};

template <class Backend>
class ObservableLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  ObservableLayer(const typename Backend::Context &context, const Observable &layer)
      : input_(layer.input), scale_(layer.scale), has_energy_(layer.has_energy()), has_field_(layer.has_field()) {
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
    if (!has_energy(batch)) return;
    for_blocks([&](const Block &b, int64_t offset) {
      for (int d = 0; d < batch.evaluation.num_directions(); d++)
        Backend::for_numbers(
            batch.evaluation.work(), "equi:observable_energy", batch.count,
            ObservableEnergy<T>{channel_of<const T, const R>(batch.rows(input_), b.group, b.channel, d),
                                b.group.width(), b.group.stride(), b.group.irrep.dim(), weights(batch, offset),
                                batch.evaluation.energy_of(d) + batch.first});
    });
  }
  // The derivative by the observable is constant: it has no tangents.
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, batch.evaluation.planes);
    if (batch.evaluation.tangents_alone() || !has_energy(batch)) return;
    for_blocks([&](const Block &b, int64_t offset) {
      const int64_t size = b.group.irrep.dim();
      Backend::for_numbers(batch.evaluation.work(), "equi:observable_adjoint", size * batch.count,
                           ObservableAdjoint<R>{x_adj.group(b.group) + b.channel, b.group.width(), b.group.stride(),
                                                size, weights(batch, offset)});
    });
  }

 private:
  struct Block {
    FeatureGroup group;
    int channel;
  };

  // Calls f(block, offset of its first number) for each block.
  template <class F>
  void for_blocks(const F &f) const {
    int64_t offset = offset_;
    for (const Block &b : blocks_) {
      f(b, offset);
      offset += b.group.irrep.dim();
    }
  }
  bool has_energy(const Batch &batch) const {
    return has_energy_ && (has_field_ || batch.evaluation.observable_weights);
  }
  ObservableWeights weights(const Batch &batch, int64_t offset) const {
    ObservableWeights weights{nullptr, all_, scale_, {minus_field_[0], minus_field_[1], minus_field_[2]}};
    if (!has_field_) weights.of_atoms = batch.evaluation.observable_weights + all_ * batch.first + offset;
    return weights;
  }
  void add_numbers(Batch &batch) const {
    for_blocks([&](const Block &b, int64_t offset) {
      const int64_t size = b.group.irrep.dim();
      Backend::for_numbers(
          batch.evaluation.work(), "equi:observable", size * batch.count,
          ObservableNumber<R>{batch.rows(input_).group(b.group) + b.channel, b.group.width(), b.group.stride(), size,
                              scale_, batch.evaluation.observables + all_ * batch.first + offset, all_});
    });
  }

  int input_;
  double scale_;
  bool has_energy_, has_field_;
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
