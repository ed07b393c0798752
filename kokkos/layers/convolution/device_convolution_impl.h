// SPDX-License-Identifier: MIT
// The definitions of DevicePathGroups and DeviceConvolution. Only device_convolution_*.cpp and
// device_edge_convolution.cpp include this header.
#include "kokkos/layers/convolution/device_convolution.h"

#include "kokkos/runtime/host_exec.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <stdexcept>

namespace equi {

namespace {

template <class T>
struct CoupledHarmonicsKernel {
  DeviceBatchEdges batch;
  int width, num_y;
  const int *begin, *y_index;
  const Real<T> *value;
  const T *y;
  T *coupled;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t position = batch.first + n / width;
    if (!batch.contains(position)) return;
    const int64_t e = batch.edge_at(position);
    const int k = static_cast<int>(n % width);
    T sum = 0;
    for (int t = begin[k]; t < begin[k + 1]; t++) sum += value[t] * y[e * num_y + y_index[t]];
    coupled[n] = sum;
  }
};

template <class T, class G, class Sums>
struct AddPartsKernel {
  DeviceBatchEdges batch;
  int num_y;
  Sums sums;
  const Real<T> *bins_per_length;    // null: what makes the weights knows their derivatives by the distance
  G *y_adj;                          // of the batch's first edge
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const int64_t c = n / num_y;
    if (!batch.contains(batch.first + c)) return;
    const int k = static_cast<int>(n % num_y);
    if (k == 0 && !bins_per_length) return;
    const T total = sums(c, k);
    y_adj[n] += static_cast<G>(k == 0 ? total * bins_per_length[c] : total);
  }
};

// f(rows per bin as a type) for the generic kernel, 1 for weights of edges.
template <bool OF_EDGES, class F>
void with_rows(int rows, const F &f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if constexpr (!OF_EDGES) {
    if (rows == 2)
      f(std::integral_constant<int, 2>{});
    else if (rows == 3)
      f(std::integral_constant<int, 3>{});
    else if (rows == 4)
      f(std::integral_constant<int, 4>{});
    else
      f(std::integral_constant<int, 6>{});
  }
}

}    // namespace

// ---- construction
// ---------------------------------------------------------------------------------------------------------

