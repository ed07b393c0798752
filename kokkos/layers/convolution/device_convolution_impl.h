// SPDX-License-Identifier: MIT
// The definitions of DeviceConvolution. Only device_convolution_*.cpp include this header.
#ifndef EQUI_DEVICE_CONVOLUTION_IMPL_H
#define EQUI_DEVICE_CONVOLUTION_IMPL_H

#include "kokkos/layers/convolution/device_convolution.h"

#include "kokkos/kernel_interface/place_in_rows.h"
#include "kokkos/layer_interface/device_edge_rows.h"
#include "kokkos/layers/convolution/device_path_groups_impl.h"
#include "kokkos/layers/convolution/device_rigid_convolution_impl.h"
#include "kokkos/runtime/host_exec.h"

#include <algorithm>

namespace equi {

// The rows that the edges of a batch read as their other atoms, from the first position on.
struct OtherRows {
  const int *row;    // null: each edge has a row of its own
  KOKKOS_FUNCTION int operator[](int64_t c) const { return row ? row[c] : static_cast<int>(c); }
};
template <class R>
OtherRows other_rows(const DeviceBatchEdges &batch, const DeviceNetworkInput<R> &input) {
  return {input.of_edges ? nullptr : batch.other_row + batch.first};
}

template <class T>
DeviceConvolution<T>::DeviceConvolution(const DeviceExec &exec, const Convolution &convolution, const FeatureLayout &in,
                                        const FeatureLayout &out, int num_species, const EvaluatorOptions &options,
                                        const Kernels &kernels)
    : in_(in),
      has_edge_rows_(options.energy_moments),
      constants_(convolution, in, out, num_species, options, {ITEM_CHANNELS, DeviceTable<R>::PIECE, false}),
      path_groups_(exec, constants_.tables(), constants_.rows_per_bin(), constants_.network() ? Kernels() : kernels) {
  if constexpr (IS_DUAL<T>)
    if (options.kept_directions > 0 && !constants_.network() && !constants_.exact())
      rigid_ = std::make_unique<Rigid>(exec, convolution.product, in, out, constants_.tables().layout(),
                                       constants_.rows_per_bin());
  if (constants_.network()) {
    network_ = std::make_unique<DeviceEdgeNetwork<T>>(exec, *constants_.network());
    return;
  }
  radial_set_.emplace(exec, constants_.radial_set());
  if (constants_.exact()) return;
  const int64_t size = constants_.num_rows() * constants_.columns();
  copy_to_device(exec, table_.reserve(size), constants_.table_rows(), size);
}

template <class T>
void DeviceConvolution<T>::prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance,
                                   const int *pair, const T *y, bool with_coupled, const DeviceNetworkInput<R> &input,
                                   const DeviceRadialBins<T> *found, Scratch &scratch) const {
  const int64_t n = batch.count;
  if (with_coupled && path_groups_.reads_coupled())
    path_groups_.couple_harmonics(exec, batch, y, scratch.coupled.reserve(n * path_groups_.coupled_width()));
  if (!with_coupled || path_groups_.reads_harmonics()) scratch.harmonics = harmonics_in_order(exec, batch, y, scratch);
  if (network_) return make_weights(exec, batch, distance, pair, input, scratch);
  // Reserved even if the bins are known: a recorded evaluation that must search for them cannot let this memory
  // grow.
  DeviceEdgeRecord<T> *records = scratch.bins.records.reserve(n);
  R *bins_per_length = scratch.bins.bins_per_length.reserve(n);
  const bool is_found = found && !constants_.exact();
  scratch.records = is_found ? found->records.data() + batch.first : records;
  scratch.bins_per_length = is_found ? found->bins_per_length.data() + batch.first : bins_per_length;
  if (is_found) return;
  const OtherRows other_row = other_rows(batch, input);
  if (!constants_.exact()) {
    const DeviceBinSearch<T> find_bin = search(n, scratch.bins);
    Kokkos::parallel_for(
        "equi:radial_bins", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          if (!batch.contains(batch.first + c)) return;
          const int64_t e = batch.edge_at(batch.first + c);
          find_bin(c, distance[e], pair[e], other_row[c]);
        });
  } else if (n > 0) {
    radial_set_->fetch(exec, batch, distance, pair, scratch.edges);
    const int64_t per_edge = constants_.scratch_per_edge();
    scratch.host_rows.resize(n * per_edge);
    scratch.host_fraction.resize(n);
    scratch.host_bins.resize(n);
    scratch.host_table_row.resize(n);
    constexpr int64_t BLOCK = 64;
    parallel_with_faults("equi:radial_exact", Kokkos::RangePolicy<HostExec>(0, (n + BLOCK - 1) / BLOCK),
                         [&](int64_t block) {
                           const int64_t c = block * BLOCK, count = std::min(BLOCK, n - c);
                           constants_.radial(scratch.edges.distance.data() + c, scratch.edges.function.data() + c,
                                             count, c, n, scratch.host_rows.data(), scratch.host_table_row.data() + c,
                                             scratch.host_fraction.data() + c, scratch.host_bins.data() + c);
                         });
    int *table_row = scratch.table_row.reserve(n);
    T *fraction = scratch.fraction.reserve(n);
    copy_to_device(exec, table_row, scratch.host_table_row.data(), n);
    copy_to_device(exec, fraction, scratch.host_fraction.data(), n);
    Kokkos::parallel_for(
        "equi:edge_records", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          records[c] = {fraction[c], table_row[c], other_row[c]};
        });
    copy_to_device(exec, bins_per_length, scratch.host_bins.data(), n);
    copy_to_device(exec, scratch.exact_rows.reserve(n * per_edge), scratch.host_rows.data(), n * per_edge);
  }
}

