// SPDX-License-Identifier: MIT
// The definitions of DevicePathGroups. Only sources with kernels of a convolution include this header.
#ifndef EQUI_DEVICE_PATH_GROUPS_IMPL_H
#define EQUI_DEVICE_PATH_GROUPS_IMPL_H

#include "kokkos/layers/convolution/device_path_groups.h"

#include "kokkos/kernel_interface/place_in_rows.h"

#include <algorithm>
#include <climits>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace equi {

namespace {

// An input with more rows than this consists of rows of atoms.
constexpr int64_t MAX_SHARED_ROWS = 128;

// Four of the `width` numbers of an edge at a time.
template <class T>
struct CoupledHarmonicsKernel {
  DeviceBatchEdges batch;
  int width, y_row;
  const int *begin, *y_index;
  const Real<T> *value;
  const T *y;
  T *coupled;
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const auto [c, four] = place_in_rows(n, width / 4);
    const int64_t position = batch.first + c;
    if (!batch.contains(position)) return;
    const T *of_edge = y + batch.edge_at(position) * y_row;
    Four<T> sums;
    EQUI_UNROLL for (int k = 0; k < 4; k++) {
      sums.v[k] = T(0);
      for (int t = begin[4 * four + k]; t < begin[4 * four + k + 1]; t++) sums.v[k] += value[t] * of_edge[y_index[t]];
    }
    reinterpret_cast<Four<T> *>(coupled)[n] = sums;
  }
};

// y_adj of a batch's edges += sums of parts; if the parts are plain numbers and y_adj are duals, adds to tangents. A
// thread computes a derivative of several edges that are far apart, so neighboring threads still access neighboring
// numbers.
template <class T, class D, class Sums>
struct AddPartsKernel {
  static constexpr int EDGES = static_cast<int>(16 / sizeof(T));
  DeviceBatchEdges batch;
  int num_y;
  Sums sums;
  const Real<T> *bins_per_length;    // null: the part that computes the weights has the derivatives
  D *y_adj;
  KOKKOS_FUNCTION int64_t distance() const { return (batch.count + EDGES - 1) / EDGES; }
  KOKKOS_FUNCTION void operator()(int64_t n) const {
    const auto [c, k] = place_in_rows(n, num_y);
    if (k == 0 && !bins_per_length) return;
    const int64_t begin = batch.begin[0], end = batch.begin[batch.num_atoms];
    bool is_edge[EDGES];
    T total[EDGES] = {};
    D to[EDGES] = {}, *place[EDGES] = {};
    Real<T> per_length[EDGES] = {};
    EQUI_UNROLL for (int e = 0; e < EDGES; e++) {
      const int64_t position = batch.first + c + e * distance();
      is_edge[e] = begin <= position && position < end;
      if (!is_edge[e]) continue;
      place[e] = y_adj + (batch.edge_at(position) * num_y + k);
      to[e] = *place[e];
      if (k == 0) per_length[e] = bins_per_length[c + e * distance()];
    }
    sums.add(c, distance(), is_edge, k, total);
    EQUI_UNROLL for (int e = 0; e < EDGES; e++) {
      if (!is_edge[e]) continue;
      const T sum = k == 0 ? total[e] * per_length[e] : total[e];
      if constexpr (IS_DUAL<D> && !IS_DUAL<T>)
        to[e] += D(Real<D>(0), static_cast<Real<D>>(sum));
      else
        to[e] += static_cast<D>(sum);
      *place[e] = to[e];
    }
  }
};

template <class T, class D, class Sums>
void launch_add_parts(const DeviceExec &exec, const char *label, const AddPartsKernel<T, D, Sums> &kernel) {
  Kokkos::parallel_for(label, DeviceRange(exec, 0, kernel.distance() * kernel.num_y), kernel);
}