template <class T, class Kernel>
DevicePathGroups<T, Kernel>::DevicePathGroups(const DeviceExec &exec, const ConvolutionTables<T> &product,
                                              int rows_per_bin, const Kernels &kernels)
    : product_(product), rows_per_bin_(rows_per_bin) {
  using R = Real<T>;
  using Body = GenericBody<T>;
  const ConvolutionView<T> &tables = product.view();
  num_y_ = tables.num_y;
  std::vector<int> coupled_begin{0}, coupled_y;
  std::vector<R> coupled_value;
  std::vector<typename Body::Path> generic_paths;
  std::vector<typename Body::Entry> entries;
  std::vector<typename Body::Coupling> couplings;
  std::vector<std::vector<PartOfSum>> sums(num_y_);
  std::vector<std::string> keys;
  for (const PathGroupSchedule &schedule : product.schedules()) keys.push_back(schedule.shape.key());
  Kernels usable;
  for (const Kernel *kernel : kernels)
    if (kernel->launcher(PATH_GROUP_FORWARD, rows_per_bin)) usable.push_back(kernel);
  launches_ = choose_launches(keys, usable);
  std::vector<const DevicePathGroupRuns *> runs(keys.size());    // of path groups with a generated kernel
  for (const Launch &launch : launches_)
    for (int k = 0; k < MAX_LAUNCH_PATH_GROUPS; k++)
      if (launch.parts[k] >= 0) runs[launch.parts[k]] = &launch.kernel->path_groups[k];
  int lmax = 0;
  for (int n = 0; n < tables.num_path_groups; n++) {
    const ConvPathGroup<T> &path_group = tables.path_groups[n];
    const PathGroupSchedule &schedule = product.schedules()[n];
    first_coupled_.push_back(coupled_width_);
    for (const LinearForm &form : schedule.coupled) {
      for (const auto &t : form.terms) {
        coupled_y.push_back(t.index);
        coupled_value.push_back(static_cast<R>(t.coefficient));
      }
      coupled_begin.push_back(static_cast<int>(coupled_y.size()));
    }
    coupled_width_ += (path_group.num_coupled + 3) / 4 * 4;    // loads of four numbers
    coupled_begin.resize(coupled_width_ + 1, static_cast<int>(coupled_y.size()));

    const int most = runs[n] ? path_group.num_paths : MAX_CALL_PATHS;
    const int channel_blocks = (path_group.channels + ITEM_CHANNELS - 1) / ITEM_CHANNELS;
    // What one run leaves: the derivatives by these harmonics, channel block after channel block.
    const auto add_run = [&](int num_sums, const std::function<int(int)> &harmonic) {
      for (int k = 0; k < channel_blocks; k++, part_size_ += num_sums)
        for (int k = 0; k < num_sums; k++) sums[harmonic(k)].push_back({part_size_, num_sums, k});
    };
    for (int first = 0; first < path_group.num_paths; first += most) {
      const int num_paths = std::min(most, path_group.num_paths - first);
      parts_.push_back(
          {!runs[n], n, path_group.first_path + first, num_paths, static_cast<int>(generic_paths.size()), part_size_});
      if (runs[n]) {
        const int *harmonic = runs[n]->sums;
        for (int g = 0; g < runs[n]->num_runs; harmonic += runs[n]->num_sums[g++])
          add_run(runs[n]->num_sums[g], [&](int k) { return harmonic[k]; });
        continue;
      }
      int first_sum = 0;
      for (int q = first; q < first + num_paths; q++) {
        const PathSchedule &path = schedule.paths[q];
        lmax = std::max({lmax, path_group.l1, path.l2, path.l3});
        typename Body::Path p{path.l2,
                              path.l3,
                              q * ITEM_CHANNELS,
                              static_cast<int>(entries.size()),
                              0,
                              static_cast<int>(couplings.size()),
                              0,
                              first_sum};
        for (const auto &e : path.m) entries.push_back({e.m1, e.m3, e.coupled, static_cast<R>(e.sign)});
        for (const auto &e : path.d_entries)
          for (const auto &t : path.d[e.d].terms)
            couplings.push_back({e.m1, e.m2, t.index, static_cast<R>(e.sign * t.coefficient)});
        p.num_entries = static_cast<int>(entries.size()) - p.first_entry;
        p.num_couplings = static_cast<int>(couplings.size()) - p.first_coupling;
        generic_paths.push_back(p);
        first_sum += p.num_sums();
        add_run(p.num_sums(), [&](int k) { return k == 0 ? 0 : path.l2 * path.l2 + k - 1; });
      }
    }
  }
  if (lmax > LMAX_ANY)
    throw std::invalid_argument("a convolution of order l = " + std::to_string(lmax) +
                                "; the device evaluation has orders up to " + std::to_string(LMAX_ANY));
  number_parts();
  std::vector<int> sum_begin{0};
  std::vector<PartOfSum> sum_parts;
  for (const auto &s : sums) {
    sum_parts.insert(sum_parts.end(), s.begin(), s.end());
    sum_begin.push_back(static_cast<int>(sum_parts.size()));
  }
  assign(exec, coupled_begin_, coupled_begin);
  assign(exec, coupled_y_, coupled_y);
  assign(exec, coupled_value_, coupled_value);
  assign(exec, generic_paths_, generic_paths);
  assign(exec, entries_, entries);
  assign(exec, couplings_, couplings);
  assign(exec, sum_begin_, sum_begin);
  assign(exec, sum_parts_, sum_parts);
}

