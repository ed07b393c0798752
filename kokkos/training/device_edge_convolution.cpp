// SPDX-License-Identifier: MIT
// The convolution with weights of edges on a device: ordered edges, packed features and the passes over path groups.
#include "kokkos/training/device_edge_convolution.h"

#include "kokkos/layers/convolution/device_path_groups_impl.h"

#if defined(KOKKOS_ENABLE_CUDA)
#include "kokkos/runtime/device_stream_cuda.h"
#endif

namespace equi {

namespace {

#if !defined(KOKKOS_ENABLE_CUDA)
DeviceExec instance_on(void *) {
  return {};
}
#endif

// Memory of a call.
template <class U>
U *take(const DeviceWork &work, int64_t n) {
  return static_cast<U *>(work.allocate(n * sizeof(U)));
}

// The edges of all nodes at one of their ends, node by node: numbers of edges, and rows at the other end.
struct OrderedEdges {
  int num_nodes;
  int64_t count;
  const int64_t *begin;
  const int *edge, *other_row;

  DeviceBatchEdges as_batch() const { return {num_nodes, begin, 0, count, nullptr, other_row}; }
};

OrderedEdges order_edges(const DeviceExec &exec, const DeviceWork &work, int64_t count, int64_t num_nodes,
                         const int64_t *node, const int64_t *other, const int64_t *order) {
  auto *begin = take<int64_t>(work, num_nodes + 1);
  auto *edge = take<int>(work, count), *other_row = take<int>(work, count);
  Kokkos::parallel_for(
      "equi:order_edges", DeviceRange(exec, 0, count), KOKKOS_LAMBDA(int64_t p) {
        edge[p] = static_cast<int>(order[p]);
        other_row[p] = static_cast<int>(other[order[p]]);
      });
  Kokkos::parallel_for(
      "equi:first_edges", DeviceRange(exec, 0, num_nodes + 1), KOKKOS_LAMBDA(int64_t i) {
        int64_t low = 0, high = count;    // the first edge of node i, or of a later node, is between them
        while (low < high) {
          const int64_t middle = (low + high) / 2;
          if (node[order[middle]] < i)
            low = middle + 1;
          else
            high = middle;
        }
        begin[i] = low;
      });
  return {static_cast<int>(num_nodes), count, begin, edge, other_row};
}

// Throws for the first edge that names a row that does not exist.
void check_on_device(const DeviceExec &exec, const DeviceWork &work, const EdgeList &edges) {
  check_sizes(edges);
  if (edges.count == 0) return;
  auto *first_wrong = take<int64_t>(work, 1);
  device_fill(exec, first_wrong, 1, edges.count);
  const EdgeList list = edges;
  Kokkos::parallel_for(
      "equi:check_edges", DeviceRange(exec, 0, edges.count), KOKKOS_LAMBDA(int64_t e) {
        if (list.sender[e] < 0 || list.sender[e] >= list.num_senders || list.receiver[e] < 0 ||
            list.receiver[e] >= list.num_receivers)
          Kokkos::atomic_min(first_wrong, e);
      });
  int64_t e, sender, receiver;
  copy_to_host(exec, &e, first_wrong, 1);    // the kernels must not run with such an edge
  if (e == edges.count) return;
  copy_to_host(exec, &sender, edges.sender + e, 1);
  copy_to_host(exec, &receiver, edges.receiver + e, 1);
  check_edge(edges, e, sender, receiver);
}

// Position of number k of a packed row, with r rows: rows * group + r * width + place. Also its column in the order
// of irreps.h, -1 for padding.
struct PackedNumber {
  int group, width, place, column;
};

// Converts features between the order of irreps.h and the kernels' memory layout.
class Packing {
 public:
  Packing(const DeviceExec &exec, const Irreps &irreps, const FeatureLayout &layout)
      : columns_(irreps.dim()), row_size_(layout.row_size()) {
    std::vector<PackedNumber> numbers(row_size_);
    for (const FeatureGroup &group : layout.groups())
      for (int k = 0; k < group.width(); k++) numbers[group.offset + k] = {group.offset, group.width(), k, -1};
    for (int b = 0; b < irreps.size(); b++) {
      const FeatureBlock &block = layout.block(b);
      const FeatureGroup &group = layout.group(block.group);
      for (int m = 0; m < group.irrep.dim(); m++)
        for (int u = 0; u < block.mul; u++)
          numbers[group.offset + m * group.stride() + block.channel + u].column =
              irreps.offset(b) + u * group.irrep.dim() + m;
    }
    assign(exec, numbers_, numbers);
  }
  int columns() const { return columns_; }
  int row_size() const { return row_size_; }