// The kernels read the weights of an edge in its own row, and 1 as the harmonic of order 0.
template <class T>
void DeviceConvolution<T>::make_weights(const DeviceExec &exec, const DeviceBatchEdges &batch, const D *distance,
                                        const int *pair, const DeviceNetworkInput<R> &input, Scratch &scratch) const {
  const int64_t n = batch.count;
  DeviceEdgeRecord<T> *records = scratch.bins.records.reserve(n);
  scratch.records = records;
  const OtherRows batch_row = other_rows(batch, input);
  Kokkos::parallel_for(
      "equi:weights_of_edges", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
        records[c] = {T(1), static_cast<int>(c), batch_row[c]};
      });
  int *own_row = scratch.own_row.reserve(n), *other_row = scratch.other_row.reserve(n);
  network_->find_rows(exec, batch, pair, input, own_row, other_row);
  network_->forward(
      exec,
      DeviceNetworkEdges<T>{batch, distance, pair, own_row, other_row, input.x, input.of_senders, input.direction},
      scratch.network.reserve(network_->scratch_size(n)), scratch.weights.reserve(network_->weights_size(n)));
}

template <class T>
Pointer<T> DeviceConvolution<T>::weights_adj(const DeviceBatchEdges &batch, Scratch &scratch) const {
  return make_pointer<T>(scratch.weights_adj.reserve(network_->weights_size(batch.count)),
                         network_->weights_plane(batch.count));
}

template <class T>
template <PathGroupPass PASS, class F>
void DeviceConvolution<T>::launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Scratch &scratch,
                                  int64_t x_rows, int64_t out_rows, int64_t out_row, int direction,
                                  const F &prepare) const {
  const R *table = constants_.exact() ? scratch.exact_rows.data() : table_.data();
  DevicePathGroupCall<T> call{};
  call.num_atoms = batch.num_atoms;
  call.begin = batch.begin;
  call.first = batch.first;
  call.num_edges = batch.count;
  call.edges = scratch.records;
  call.coupled = scratch.coupled.data();
  call.y = scratch.harmonics;
  call.parts = scratch.parts.data();
  if (network_) {
    call.weights = make_pointer<const T>(scratch.weights.data(), network_->weights_plane(batch.count));
    call.weights_row = static_cast<int>(constants_.view().weights_row);
  }
  path_groups_.template launch<PASS>(exec, call, x_rows, out_rows, out_row, PathGroupPlanes::along(direction),
                                     [&](DevicePathGroupCall<T> &u, const ConvPathGroup<T> &path_group,
                                         const ConvPath<T> *paths, int num_paths, int64_t block) {
                                       if (network_) {    // its columns are scaled
                                         for (int q = 0; q < num_paths; q++) {
                                           u.column[q] = paths[q].column;
                                           u.scale[q] = 1;
                                         }
                                       } else {
                                         u.table = table + table_rows(batch) * path_group.first_column;
                                         u.channel_block = table_rows(batch) * path_group.row;
                                       }
                                       prepare(u, block);
                                     });
}