// Few launches: again and again the kernel that takes most of the path groups that are left, of several the one with
// the fewest of its own. The parts are numbers of path groups.
template <class T, class Kernel>
std::vector<typename DevicePathGroups<T, Kernel>::Launch> DevicePathGroups<T, Kernel>::choose_launches(
    std::vector<std::string> keys, const Kernels &kernels) {
  std::vector<Launch> launches;
  for (;;) {
    Launch best{nullptr, {}};
    int most = 0;
    for (const Kernel *kernel : kernels) {
      Launch launch{kernel, {}};
      launch.parts.fill(-1);
      int num = 0;
      for (int k = 0; k < kernel->num_path_groups; k++) {
        const auto found = std::find(keys.begin(), keys.end(), kernel->path_groups[k].key);
        if (found == keys.end()) continue;
        launch.parts[k] = static_cast<int>(found - keys.begin());
        num++;
      }
      if (num > most || (num > 0 && num == most && kernel->num_path_groups < best.kernel->num_path_groups)) {
        most = num;
        best = launch;
      }
    }
    if (!best.kernel) return launches;
    for (int n : best.parts)
      if (n >= 0) keys[n] = "";
    launches.push_back(best);
  }
}

// Replaces path groups by parts in the launches, adds launches of the generic kernel, and puts all in the order of
// parts: uvw paths add to what those before have written.
template <class T, class Kernel>
void DevicePathGroups<T, Kernel>::number_parts() {
  std::vector<int> part_of(product_.view().num_path_groups);
  std::vector<Launch> of_generic;
  for (int k = 0; k < static_cast<int>(parts_.size()); k++) {
    part_of[parts_[k].path_group] = k;    // the only one, if it is not generic
    if (!parts_[k].is_generic) continue;
    Launch launch{nullptr, {}};
    launch.parts.fill(-1);
    launch.parts[0] = k;
    of_generic.push_back(launch);
  }
  for (Launch &launch : launches_)
    for (int &n : launch.parts)
      if (n >= 0) n = part_of[n];
  launches_.insert(launches_.end(), of_generic.begin(), of_generic.end());
  const auto first_part = [](const Launch &launch) {
    int first = INT_MAX;
    for (int n : launch.parts)
      if (n >= 0) first = std::min(first, n);
    return first;
  };
  std::sort(launches_.begin(), launches_.end(),
            [&](const Launch &a, const Launch &b) { return first_part(a) < first_part(b); });
}

template <class T>
DeviceConvolution<T>::DeviceConvolution(const DeviceExec &exec, const Convolution &convolution, const FeatureLayout &in,
                                        const FeatureLayout &out, int num_species, const EvaluatorOptions &options,
                                        const Kernels &kernels)
    : op_(convolution, in, out, num_species, options, {ITEM_CHANNELS, DeviceTable<R>::PIECE}),
      path_groups_(exec, op_.product(), op_.rows_per_bin(), op_.network() ? Kernels() : kernels) {
  if (op_.network()) {
    network_ = std::make_unique<DeviceEdgeNetwork<T>>(exec, *op_.network());
    return;
  }
  radial_set_.emplace(exec, op_.radial_set());
  if (op_.exact()) return;
  const int64_t size = op_.num_rows() * op_.columns();
  copy_to_device(exec, table_.reserve(size), op_.table_rows(), size);
}

template <class T, class Kernel>
int DevicePathGroups<T, Kernel>::num_generic() const {
  std::vector<bool> is_generic(product_.view().num_path_groups, false);
  for (const Part &p : parts_) is_generic[p.path_group] = p.is_generic;
  return static_cast<int>(std::count(is_generic.begin(), is_generic.end(), true));
}

template <class T, class Kernel>
bool DevicePathGroups<T, Kernel>::has_fused() const {
  return std::all_of(launches_.begin(), launches_.end(), [&](const Launch &launch) {
    return launch.kernel && launch.kernel->launcher(PATH_GROUP_FUSED, rows_per_bin_);
  });
}

// ---- one batch
// ------------------------------------------------------------------------------------------------------------