  template <class T>
  T *pack(const DeviceExec &exec, const DeviceWork &work, int64_t rows, const T *from) const {
    const int columns = columns_, row_size = row_size_;
    const PackedNumber *numbers = numbers_.data();
    T *to = take<T>(work, rows * row_size);
    Kokkos::parallel_for(
        "equi:pack", DeviceRange(exec, 0, rows * row_size), KOKKOS_LAMBDA(int64_t n) {
          const int64_t r = n / row_size;
          const PackedNumber p = numbers[n % row_size];
          to[rows * p.group + r * p.width + p.place] = p.column < 0 ? T(0) : from[r * columns + p.column];
        });
    return to;
  }
  // to (+)= from
  template <class T>
  void unpack(const DeviceExec &exec, int64_t rows, const T *from, T *to, bool add) const {
    const int columns = columns_, row_size = row_size_;
    const PackedNumber *numbers = numbers_.data();
    Kokkos::parallel_for(
        "equi:unpack", DeviceRange(exec, 0, rows * row_size), KOKKOS_LAMBDA(int64_t n) {
          const int64_t r = n / row_size;
          const PackedNumber p = numbers[n % row_size];
          if (p.column < 0) return;
          const T value = from[rows * p.group + r * p.width + p.place];
          T &number = to[r * columns + p.column];
          number = add ? number + value : value;
        });
  }

 private:
  int columns_, row_size_;
  DeviceBuffer<PackedNumber> numbers_;
};

// The harmonics of ordered edges, in the layout that kernels read.
template <class T>
struct OrderedHarmonics {
  const T *y, *coupled;
  const DeviceEdgeRecord<T> *edges;
};

}    // namespace

// The product's path groups, and the passes of a DeviceEdgeConvolution.
template <class T>
struct DeviceEdgePathGroups {
  using PathGroups = DevicePathGroups<T, DeviceEdgeKernel<T>>;
  using Edges = OrderedEdges;
  using Harmonics = OrderedHarmonics<T>;

  OperatorProduct product;
  FeatureLayout in, out;
  ConvolutionTables<T> tables;
  PathGroups path_groups;
  Packing pack_in, pack_out;
  DeviceBuffer<int> harmonic_column;    // [num_y] columns of the user's row, -1: none
  DeviceBuffer<int> harmonic_of;        // [columns of the user's row] number of the harmonic
  struct Weights {
    int column;    // in the user's row
    T scale;
  };
  std::vector<Weights> weights;    // per path of the tables
  std::vector<int> channels;       // per path group, without padding

  DeviceEdgePathGroups(const DeviceExec &exec, const OperatorProduct &p, bool is_generated)
      : product(p),
        in(p.product.irreps_in),
        out(p.product.irreps_out),
        tables(p.product, in, out),
        path_groups(exec, tables, 1, is_generated ? device_edge_kernels<T>() : typename PathGroups::Kernels()),
        pack_in(exec, p.product.irreps_in, in),
        pack_out(exec, p.product.irreps_out, out) {
    assign(exec, harmonic_column, product.harmonic_column);
    std::vector<int> numbers(y_columns());
    for (int k = 0; k < num_y(); k++)
      if (product.harmonic_column[k] >= 0) numbers[product.harmonic_column[k]] = k;
    assign(exec, harmonic_of, numbers);
    const std::vector<EdgeColumn> &columns = tables.edge_columns();
    for (int q = 0; q < tables.view().num_paths; q++) {
      int c = 0;
      while (columns[c].column != tables.view().paths[q].column) c++;
      weights.push_back({c, static_cast<T>(columns[c].scale)});
    }
    for (const ProductPathGroup &path_group : path_groups_of(product.product))
      channels.push_back(product.product.irreps_in[path_group.block].mul);
  }
  int num_y() const { return tables.view().num_y; }
  int y_columns() const { return product.irreps_edge.dim(); }