template <class T>
void DeviceConvolution<T>::forward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                   FeatureRows<R> out, int direction, Scratch &scratch) const {
  launch<PATH_GROUP_FORWARD>(exec, batch, scratch, x.rows, out.rows, out.first, direction,
                             [&](DevicePathGroupCall<T> &u, int64_t block) {
                               u.x = x.data + block;
                               u.out = out.data;
                             });
}

// The harmonics of the batch's edges, row after row.
template <class T>
const T *DeviceConvolution<T>::harmonics_in_order(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y,
                                                  Scratch &scratch) const {
  const int num_y = constants_.view().num_y, row = harmonics_row(num_y);
  // Reserved even if they are adjacent: a recorded evaluation in which they are not cannot let this memory grow.
  T *to = reserve_harmonics(scratch.y, batch.count, num_y);
  if (!batch.edge) return y + batch.first * row;
  Kokkos::parallel_for(
      "equi:harmonics_in_order", DeviceRange(exec, 0, batch.count * num_y), KOKKOS_LAMBDA(int64_t n) {
        const auto [c, k] = place_in_rows(n, num_y);
        if (batch.contains(batch.first + c)) to[c * row + k] = y[batch.edge_at(batch.first + c) * row + k];
      });
  return to;
}

template <class T>
void DeviceConvolution<T>::backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                    FeatureRows<const R> out_adj, int direction, D *y_adj, FeatureRows<R> x_adj,
                                    Scratch &scratch) const {
  if (batch.count == 0) return;
  T *parts = scratch.parts.reserve(path_groups_.part_size() * batch.count);
  const Pointer<T> of_weights = network_ ? weights_adj(batch, scratch) : Pointer<T>{};
  launch<PATH_GROUP_BACKWARD>(exec, batch, scratch, x.rows, out_adj.rows, out_adj.first, direction,
                              [&](DevicePathGroupCall<T> &u, int64_t block) {
                                u.x = x.data + block;
                                u.out_adj = out_adj.data;
                                u.weights_adj = of_weights;
                              });
  add_parts(exec, batch, parts, y_adj, scratch);
  if (!network_) return;
  R *of_network = scratch.network.data();
  network_->backward(exec, batch.count, of_network, scratch.weights_adj.data());
  network_->add_distance_adjoints(exec, batch, of_network, y_adj, constants_.view().num_y);
  if (x_adj.data && constants_.network()->reads_receiver())
    network_->add_atom_adjoints(exec, batch, false, of_network, x_adj);
}

template <class T>
void DeviceConvolution<T>::add_parts(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *parts, D *y_adj,
                                     const Scratch &scratch) const {
  const int num_y = constants_.view().num_y;
  launch_add_parts(
      exec, "equi:add_edge_adjoints",
      AddPartsKernel<T, D, typename PathGroups::Sums>{batch, num_y, path_groups_.sums(parts, batch.count),
                                                      network_ ? nullptr : scratch.bins_per_length, y_adj});
}

template <class T>
bool DeviceConvolution<T>::can_fuse() const {
  return !network_ && !constants_.exact() && constants_.radial_set().is_of_undirected_pairs() &&
         path_groups_.has_fused();
}

