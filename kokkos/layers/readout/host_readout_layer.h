// SPDX-License-Identifier: MIT
// The readout on the host. The network is evaluated in float64, because its sum is the energy.
#ifndef EQUI_HOST_READOUT_LAYER_H
#define EQUI_HOST_READOUT_LAYER_H

#include "kokkos/layers/batch_layer.h"
#include "kokkos/layers/host_batch.h"

#include <algorithm>
#include <vector>

namespace equi {

template <class T, class G>
class HostReadoutLayer : public BatchLayer<HostBatch<T, G>> {
  using R = Real<T>;

 public:
  HostReadoutLayer(const HostContext &context, const Readout &layer)
      : input_(layer.input),
        block_(context.layout(input_).block(layer.block)),
        group_(context.layout(input_).group(block_.group)),
        network_(simplified(layer.network)),
        scale_(context.scale),
        planes_(context.plan.planes) {}

  void forward(HostBatch<T, G> &batch) override {
    const R *x = batch.rows(input_).group(group_) + block_.channel;
    constexpr int P = PLANES<T>;
    const int mul = block_.mul, most = std::min(batch.count, ROWS);
    double *in = reinterpret_cast<double *>(
               batch.scratch.kernel.reserve(sizeof(double) * P * (most * (2 * mul + 1) + network_.scratch_size(most)))),
           *gradient = in + P * most * mul, *value = gradient + P * most * mul, *scratch = value + P * most;
    for (int d = 0; d < batch.evaluation.num_directions(); d++) {
      const int plane[2] = {0, 1 + d};
      for (int first = 0; first < batch.count; first += ROWS) {
        const int count = std::min(ROWS, batch.count - first);
        for (int a = 0; a < count; a++)
          for (int p = 0; p < P; p++)
            std::copy_n(x + static_cast<int64_t>(first + a) * group_.width() + plane[p] * group_.channels, mul,
                        in + (a * P + p) * mul);
        network_.template evaluate<DoubleOf<T>>(count, in, value, gradient, scratch);
        for (int a = 0; a < count; a++) {
          const double scale = scale_[batch.species[first + a]];
          batch.evaluation.energy_of(batch.first + first + a, d) +=
              scale * make_pointer<const DoubleOf<T>>(value + a * P, 1)[0];
          R *adjoint = adjoint_of(batch, first + a);
          for (int p = 0; p < P; p++)
            for (int u = 0; u < mul; u++)
              adjoint[plane[p] * mul + u] = static_cast<R>(scale * gradient[(a * P + p) * mul + u]);
        }
      }
    }
  }
  void backward(HostBatch<T, G> &batch) override {
    const FeatureRows<R> x_adj = batch.rows(input_, true);
    if (!batch.adds(input_)) set_to_zero(x_adj, batch.layout(input_), batch.count, batch.evaluation.planes);
    R *to = x_adj.group(group_) + block_.channel;
    for (int a = 0; a < batch.count; a++)
      for (int p = batch.evaluation.planes.begin; p < batch.evaluation.planes.end; p++)
        for (int u = 0; u < block_.mul; u++)
          to[static_cast<int64_t>(a) * group_.width() + p * group_.channels + u] +=
              adjoint_of(batch, a)[p * block_.mul + u];
  }
  void for_arrays(const ArrayVisitor &f) override { f(adjoint_, planes_ * block_.mul); }

 private:
  // Number of atoms at a time: the weights of wide networks are read once for several atoms, and the intermediate
  // numbers fit in a cache.
  static constexpr int ROWS = 16;

  static NetworkGradient simplified(Network network) {
    network.simplify();
    return NetworkGradient(network);
  }
  R *adjoint_of(const HostBatch<T, G> &batch, int a) const {
    return adjoint_.data() + static_cast<int64_t>(batch.first + a) * planes_ * block_.mul;
  }

  int input_;
  FeatureBlock block_;
  FeatureGroup group_;
  NetworkGradient network_;
  std::vector<double> scale_;
  int planes_;
  Buffer<R> adjoint_;    // [receivers][planes][mul] of the input, for an energy of one
};

}    // namespace equi

#endif