template <class T, class Kernel>
void DevicePathGroups<T, Kernel>::couple_harmonics(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y,
                                                   T *coupled) const {
  if (coupled_width_ == 0) return;
  Kokkos::parallel_for("equi:coupled_harmonics", DeviceRange(exec, 0, batch.count * coupled_width_),
                       CoupledHarmonicsKernel<T>{batch, coupled_width_, num_y_, coupled_begin_.data(),
                                                 coupled_y_.data(), coupled_value_.data(), y, coupled});
}

template <class T>
template <class G>
void DeviceConvolution<T>::prepare(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance,
                                   const int *pair, const T *y, bool with_coupled, const DeviceNetworkInput<R> &input,
                                   Scratch &scratch) const {
  const int64_t n = batch.count;
  if (with_coupled)
    path_groups_.couple_harmonics(exec, batch, y, scratch.coupled.reserve(n * path_groups_.coupled_width()));
  if (network_) return make_weights(exec, batch, distance, pair, input, scratch);
  DeviceEdgeRecord<T> *records = scratch.records.reserve(n);
  const int *other_row = batch.other_row + batch.first;
  R *bins_per_length = scratch.bins_per_length.reserve(n);
  if (!op_.exact()) {
    const typename DeviceRadialSet::Finder find = radial_set_->finder();
    const int rows = rows_per_bin();
    Kokkos::parallel_for(
        "equi:radial_bins", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          if (!batch.contains(batch.first + c)) return;
          const int64_t e = batch.edge_at(batch.first + c);
          const auto found = find.bin_of(static_cast<double>(value_of(distance[e])), pair[e]);
          const R per_length = static_cast<R>(1.0 / found.spacing);
          records[c] = {
              other_row[c], found.bin * rows,
              make_number<T>(static_cast<R>(found.fraction), static_cast<R>(tangent_of(distance[e])) * per_length)};
          bins_per_length[c] = per_length;
        });
  } else if (n > 0) {
    radial_set_->fetch(exec, batch, distance, pair, scratch.edges);
    const int64_t per_edge = op_.scratch_per_edge();
    scratch.host_rows.resize(n * per_edge);
    scratch.host_fraction.resize(n);
    scratch.host_bins.resize(n);
    scratch.host_table_row.resize(n);
    constexpr int64_t BLOCK = 64;
    parallel_with_faults("equi:radial_exact", Kokkos::RangePolicy<HostExec>(0, (n + BLOCK - 1) / BLOCK),
                         [&](int64_t block) {
                           const int64_t c = block * BLOCK, count = std::min(BLOCK, n - c);
                           op_.radial(scratch.edges.distance.data() + c, scratch.edges.function.data() + c, count, c, n,
                                      scratch.host_rows.data(), scratch.host_table_row.data() + c,
                                      scratch.host_fraction.data() + c, scratch.host_bins.data() + c);
                         });
    int *table_row = scratch.table_row.reserve(n);
    T *fraction = scratch.fraction.reserve(n);
    copy_to_device(exec, table_row, scratch.host_table_row.data(), n);
    copy_to_device(exec, fraction, scratch.host_fraction.data(), n);
    Kokkos::parallel_for(
        "equi:edge_records", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
          records[c] = {other_row[c], table_row[c], fraction[c]};
        });
    copy_to_device(exec, bins_per_length, scratch.host_bins.data(), n);
    copy_to_device(exec, scratch.exact_rows.reserve(n * per_edge), scratch.host_rows.data(), n * per_edge);
  }
}

