// SPDX-License-Identifier: MIT
// Potentials of the multipoles of all atoms and of their periodic images (src/layers/potential.h).
#ifndef EQUI_POTENTIAL_LAYER_H
#define EQUI_POTENTIAL_LAYER_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layers/potential/boundary_potential.h"
#include "kokkos/wave_sums/wave_sums.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace equi {

// Multipoles in rows of a feature. Number n of channel c is the scalar, or component n - 1 of the vector.
template <class T>
struct MultipoleRows {
  Pointer<T> scalars, vectors;
  int64_t width, vector_width, stride;    // numbers of a row; distance of the components of a vector
  EQUI_FUNCTION Pointer<T> at(int64_t row, int c, int n) const {
    return n == 0 ? scalars + (row * width + c) : vectors + (row * vector_width + (n - 1) * stride + c);
  }
};
template <class T, class R>
MultipoleRows<T> multipole_rows(const FeatureLayout &layout, FeatureRows<R> rows, bool has_vectors) {
  const FeatureGroup &scalars = layout.group(0);
  MultipoleRows<T> all{channel_of<T>(rows, scalars, 0, 0), {}, scalars.width(), 0, 0};
  if (!has_vectors) return all;
  const FeatureGroup &vectors = layout.group(1);
  all.vectors = channel_of<T>(rows, vectors, 0, 0);
  all.vector_width = vectors.width();
  all.stride = vectors.stride();
  return all;
}

// Sizes of a layer, which its kernels share.
struct PotentialSizes {
  int channels, num_widths, source_components, probe_components;
  int64_t stride;    // of fields that act on probes
};

template <class T>
struct SourcesOfRows {
  using D = DoubleOf<T>;
  PotentialSizes sizes;
  MultipoleRows<const T> x;
  D *sources;    // [receivers][channels][components]
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int components = sizes.source_components, n = static_cast<int>(k % components),
              c = static_cast<int>(k / components % sizes.channels);
    sources[k] = static_cast<D>(x.at(k / components / sizes.channels, c, n)[0]);
  }
};
template <class T>
struct PotentialOfFields {
  using D = DoubleOf<T>;
  PotentialSizes sizes;
  const double *factors, *own;    // [2][widths]
  MultipoleRows<const T> x;
  const D *fields, *more;    // null: none; more: [rows][columns][4]
  MultipoleRows<T> y;
  // k: number of row, channel, width and component
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int components = sizes.probe_components, n = static_cast<int>(k % components),
              w = static_cast<int>(k / components % sizes.num_widths), f = (n > 0 ? sizes.num_widths : 0) + w;
    const int64_t plane = k / components, row = plane / sizes.num_widths / sizes.channels;
    const int c = static_cast<int>(plane / sizes.num_widths % sizes.channels);
    D felt(0.0);
    if (fields) felt += factors[f] * fields[plane * sizes.stride + n];
    if (more) felt += factors[f] * more[4 * plane + n];
    if (n < sizes.source_components) felt -= own[f] * static_cast<D>(x.at(row, c, n)[0]);
    put(y.at(row, c * sizes.num_widths + w, n), 0, static_cast<T>(felt));
  }
};
template <class T>
struct ProbesOfAdjoint {
  using D = DoubleOf<T>;
  PotentialSizes sizes;
  const double *factors, *own;
  MultipoleRows<const T> y_adj;
  D *probes;    // [receivers][channels][widths][components]
  MultipoleRows<T> x_adj;
  // k: number of row, channel and component
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int components = sizes.probe_components, n = static_cast<int>(k % components),
              c = static_cast<int>(k / components % sizes.channels);
    const int64_t row = k / components / sizes.channels;
    D of_own(0.0);
    for (int w = 0; w < sizes.num_widths; w++) {
      const int f = (n > 0 ? sizes.num_widths : 0) + w;
      const D adjoint = static_cast<D>(y_adj.at(row, c * sizes.num_widths + w, n)[0]);
      probes[((row * sizes.channels + c) * sizes.num_widths + w) * components + n] = factors[f] * adjoint;
      of_own -= own[f] * adjoint;
    }
    if (n >= sizes.source_components) return;
    const Pointer<T> to = x_adj.at(row, c, n);
    put(to, 0, static_cast<T>(static_cast<D>(to[0]) + of_own));
  }
};
template <class T>
struct AdjointOfSources {
  using D = DoubleOf<T>;
  PotentialSizes sizes;
  int64_t stride;
  const D *fields, *more;    // [receivers][channels][stride], and [4] of each; null: none
  MultipoleRows<T> x_adj;
  EQUI_FUNCTION void operator()(int64_t k) const {
    const int components = sizes.source_components, n = static_cast<int>(k % components),
              c = static_cast<int>(k / components % sizes.channels);
    const Pointer<T> to = x_adj.at(k / components / sizes.channels, c, n);
    D sum = static_cast<D>(to[0]);
    if (fields) sum += fields[k / components * stride + n];
    if (more) sum += more[4 * (k / components) + n];
    put(to, 0, static_cast<T>(sum));
  }
};

// Sums run in float64, whatever the precision of the features. Batches copy the adjoint of the output; after the last
// one, the sum over all atoms gives the adjoint of the input.
template <class Backend>
class PotentialLayer : public SystemSumLayer<typename Backend::Batch> {
  using T = typename Backend::Number;
  using Batch = typename Backend::Batch;
  using D = DoubleOf<T>;
  using R = typename Batch::R;