template <class T>
void DeviceConvolution<T>::fused(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                 FeatureRows<const R> out_adj, int num_receivers, D *y_adj, FeatureRows<R> x_adj,
                                 Scratch &scratch) const {
  if (batch.count == 0) return;
  T *parts = scratch.parts.reserve(path_groups_.part_size() * batch.count);
  launch<PATH_GROUP_FUSED>(exec, batch, scratch, x.rows, out_adj.rows, 0, 0,
                           [&](DevicePathGroupCall<T> &u, int64_t block) {
                             u.x = x.data + block;
                             u.x_adj = x_adj.data + block + x_adj.first * u.x_width;
                             u.out_adj = out_adj.data;
                             u.first_row = static_cast<int>(x_adj.first);
                             u.num_receivers = num_receivers;
                           });
  add_parts(exec, batch, parts, y_adj, scratch);
}

template <class T>
void DeviceConvolution<T>::gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                          FeatureRows<const R> out_adj, FeatureRows<R> x_adj, int direction,
                                          Scratch &scratch) const {
  const bool of_network = network_ && constants_.network()->reads_sender();
  const Pointer<T> of_weights = of_network ? weights_adj(batch, scratch) : Pointer<T>{};
  launch<PATH_GROUP_GATHER>(exec, batch, scratch, x_adj.rows, out_adj.rows, out_adj.first, direction,
                            [&](DevicePathGroupCall<T> &u, int64_t block) {
                              u.x = x.data + block + x.first * u.x_width;
                              u.x_adj = x_adj.data + block + x_adj.first * u.x_width;
                              u.out_adj = out_adj.data;
                              u.weights_adj = of_weights;
                            });
  if (!of_network) return;
  network_->backward(exec, batch.count, scratch.network.data(), scratch.weights_adj.data());
  network_->add_atom_adjoints(exec, batch, true, scratch.network.data(), x_adj);
}

template <class T>
DeviceNetworkInput<Real<T>> DeviceConvolution<T>::edge_rows(const DeviceExec &exec, const DeviceBatchEdges &batch,
                                                            const DeviceEdges<T> &edges,
                                                            const DeviceNetworkInput<R> &input,
                                                            Scratch &scratch) const {
  const int *sender_row = batch.other_row + batch.first, *receiver_row = nullptr;
  if (network_) {
    int *own_row = scratch.own_row.reserve(batch.count), *other_row = scratch.other_row.reserve(batch.count);
    network_->find_rows(exec, batch, edges.pair(), input, own_row, other_row);
    sender_row = other_row;
    receiver_row = own_row;
  }
  DeviceNetworkInput<R> of_edges = input;
  of_edges.x = copy_edge_rows<R>(exec, batch, edges.distance(), edges.unit_vector(), sender_row, receiver_row, in_,
                                 input.x, ALL_DIRECTIONS, in_, scratch.edge_rows);
  of_edges.of_edges = true;
  return of_edges;
}

template <class T>
void DeviceConvolution<T>::for_edge_scratch(Scratch &scratch, int64_t num_edges, const ArrayVisitor &f) const {
  if constexpr (IS_DUAL<T>)
    if (rigid_) rigid_->for_edge_scratch(scratch.rigid, num_edges, f);
  f(scratch.bins.records, num_edges);
  f(scratch.coupled, path_groups_.reads_coupled() ? num_edges * path_groups_.coupled_width() : 0);
  f(scratch.y, num_edges * harmonics_row(constants_.view().num_y));
  f(scratch.parts, num_edges * path_groups_.part_size());
  if (has_edge_rows_) f(scratch.edge_rows, (network_ ? 2 : 1) * num_edges * in_.row_size());
  if (network_) {
    f(scratch.own_row, num_edges);
    f(scratch.other_row, num_edges);
    f(scratch.network, network_->scratch_size(num_edges));
    f(scratch.weights, network_->weights_size(num_edges));
    f(scratch.weights_adj, network_->weights_size(num_edges));
    return;
  }
  f(scratch.bins.bins_per_length, num_edges);
  if (!constants_.exact()) return;
  f(scratch.table_row, num_edges);
  f(scratch.fraction, num_edges);
  f(scratch.exact_rows, num_edges * constants_.scratch_per_edge());
}

}    // namespace equi

#endif