// Calls f(rows per bin as a type) for the generic kernel; 1 for weights of edges.
template <class T, bool OF_EDGES, class F>
void with_rows(int rows, const F &f) {
  if (rows == 1) return f(std::integral_constant<int, 1>{});
  if constexpr (!OF_EDGES) {
    if (rows == 1 + PLANES<T>) return f(std::integral_constant<int, 1 + PLANES<T>>{});
    if (rows == DEVICE_FINE_ROWS<T>) return f(std::integral_constant<int, DEVICE_FINE_ROWS<T>>{});
    if constexpr (std::is_same_v<T, float>)
      if (rows == CUBIC_ROWS) return f(std::integral_constant<int, CUBIC_ROWS>{});
  }
  throw std::logic_error("no kernel of this type of numbers for a radial table of " + std::to_string(rows) + " rows");
}

}    // namespace

template <class T, class Kernel>
DevicePathGroups<T, Kernel>::DevicePathGroups(const DeviceExec &exec, const ConvolutionTables<T> &product,
                                              int rows_per_bin, const Kernels &kernels)
    : tables_(product), rows_per_bin_(rows_per_bin) {
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
  std::vector<const DevicePathGroupRuns *> runs(keys.size());    // runs of path groups with a generated kernel
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
    coupled_width_ += (path_group.num_coupled + 3) / 4 * 4;    // so that loads can read four numbers
    coupled_begin.resize(coupled_width_ + 1, static_cast<int>(coupled_y.size()));

    const int most = runs[n] ? path_group.num_paths : MAX_CALL_PATHS;
    const int items = num_channel_items(runs[n] ? runs[n]->lane_channels : 1, path_group.channels);
    // The results of one run: the derivatives with respect to these harmonics, item after item.
    const auto add_run = [&](int num_sums, const std::function<int(int)> &harmonic) {
      for (int k = 0; k < items; k++, part_size_ += num_sums)
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
        for (const auto &e : path.m) entries.push_back({e.m1, e.m3, e.coupled, 0, static_cast<R>(e.sign)});
        for (const auto &e : path.d_entries)
          for (const auto &t : path.d[e.d].terms)
            couplings.push_back({e.m1, e.m2, t.index, 0, static_cast<R>(e.sign * t.coefficient)});
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

// Minimizes the number of launches: repeatedly chooses the kernel that does most of the remaining path groups. If
// several do equally many, it chooses the one with the fewest path groups. The parts are numbers of path groups.
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

// Replaces path groups by parts in the launches, adds launches of the generic kernel, and sorts all by parts. uvw
// paths add to the output of earlier ones, so the order matters.
template <class T, class Kernel>
void DevicePathGroups<T, Kernel>::number_parts() {
  std::vector<int> part_of(tables_.view().num_path_groups);
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

template <class T, class Kernel>
int DevicePathGroups<T, Kernel>::num_generic() const {
  std::vector<bool> is_generic(tables_.view().num_path_groups, false);
  for (const Part &p : parts_) is_generic[p.path_group] = p.is_generic;
  return static_cast<int>(std::count(is_generic.begin(), is_generic.end(), true));
}

template <class T, class Kernel>
bool DevicePathGroups<T, Kernel>::has_fused() const {
  return std::all_of(launches_.begin(), launches_.end(), [&](const Launch &launch) {
    return launch.kernel && launch.kernel->launcher(PATH_GROUP_FUSED, rows_per_bin_);
  });
}

// ---- launches

template <class T, class Kernel>
bool DevicePathGroups<T, Kernel>::reads_coupled() const {
  return std::any_of(launches_.begin(), launches_.end(),
                     [](const Launch &launch) { return !launch.kernel || launch.kernel->reads_coupled; });
}
template <class T, class Kernel>
bool DevicePathGroups<T, Kernel>::reads_harmonics() const {
  return std::any_of(launches_.begin(), launches_.end(),
                     [](const Launch &launch) { return launch.kernel && !launch.kernel->reads_coupled; });
}

template <class T, class Kernel>
void DevicePathGroups<T, Kernel>::couple_harmonics(const DeviceExec &exec, const DeviceBatchEdges &batch, const T *y,
                                                   T *coupled) const {
  if (coupled_width_ == 0) return;
  Kokkos::parallel_for("equi:coupled_harmonics", DeviceRange(exec, 0, batch.count * (coupled_width_ / 4)),
                       CoupledHarmonicsKernel<T>{batch, coupled_width_, harmonics_row(num_y_), coupled_begin_.data(),
                                                 coupled_y_.data(), coupled_value_.data(), y, coupled});
}

template <class T, class Kernel>
template <class F>
DevicePathGroupCall<T> DevicePathGroups<T, Kernel>::call_of(const Part &part, const DevicePathGroupCall<T> &call,
                                                            int64_t x_rows, int64_t out_rows, int64_t out_row,
                                                            const PathGroupPlanes &planes, const F &prepare) const {
  const ConvolutionView<T> &tables = tables_.view();
  const ConvPathGroup<T> &path_group = tables.path_groups[part.path_group];
  DevicePathGroupCall<T> u = call;
  u.channels = path_group.channels;
  u.coupled = call.coupled + first_coupled_[part.path_group];
  u.coupled_width = coupled_width_;
  u.y_row = harmonics_row(num_y_);
  u.x_width = path_group.in_width;
  u.x_stride = path_group.in_width / (2 * path_group.l1 + 1);
  u.x_tangents = planes.tangents * path_group.in_channels;
  u.shares_rows = x_rows <= MAX_SHARED_ROWS;
  for (int q = 0; q < part.num_paths; q++) {
    const ConvPath<T> &p = tables.paths[part.first_path + q];
    u.path[q] = {out_rows * p.out_group + out_row * p.out_width + planes.out * p.out_channels + p.out_channel,
                 p.out_width, p.out_width / (2 * p.l3 + 1), planes.tangents * p.out_channels};
  }
  u.outputs = path_group.outputs;
  u.add = !tables.paths[part.first_path].begins_output;
  u.parts = call.parts + call.num_edges * part.part;
  prepare(u, path_group, tables.paths + part.first_path, part.num_paths,
          x_rows * path_group.in_group + planes.x * path_group.in_channels + path_group.in_channel);
  return u;
}

template <class T, class Kernel>
template <PathGroupPass PASS>
void DevicePathGroups<T, Kernel>::launch_generic(const DeviceExec &exec, const Part &part,
                                                 const DevicePathGroupCall<T> &call) const {
  const ConvPathGroup<T> &path_group = tables_.view().path_groups[part.path_group];
  const GenericBody<T> body{path_group.l1,   path_group.row,
                            part.num_paths,  generic_paths_.data() + part.generic_path,
                            entries_.data(), couplings_.data()};
  with_rows<T, Kernel::OF_EDGES>(rows_per_bin_, [&](auto rows) {
    constexpr int ROWS = decltype(rows)::value;
    if constexpr (ROWS > 1)
      if (path_group.is_uvw()) return launch_path_groups<PASS, ROWS>(exec, &call, GenericUvwBody<T>{body});
    launch_path_groups<PASS, ROWS>(exec, &call, body);
  });
}

template <class T, class Kernel>
template <PathGroupPass PASS, class F>
void DevicePathGroups<T, Kernel>::launch(const DeviceExec &exec, const DevicePathGroupCall<T> &call, int64_t x_rows,
                                         int64_t out_rows, int64_t out_row, const PathGroupPlanes &planes,
                                         const F &prepare) const {
  for (const Launch &launch : launches_) {
    DevicePathGroupCall<T> calls[MAX_LAUNCH_PATH_GROUPS] = {};
    for (int k = 0; k < MAX_LAUNCH_PATH_GROUPS; k++)
      if (launch.parts[k] >= 0)
        calls[k] = call_of(parts_[launch.parts[k]], call, x_rows, out_rows, out_row, planes, prepare);
    if (launch.kernel)
      launch.kernel->launcher(PASS, rows_per_bin_)(exec, calls);
    else if constexpr (PASS != PATH_GROUP_FUSED)
      launch_generic<PASS>(exec, parts_[launch.parts[0]], calls[0]);
  }
}

}    // namespace equi

#endif