// The kernels read the weights of an edge in the row of its own, and 1 as the harmonic of order 0.
template <class T>
template <class G>
void DeviceConvolution<T>::make_weights(const DeviceExec &exec, const DeviceBatchEdges &batch, const G *distance,
                                        const int *pair, const DeviceNetworkInput<R> &input, Scratch &scratch) const {
  const int64_t n = batch.count;
  DeviceEdgeRecord<T> *records = scratch.records.reserve(n);
  const int *batch_row = batch.other_row + batch.first;
  Kokkos::parallel_for(
      "equi:weights_of_edges", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t c) {
        records[c] = {batch_row[c], static_cast<int>(c), T(1)};
      });
  int *own_row = scratch.own_row.reserve(n), *other_row = scratch.other_row.reserve(n);
  network_->find_rows(exec, batch, pair, input, own_row, other_row);
  network_->forward(
      exec, DeviceNetworkEdges<T, G>{batch, distance, pair, own_row, other_row, input.x, input.of_senders},
      scratch.network.reserve(network_->scratch_size(n)), scratch.weights.reserve(network_->weights_size(n)));
}

template <class T>
Pointer<T> DeviceConvolution<T>::weights_adj(const DeviceBatchEdges &batch, Scratch &scratch) const {
  return make_pointer<T>(scratch.weights_adj.reserve(network_->weights_size(batch.count)),
                         network_->weights_plane(batch.count));
}

template <class T, class Kernel>
template <class F>
DevicePathGroupCall<T> DevicePathGroups<T, Kernel>::call_of(const Part &part, const DevicePathGroupCall<T> &call,
                                                            int64_t x_rows, int64_t out_rows, int64_t out_row,
                                                            const F &prepare) const {
  const ConvolutionView<T> &tables = product_.view();
  const ConvPathGroup<T> &path_group = tables.path_groups[part.path_group];
  DevicePathGroupCall<T> u = call;
  u.channels = path_group.channels;
  u.coupled = call.coupled + first_coupled_[part.path_group];
  u.coupled_width = coupled_width_;
  u.num_y = num_y_;
  u.x_width = path_group.in_width;
  u.x_stride = PLANES<T> * path_group.in_channels;
  for (int q = 0; q < part.num_paths; q++) {
    const ConvPath<T> &p = tables.paths[part.first_path + q];
    u.path[q] = {out_rows * p.out_group + out_row * p.out_width + p.out_channel, p.out_width,
                 PLANES<T> * p.out_channels};
  }
  u.outputs = path_group.outputs;
  u.add = !tables.paths[part.first_path].begins_output;
  u.parts = call.parts + call.num_edges * part.part;
  prepare(u, path_group, tables.paths + part.first_path, part.num_paths,
          x_rows * path_group.in_group + path_group.in_channel);
  return u;
}

template <class T, class Kernel>
template <PathGroupPass PASS>
void DevicePathGroups<T, Kernel>::launch_generic(const DeviceExec &exec, const Part &part,
                                                 const DevicePathGroupCall<T> &call) const {
  const ConvPathGroup<T> &path_group = product_.view().path_groups[part.path_group];
  const GenericBody<T> body{path_group.l1,   path_group.row,
                            part.num_paths,  generic_paths_.data() + part.generic_path,
                            entries_.data(), couplings_.data()};
  with_rows<Kernel::OF_EDGES>(rows_per_bin_, [&](auto rows) {
    constexpr int ROWS = decltype(rows)::value;
    if constexpr (ROWS > 1)
      if (path_group.is_uvw()) return launch_path_groups<PASS, ROWS>(exec, &call, GenericUvwBody<T>{body});
    launch_path_groups<PASS, ROWS>(exec, &call, body);
  });
}

template <class T, class Kernel>
template <PathGroupPass PASS, class F>
void DevicePathGroups<T, Kernel>::launch(const DeviceExec &exec, const DevicePathGroupCall<T> &call, int64_t x_rows,
                                         int64_t out_rows, int64_t out_row, const F &prepare) const {
  for (const Launch &launch : launches_) {
    DevicePathGroupCall<T> calls[MAX_LAUNCH_PATH_GROUPS] = {};
    for (int k = 0; k < MAX_LAUNCH_PATH_GROUPS; k++)
      if (launch.parts[k] >= 0) calls[k] = call_of(parts_[launch.parts[k]], call, x_rows, out_rows, out_row, prepare);
    if (launch.kernel)
      launch.kernel->launcher(PASS, rows_per_bin_)(exec, calls);
    else if constexpr (PASS != PATH_GROUP_FUSED)
      launch_generic<PASS>(exec, parts_[launch.parts[0]], calls[0]);
  }
}