  Harmonics order_harmonics(const DeviceExec &exec, const DeviceWork &work, const Edges &edges, const T *y,
                            bool with_coupled) const {
    const int num_y = this->num_y(), row = harmonics_row(num_y), y_columns = this->y_columns();
    const int *column = harmonic_column.data(), *edge = edges.edge, *other_row = edges.other_row;
    T *ordered = take<T>(work, edges.count * row) + NUMBERS_BEFORE_HARMONICS;
    auto *records = take<DeviceEdgeRecord<T>>(work, edges.count);
    Kokkos::parallel_for(
        "equi:order_harmonics", DeviceRange(exec, 0, edges.count * num_y), KOKKOS_LAMBDA(int64_t n) {
          const int64_t p = n / num_y;
          const int k = static_cast<int>(n % num_y);
          const T value = column[k] < 0 ? T(0) : y[static_cast<int64_t>(edge[p]) * y_columns + column[k]];
          ordered[p * row + k] = value;
          if (k == 0) records[p] = {value, edge[p], other_row[p]};
        });
    T *coupled = nullptr;
    if (with_coupled) {
      coupled = take<T>(work, edges.count * path_groups.coupled_width());
      path_groups.couple_harmonics(exec, edges.as_batch(), ordered, coupled);
    }
    return {ordered, coupled, records};
  }

  // Runs the kernels of all path groups, after prepare(call, numbers before the input block).
  template <PathGroupPass PASS, class F>
  void launch(const DeviceExec &exec, const Edges &edges, const Harmonics &harmonics, const T *w, T *parts,
              int64_t x_rows, int64_t out_rows, const F &prepare) const {
    DevicePathGroupCall<T> call{};
    call.num_atoms = edges.num_nodes;
    call.begin = edges.begin;
    call.num_edges = edges.count;
    call.edges = harmonics.edges;
    call.coupled = harmonics.coupled;
    call.y = harmonics.y;
    call.parts = parts;
    call.weights = w;
    call.weights_row = product.product.num_weights();
    const ConvolutionView<T> &all = tables.view();
    path_groups.template launch<PASS>(exec, call, x_rows, out_rows, 0, {},
                                      [&](DevicePathGroupCall<T> &u, const ConvPathGroup<T> &path_group,
                                          const ConvPath<T> *paths, int num_paths, int64_t block) {
                                        u.channels = channels[&path_group - all.path_groups];
                                        for (int q = 0; q < num_paths; q++) {
                                          u.column[q] = weights[paths - all.paths + q].column;
                                          u.scale[q] = weights[paths - all.paths + q].scale;
                                        }
                                        prepare(u, block);
                                      });
  }

  // out (+)= forward(x, y, w); x is packed.
  void forward(const DeviceExec &exec, const DeviceWork &work, const EdgeList &list, const Edges &edges, const T *x,
               const Harmonics &harmonics, const T *w, T *result, bool add) const {
    T *packed = take<T>(work, list.num_receivers * out.row_size());
    launch<PATH_GROUP_FORWARD>(exec, edges, harmonics, w, nullptr, list.num_senders, list.num_receivers,
                               [&](DevicePathGroupCall<T> &u, int64_t block) {
                                 u.x = x + block;
                                 u.out = packed;
                               });
    pack_out.unpack(exec, list.num_receivers, packed, result, add);
  }

