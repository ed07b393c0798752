// SPDX-License-Identifier: MIT
// The readout. The network is evaluated in float64, because its sum is the energy.
#ifndef EQUI_READOUT_LAYER_H
#define EQUI_READOUT_LAYER_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layers/readout/device_readout.h"
#include "kokkos/layers/readout/host_readout.h"
#include "src/layers/readout.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>

namespace equi {

// x_adj += the adjoint, or only its tangents.
template <class T>
struct ReadoutAdjoints {
  const T *adjoint;    // [rows][num_inputs]
  Pointer<T> x_adj;
  int64_t width, num_inputs;    // numbers of a row of x_adj and of the adjoint
  bool tangents_alone;

  template <int LANES>
  EQUI_FUNCTION void channels(int64_t row, int u) const {
    for (int c = u; c < u + LANES && c < num_inputs; c++) {
      const T more = adjoint[row * num_inputs + c];
      const int64_t at = row * width + c;
      put(x_adj, at, x_adj[at] + (tangents_alone ? make_number<T>(Real<T>(0), tangent_of(more)) : more));
    }
  }
};

template <class Backend>
class ReadoutLayer : public BatchLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using R = typename Batch::R;

 public:
  ReadoutLayer(const typename Backend::Context &context, const Readout &layer)
      : input_(layer.input),
        block_(context.layout(input_).block(layer.block)),
        group_(context.layout(input_).group(block_.group)),
        directions_(context.plan.max_directions()),
        readout_(context.target(), simplified(layer.network), group_, block_.channel) {
    Backend::copy(context.target(), context.scale, scale_);
  }
  void forward(Batch &batch) override {
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      readout_.forward(batch, batch.rows(input_), scale_.data(), adjoint_of(batch, d), d);
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) batch.zero_planes(batch.layout(input_), x_adj, batch.evaluation.planes);
    for (int d = 0; d < batch.evaluation.num_directions(); d++)
      Backend::for_channels(batch.evaluation.work(), "equi:readout_adjoint", batch.count, block_.mul,
                            ReadoutAdjoints<T>{adjoint_of(batch, d), channel_of<T>(x_adj, group_, block_.channel, d),
                                               group_.width(), block_.mul, batch.evaluation.tangents_alone()});
  }
  void for_arrays(const ArrayVisitor &f) override { f(adjoint_, static_cast<int64_t>(directions_) * block_.mul); }
  void for_memory(const MemoryVisitor &f) const override { visit_memory(f, readout_, scale_); }

 private:
  static Network simplified(Network network) {
    network.simplify();
    return network;
  }
  T *adjoint_of(const Batch &batch, int direction) const {
    return adjoint_.data() +
           (static_cast<int64_t>(direction) * batch.evaluation.num_receivers + batch.first) * block_.mul;
  }

  int input_;
  FeatureBlock block_;
  FeatureGroup group_;
  int directions_;    // number of directions in an evaluation
  typename Backend::template Choose<HostReadout<T>, DeviceReadout<T>> readout_;
  typename Backend::template Array<double> scale_;    // per species
  typename Backend::template Array<T> adjoint_;       // [directions][receivers][inputs], for an energy of one
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Readout &layer) {
  return std::make_unique<ReadoutLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