template <class T>
template <PathGroupPass PASS, class F>
void DeviceConvolution<T>::launch(const DeviceExec &exec, const DeviceBatchEdges &batch, const Scratch &scratch,
                                  int64_t x_rows, int64_t out_rows, int64_t out_row, const F &prepare) const {
  const R *table = op_.exact() ? scratch.exact_rows.data() : table_.data();
  DevicePathGroupCall<T> call{};
  call.num_atoms = batch.num_atoms;
  call.begin = batch.begin;
  call.first = batch.first;
  call.num_edges = batch.count;
  call.edges = scratch.records.data();
  call.coupled = scratch.coupled.data();
  call.parts = scratch.parts.data();
  if (network_) {
    call.weights = make_pointer<const T>(scratch.weights.data(), network_->weights_plane(batch.count));
    call.weights_row = static_cast<int>(op_.view().weights_row);
  }
  path_groups_.template launch<PASS>(exec, call, x_rows, out_rows, out_row,
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
                                   FeatureRows<R> out, Scratch &scratch) const {
  launch<PATH_GROUP_FORWARD>(exec, batch, scratch, x.rows, out.rows, out.first,
                             [&](DevicePathGroupCall<T> &u, int64_t block) {
                               u.x = x.data + block;
                               u.out = out.data;
                             });
}

template <class T>
template <class G>
void DeviceConvolution<T>::backward(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                    FeatureRows<const R> out_adj, const T *y, G *y_adj, FeatureRows<R> x_adj,
                                    Scratch &scratch) const {
  if (batch.count == 0) return;
  const int num_y = op_.view().num_y;
  T *parts = scratch.parts.reserve(path_groups_.part_size() * batch.count);
  const Pointer<T> of_weights = network_ ? weights_adj(batch, scratch) : Pointer<T>{};
  launch<PATH_GROUP_BACKWARD>(exec, batch, scratch, x.rows, out_adj.rows, out_adj.first,
                              [&](DevicePathGroupCall<T> &u, int64_t block) {
                                u.x = x.data + block;
                                u.out_adj = out_adj.data;
                                u.y = y + batch.first * num_y;
                                u.weights_adj = of_weights;
                              });
  add_parts(exec, batch, parts, y_adj, scratch);
  if (!network_) return;
  R *of_network = scratch.network.data();
  network_->backward(exec, batch.count, of_network, scratch.weights_adj.data());
  network_->add_distance_adjoints(exec, batch, of_network, y_adj, num_y);
  if (x_adj.data && op_.network()->reads_receiver()) network_->add_atom_adjoints(exec, batch, false, of_network, x_adj);
}

template <class T>
template <class G>
void DeviceConvolution<T>::add_parts(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *parts, G *y_adj,
                                     const Scratch &scratch) const {
  const int num_y = op_.view().num_y;
  Kokkos::parallel_for("equi:add_edge_adjoints", DeviceRange(exec, 0, batch.count * num_y),
                       AddPartsKernel<T, G, typename PathGroups::Sums>{
                           batch, num_y, path_groups_.sums(parts, batch.count),
                           network_ ? nullptr : scratch.bins_per_length.data(), y_adj + batch.first * num_y});
}

template <class T>
bool DeviceConvolution<T>::can_fuse() const {
  return !network_ && !op_.exact() && op_.radial_set().is_of_undirected_pairs() && path_groups_.has_fused();
}

template <class T>
template <class G>
void DeviceConvolution<T>::fused(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                 FeatureRows<const R> out_adj, int num_receivers, const T *y, G *y_adj,
                                 FeatureRows<R> x_adj, Scratch &scratch) const {
  if (batch.count == 0) return;
  T *parts = scratch.parts.reserve(path_groups_.part_size() * batch.count);
  launch<PATH_GROUP_FUSED>(exec, batch, scratch, x.rows, out_adj.rows, 0,
                           [&](DevicePathGroupCall<T> &u, int64_t block) {
                             u.x = x.data + block;
                             u.x_adj = x_adj.data + block + x_adj.first * u.x_width;
                             u.out_adj = out_adj.data;
                             u.first_row = static_cast<int>(x_adj.first);
                             u.num_receivers = num_receivers;
                             u.y = y + batch.first * op_.view().num_y;
                           });
  add_parts(exec, batch, parts, y_adj, scratch);
}

template <class T>
void DeviceConvolution<T>::gather_senders(const DeviceExec &exec, const DeviceBatchEdges &batch, FeatureRows<const R> x,
                                          FeatureRows<const R> out_adj, FeatureRows<R> x_adj, Scratch &scratch) const {
  const bool of_network = network_ && op_.network()->reads_sender();
  const Pointer<T> of_weights = of_network ? weights_adj(batch, scratch) : Pointer<T>{};
  // Rows of out_adj are those of receivers, which the edges name.
  launch<PATH_GROUP_GATHER>(exec, batch, scratch, x_adj.rows, out_adj.rows, 0,
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

template <class T, class Kernel>
std::size_t DevicePathGroups<T, Kernel>::bytes() const {
  return coupled_begin_.bytes() + coupled_y_.bytes() + coupled_value_.bytes() + generic_paths_.bytes() +
         entries_.bytes() + couplings_.bytes() + sum_begin_.bytes() + sum_parts_.bytes();
}

template <class T>
std::size_t DeviceConvolution<T>::scratch_growth(const Scratch &scratch, int64_t num_edges) const {
  const std::size_t bytes = scratch.records.growth(num_edges) +
                            scratch.coupled.growth(num_edges * path_groups_.coupled_width()) +
                            scratch.parts.growth(num_edges * path_groups_.part_size());
  if (network_) {
    const int64_t of_weights = network_->weights_size(num_edges);
    return bytes + scratch.own_row.growth(num_edges) + scratch.other_row.growth(num_edges) +
           scratch.network.growth(network_->scratch_size(num_edges)) + scratch.weights.growth(of_weights) +
           scratch.weights_adj.growth(of_weights);
  }
  const std::size_t of_exact = op_.exact() ? scratch.table_row.growth(num_edges) + scratch.fraction.growth(num_edges) +
                                                 scratch.exact_rows.growth(num_edges * op_.scratch_per_edge())
                                           : 0;
  return bytes + scratch.bins_per_length.growth(num_edges) + of_exact;
}

template <class T>
std::size_t DeviceConvolution<T>::bytes() const {
  return path_groups_.bytes() + (network_ ? network_->bytes() : radial_set_->bytes()) + table_.bytes();
}

// What DeviceConvolution<T> does with a geometry of G.
#define EQUI_INSTANTIATE_GEOMETRY(T, G)                                                                                \
  template void DeviceConvolution<T>::prepare(const DeviceExec &, const DeviceBatchEdges &, const G *, const int *,    \
                                              const T *, bool, const DeviceNetworkInput<Real<T>> &, Scratch &) const;  \
  template void DeviceConvolution<T>::backward(const DeviceExec &, const DeviceBatchEdges &,                           \
                                               FeatureRows<const Real<T>>, FeatureRows<const Real<T>>, const T *, G *, \
                                               FeatureRows<Real<T>>, Scratch &) const;                                 \
  template void DeviceConvolution<T>::fused(const DeviceExec &, const DeviceBatchEdges &, FeatureRows<const Real<T>>,  \
                                            FeatureRows<const Real<T>>, int, const T *, G *, FeatureRows<Real<T>>,     \
                                            Scratch &) const;

}    // namespace equi