  // y_adj, w_adj (+)= derivatives of L(g, x, y, w); x and g are packed; either result may be null.
  void backward(const DeviceExec &exec, const DeviceWork &work, const EdgeList &list, const Edges &edges, const T *x,
                const Harmonics &harmonics, const T *w, const T *g, T *y_adj, T *w_adj, bool add) const {
    if (edges.count == 0) return;
    T *parts = take<T>(work, edges.count * path_groups.part_size());
    launch<PATH_GROUP_BACKWARD>(exec, edges, harmonics, w, parts, list.num_senders, list.num_receivers,
                                [&](DevicePathGroupCall<T> &u, int64_t block) {
                                  u.x = x + block;
                                  u.out_adj = g;
                                  u.weights_adj = w_adj;
                                  u.add_weights_adj = add;
                                });
    if (!y_adj) return;
    const int y_columns = this->y_columns();
    const int *number = harmonic_of.data(), *edge = edges.edge;
    const typename PathGroups::Sums sums = path_groups.sums(parts, edges.count);
    Kokkos::parallel_for(
        "equi:add_edge_adjoints", DeviceRange(exec, 0, edges.count * y_columns), KOKKOS_LAMBDA(int64_t n) {
          const int64_t p = n / y_columns;
          const int c = static_cast<int>(n % y_columns);
          const T value = sums(p, number[c]);
          T &to = y_adj[static_cast<int64_t>(edge[p]) * y_columns + c];
          to = add ? to + value : value;
        });
  }

  // x_adj, packed, += the derivative of L(g, x, y, w); g is packed; edges are in the order of senders.
  void gather(const DeviceExec &exec, const EdgeList &list, const Edges &edges, const Harmonics &harmonics, const T *w,
              const T *g, T *x_adj) const {
    launch<PATH_GROUP_GATHER>(exec, edges, harmonics, w, nullptr, list.num_senders, list.num_receivers,
                              [&](DevicePathGroupCall<T> &u, int64_t block) {
                                u.out_adj = g;
                                u.x_adj = x_adj + block;
                              });
  }