 public:
  PotentialLayer(typename Backend::Context &context, const Potential &layer)
      : layer_(layer),
        in_(context.layout(layer.input)),
        out_(context.layout(layer.output)),
        system_(make_system_multipoles<Backend>(context, layer.function, layer.channels, layer.has_dipoles,
                                                layer.has_gradients, layer.cutoff, layer.wave_vectors)),
        boundary_(layer, context.options.open),
        sizes_{layer.channels, static_cast<int>(layer.function.widths.size()), system_.source_components(),
               system_.probe_components(), system_.probe_stride()} {
    const auto joined = [](const std::array<std::vector<double>, 2> &by_degree) {
      std::vector<double> all = by_degree[0];
      all.insert(all.end(), by_degree[1].begin(), by_degree[1].end());
      return all;
    };
    Backend::copy(context.target(), joined(layer.factors), factors_);
    Backend::copy(context.target(), joined(layer.own), own_);
    std::array<std::vector<double>, 2> removed;    // in open systems
    if (layer.open) removed = layer.open->added;
    for (auto &numbers : removed)
      for (double &number : numbers) number = -number;
    Backend::copy(context.target(), joined(removed), own_in_open_system_);
  }

  void sum_up(const typename Batch::Work &work, FeatureRows<const R> x, int count, const SystemOfStep<Batch> &system,
              GhostExchange &exchange) override {
    boundary_.begin(system);
    Backend::for_numbers(
        work, "equi:potential_sources", count * system_.num_sources(),
        SourcesOfRows<T>{sizes_, multipole_rows<const T>(in_, x, layer_.has_dipoles), sources_.data()});
    if (!boundary_.is_open()) system_.evaluate(work, system, count, sources_.data(), fields_.data(), exchange);
    boundary_.evaluate(work, system, count, sources_.data(), sizes_.source_components, exchange);
  }
  void forward(Batch &batch) override {
    const FeatureRows<R> x = batch.rows(layer_.input), y = batch.rows(layer_.output);
    batch.zero_planes(out_, y, {0, out_.planes()});    // also its padding
    Backend::for_numbers(
        batch.evaluation.work(), "equi:potential", batch.count * system_.num_probes(),
        PotentialOfFields<T>{
            sizes_, factors_.data(), own(), multipole_rows<const T>(in_, x, layer_.has_dipoles),
            boundary_.is_open() ? nullptr : fields_.data() + batch.first * system_.num_columns() * sizes_.stride,
            boundary_.of_probes(batch.first), multipole_rows<T>(out_, y, layer_.has_gradients)});
  }
  void backward(Batch &batch) override {
    const FeatureRows<R> x_adj = batch.rows(layer_.input, true), y_adj = batch.rows(layer_.output, true);
    if (!batch.adds(layer_.input)) batch.zero_planes(in_, x_adj, {0, in_.planes()});
    Backend::for_numbers(
        batch.evaluation.work(), "equi:potential_adjoint",
        static_cast<int64_t>(batch.count) * sizes_.channels * sizes_.probe_components,
        ProbesOfAdjoint<T>{sizes_, factors_.data(), own(), multipole_rows<const T>(out_, y_adj, layer_.has_gradients),
                           probes_.data() + batch.first * system_.num_probes(),
                           multipole_rows<T>(in_, x_adj, layer_.has_dipoles)});
  }
  void sum_adjoint(const typename Batch::Work &work, FeatureRows<R> x_adj, int count, const SystemOfStep<Batch> &system,
                   GhostExchange &exchange) override {
    if (!boundary_.is_open())
      system_.evaluate_adjoint(work, system, count, sources_.data(), fields_.data(), probes_.data(), adjoints_.data(),
                               exchange);
    boundary_.evaluate_adjoint(work, system, count, probes_.data(), sizes_.probe_components, exchange);
    Backend::for_numbers(
        work, "equi:potential_sources", count * system_.num_sources(),
        AdjointOfSources<T>{sizes_, system_.source_stride(), boundary_.is_open() ? nullptr : adjoints_.data(),
                            boundary_.of_sources(0), multipole_rows<T>(in_, x_adj, layer_.has_dipoles)});
  }
  void for_arrays(const ArrayVisitor &f) override {
    f(sources_, system_.num_sources());
    f(probes_, system_.num_probes());
    f(fields_, system_.num_columns() * system_.probe_stride());
    f(adjoints_, sizes_.channels * system_.source_stride());
  }
  std::size_t additional_bytes(const PeriodicBox &box, int count) const override {
    return system_.additional_bytes(box.cell_of_waves(), count) + boundary_.additional_bytes(box, count);
  }
  void for_memory(const MemoryVisitor &f) const override {
    visit_memory(f, system_, boundary_, factors_, own_, own_in_open_system_);
  }
  std::string describe_system() const override {
    if (boundary_.is_open()) return boundary_.describe();
    return system_.describe("potentials of multipoles", bytes_of(sources_, probes_, fields_, adjoints_));
  }

 private:
  template <class N>
  using Array = typename Backend::template Array<N>;
  const double *own() const { return boundary_.is_open() ? own_in_open_system_.data() : own_.data(); }
  Potential layer_;
  FeatureLayout in_, out_;
  MultipolesOf<Backend> system_;
  BoundaryPotential<typename Backend::template Choose<SystemOnHost<D>, SystemOnDevice<D>>> boundary_;
  PotentialSizes sizes_;
  Array<double> factors_, own_, own_in_open_system_;    // [2][widths]: scalars, vectors
  Array<D> sources_, probes_, fields_, adjoints_;       // of the receivers; adjoints_: fields that act on the sources
};

template <class Backend>
PreparedLayer<Backend> prepare_layer(typename Backend::Context &context, const Potential &layer) {
  return std::make_unique<PotentialLayer<Backend>>(context, layer);
}

}    // namespace equi

#endif
