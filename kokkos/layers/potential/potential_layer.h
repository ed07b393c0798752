// SPDX-License-Identifier: MIT
// Potentials of the multipoles of all atoms and of their periodic images (src/layers/potential.h).
#ifndef EQUI_POTENTIAL_LAYER_H
#define EQUI_POTENTIAL_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/device_backend.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/host_backend.h"
#include "kokkos/layers/potential/host_system_potential.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace equi {

// Sums run in float64, whatever the precision of the features. Batches copy the adjoint of the output; after the last
// one, the sum over all atoms gives the adjoint of the input.
template <class T>
class HostPotentialLayer : public SystemSumLayer<HostBatch<T>> {
  using Batch = HostBatch<T>;
  using D = DoubleOf<T>;
  using R = typename Batch::R;

 public:
  HostPotentialLayer(const HostContext &context, const Potential &layer)
      : layer_(layer),
        in_(context.layout(layer.input)),
        out_(context.layout(layer.output)),
        system_(layer, context.options.wave_vectors, context.options.open) {}

  void sum_up(const HostKernels<T> &, FeatureRows<const R> x, int count, const HostSystem &system,
              GhostExchange &exchange) override {
    system_.set_count(count);
    for (int64_t i = 0; i < count; i++)
      for (int c = 0; c < layer_.channels; c++)
        for (int n = 0; n < (layer_.has_dipoles ? 4 : 1); n++)
          system_.sources(i)[4 * c + n] = static_cast<D>(number<const T>(in_, x, i, c, n)[0]);
    system_.evaluate(system, exchange);
  }
  void forward(Batch &batch) override {
    const FeatureRows<R> x = batch.rows(layer_.input), y = batch.rows(layer_.output);
    batch.zero_planes(out_, y, {0, out_.planes()});
    for_numbers(batch, [&](int64_t a, int64_t i, int c, int w, int n) {
      const D source = layer_.has_dipoles || n == 0 ? static_cast<D>(number<const T>(in_, x, a, c, n)[0]) : D(0.0);
      const D felt = D(factor(w, n)) * system_.of_probes(i)[4 * probe(c, w) + n] - D(own(w, n)) * source;
      put(number<T>(out_, y, a, probe(c, w), n), 0, static_cast<T>(felt));
    });
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(layer_.input, true), y_adj = batch.rows(layer_.output, true);
    if (!batch.adds(layer_.input)) batch.zero_planes(in_, x_adj, {0, in_.planes()});
    for_numbers(batch, [&](int64_t a, int64_t i, int c, int w, int n) {
      const D adjoint = static_cast<D>(number<const T>(out_, FeatureRows<const R>(y_adj), a, probe(c, w), n)[0]);
      system_.probes(i)[4 * probe(c, w) + n] = D(factor(w, n)) * adjoint;
      if (layer_.has_dipoles || n == 0) add(x_adj, a, c, n, -(D(own(w, n)) * adjoint));
    });
  }
  void sum_adjoint(const HostKernels<T> &, FeatureRows<R> x_adj, int count, const HostSystem &system,
                   GhostExchange &exchange) override {
    system_.evaluate_adjoint(system, exchange);
    for (int64_t i = 0; i < count; i++)
      for (int c = 0; c < layer_.channels; c++)
        for (int n = 0; n < (layer_.has_dipoles ? 4 : 1); n++) add(x_adj, i, c, n, system_.of_sources(i)[4 * c + n]);
  }
  std::size_t additional_bytes(const PeriodicVectors &cell, int count) const override {
    return system_.additional_bytes(cell, count);
  }
  std::size_t bytes() const override { return system_.bytes(); }
  std::string describe_system() const override { return system_.describe(); }

 private:
  // Number n of channel c of a row: the scalar, or component n - 1 of the vector.
  template <class N, class Q>
  static Pointer<N> number(const FeatureLayout &layout, FeatureRows<Q> rows, int64_t row, int c, int n) {
    const FeatureGroup &group = layout.group(n == 0 ? 0 : 1);
    return channel_of<N>(rows, group, c, 0) + (row * group.width() + (n == 0 ? 0 : n - 1) * group.stride());
  }
  void add(FeatureRows<R> x_adj, int64_t row, int c, int n, D more) const {
    const Pointer<T> to = number<T>(in_, x_adj, row, c, n);
    put(to, 0, static_cast<T>(static_cast<D>(to[0]) + more));
  }
  // Calls f(row of the batch, receiver, channel, width, number) for the numbers of the output.
  template <class F>
  void for_numbers(const Batch &batch, const F &f) const {
    for (int64_t a = 0; a < batch.count; a++)
      for (int c = 0; c < layer_.channels; c++)
        for (int w = 0; w < num_widths(); w++)
          for (int n = 0; n < (layer_.has_gradients ? 4 : 1); n++) f(a, batch.first + a, c, w, n);
  }
  int num_widths() const { return static_cast<int>(layer_.function.widths.size()); }
  int probe(int c, int w) const { return c * num_widths() + w; }
  double factor(int w, int n) const { return layer_.factors[n > 0][w]; }
  double own(int w, int n) const { return system_.is_open() ? -layer_.open->added[n > 0][w] : layer_.own[n > 0][w]; }

  Potential layer_;
  FeatureLayout in_, out_;
  HostSystemPotential<D> system_;
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Potential &layer) {
  using T = typename Backend::Number;
  if constexpr (std::is_same_v<Backend, HostBackend<T>>)
    return std::make_unique<HostPotentialLayer<T>>(context, layer);
  else
    throw std::invalid_argument(
        "the layer potential runs on CPUs alone: use the keyword 'kernels host', or a LAMMPS without GPUs");
}

}    // namespace equi

#endif