  Edges receivers(const DeviceExec &exec, const DeviceWork &work, const DeviceEdgeList &list) const {
    return order_edges(exec, work, list.edges.count, list.edges.num_receivers, list.edges.receiver, list.edges.sender,
                       list.by_receiver);
  }
  Edges senders(const DeviceExec &exec, const DeviceWork &work, const DeviceEdgeList &list) const {
    return order_edges(exec, work, list.edges.count, list.edges.num_senders, list.edges.sender, list.edges.receiver,
                       list.by_sender);
  }
  T *zero_x_adj(const DeviceExec &exec, const DeviceWork &work, const EdgeList &list) const {
    const int64_t size = list.num_senders * in.row_size();
    T *x_adj = take<T>(work, size);
    device_zero(exec, x_adj, size);
    return x_adj;
  }
};

template <class T>
DeviceEdgeConvolution<T>::DeviceEdgeConvolution(const OperatorProduct &product, bool is_generated)
    : path_groups_(std::make_unique<DeviceEdgePathGroups<T>>(DeviceExec(), product, is_generated)) {}

template <class T>
DeviceEdgeConvolution<T>::~DeviceEdgeConvolution() = default;

template <class T>
int DeviceEdgeConvolution<T>::num_generic_path_groups() const {
  return path_groups_->path_groups.num_generic();
}

template <class T>
void DeviceEdgeConvolution<T>::forward(const DeviceWork &work, const DeviceEdgeList &list, const T *x, const T *y,
                                       const T *w, T *out) const {
  const DeviceExec exec = instance_on(work.stream);
  check_on_device(exec, work, list.edges);
  const OrderedEdges edges = path_groups_->receivers(exec, work, list);
  path_groups_->forward(exec, work, list.edges, edges,
                        path_groups_->pack_in.pack(exec, work, list.edges.num_senders, x),
                        path_groups_->order_harmonics(exec, work, edges, y, true), w, out, false);
}

template <class T>
void DeviceEdgeConvolution<T>::backward(const DeviceWork &work, const DeviceEdgeList &list, const T *x, const T *y,
                                        const T *w, const T *g, T *x_adj, T *y_adj, T *w_adj) const {
  const DeviceExec exec = instance_on(work.stream);
  check_on_device(exec, work, list.edges);
  const T *packed_g = path_groups_->pack_out.pack(exec, work, list.edges.num_receivers, g);
  const OrderedEdges receivers = path_groups_->receivers(exec, work, list),
                     senders = path_groups_->senders(exec, work, list);
  path_groups_->backward(
      exec, work, list.edges, receivers, path_groups_->pack_in.pack(exec, work, list.edges.num_senders, x),
      path_groups_->order_harmonics(exec, work, receivers, y, false), w, packed_g, y_adj, w_adj, false);
  T *packed_adj = path_groups_->zero_x_adj(exec, work, list.edges);
  path_groups_->gather(exec, list.edges, senders, path_groups_->order_harmonics(exec, work, senders, y, true), w,
                       packed_g, packed_adj);
  path_groups_->pack_in.unpack(exec, list.edges.num_senders, packed_adj, x_adj, false);
}

template <class T>
void DeviceEdgeConvolution<T>::double_backward(const DeviceWork &work, const DeviceEdgeList &list, Operand x, Operand y,
                                               Operand w, const T *g, T *g_adj, T *x_adj, T *y_adj, T *w_adj) const {
  const DeviceEdgePathGroups<T> &path_groups = *path_groups_;
  const EdgeList &edges = list.edges;
  const DeviceExec exec = instance_on(work.stream);
  check_on_device(exec, work, edges);
  const T *packed_g = path_groups.pack_out.pack(exec, work, edges.num_receivers, g);
  const T *packed_x = path_groups.pack_in.pack(exec, work, edges.num_senders, x.value);
  const T *packed_tangent = x.tangent ? path_groups.pack_in.pack(exec, work, edges.num_senders, x.tangent) : nullptr;
  const OrderedEdges receivers = path_groups.receivers(exec, work, list),
                     senders = path_groups.senders(exec, work, list);
  const auto value = path_groups.order_harmonics(exec, work, receivers, y.value, true);
  const auto tangent = y.tangent ? path_groups.order_harmonics(exec, work, receivers, y.tangent, true) : value;

  // The derivative with respect to g is the tangent of forward(x, y, w).
  bool add = false;
  const auto add_forward = [&](bool wanted, const T *of_x, const auto &of_y, const T *of_w) {
    if (!wanted) return;
    path_groups.forward(exec, work, edges, receivers, of_x, of_y, of_w, g_adj, add);
    add = true;
  };
  add_forward(x.tangent != nullptr, packed_tangent, value, w.value);
  add_forward(y.tangent != nullptr, packed_x, tangent, w.value);
  add_forward(w.tangent != nullptr, packed_x, value, w.tangent);
  if (!add) device_zero(exec, g_adj, edges.num_receivers * path_groups.pack_out.columns());

  // With respect to y: derivatives of L(g, x', y, w) and L(g, x, y, w'); with respect to w: of L(g, x', y, w) and
  // L(g, x, y', w). The second terms come from one pass over x, y' and w', because neither derivative depends on its
  // own argument.
  if (x.tangent)
    path_groups.backward(exec, work, edges, receivers, packed_tangent, value, w.value, packed_g, y_adj, w_adj, false);
  else {
    if (!w.tangent) device_zero(exec, y_adj, edges.count * path_groups.y_columns());
    if (!y.tangent) device_zero(exec, w_adj, edges.count * path_groups.product.product.num_weights());
  }
  if (y.tangent || w.tangent)
    path_groups.backward(exec, work, edges, receivers, packed_x, tangent, w.tangent ? w.tangent : w.value, packed_g,
                         w.tangent ? y_adj : nullptr, y.tangent ? w_adj : nullptr, x.tangent != nullptr);

  // With respect to x: derivatives of L(g, x, y', w) and L(g, x, y, w').
  T *packed_adj = path_groups.zero_x_adj(exec, work, edges);
  if (y.tangent)
    path_groups.gather(exec, edges, senders, path_groups.order_harmonics(exec, work, senders, y.tangent, true), w.value,
                       packed_g, packed_adj);
  if (w.tangent)
    path_groups.gather(exec, edges, senders, path_groups.order_harmonics(exec, work, senders, y.value, true), w.tangent,
                       packed_g, packed_adj);
  path_groups.pack_in.unpack(exec, edges.num_senders, packed_adj, x_adj, false);
}

template class DeviceEdgeConvolution<float>;
template class DeviceEdgeConvolution<double>;

}    // namespace equi
