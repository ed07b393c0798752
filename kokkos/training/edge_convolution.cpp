// SPDX-License-Identifier: MIT
// The convolution with weights of edges on CPUs: features in kernel order, parts of receivers and the passes over
// them.
#include "kokkos/training/edge_convolution.h"

#include "kokkos/runtime/buffer.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace equi {

namespace {

// A thread handles receivers with about this number of edges at a time: their weights, with tangents, stay in its
// cache.
constexpr int64_t CHUNK_EDGES = 64;

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The edges in the order of receivers.
struct SortedEdges {
  std::vector<int64_t> begin;    // [receivers + 1]
  std::vector<int> edge, sender;

  explicit SortedEdges(const EdgeList &edges) : begin(edges.num_receivers + 1, 0), edge(edges.count) {
    check_sizes(edges);
    for (int64_t e = 0; e < edges.count; e++) {
      check_edge(edges, e, edges.sender[e], edges.receiver[e]);
      begin[edges.receiver[e] + 1]++;
    }
    for (int64_t i = 0; i < edges.num_receivers; i++) begin[i + 1] += begin[i];
    std::vector<int64_t> next(begin.begin(), begin.end() - 1);
    sender.resize(edges.count);
    for (int64_t e = 0; e < edges.count; e++) {
      const int64_t k = next[edges.receiver[e]]++;
      edge[k] = static_cast<int>(e);
      sender[k] = static_cast<int>(edges.sender[e]);
    }
  }
};

// Converts row r of a feature from the order of irreps.h to that of kernels with `rows` rows. tangent: null, or for
// duals.
template <class N>
void pack_row(const Irreps &irreps, const FeatureLayout &layout, const Real<N> *value, const Real<N> *tangent,
              Real<N> *to, int64_t rows, int64_t r) {
  for (int b = 0; b < irreps.size(); b++) {
    const FeatureBlock &block = layout.block(b);
    const FeatureGroup &group = layout.group(block.group);
    const int dim = group.irrep.dim(), offset = irreps.offset(b);
    Real<N> *first = to + rows * group.offset + r * group.width() + block.channel;
    for (int m = 0; m < dim; m++)
      for (int plane = 0; plane < PLANES<N>; plane++, first += group.channels) {
        const Real<N> *from = plane == 0 ? value : tangent;
        if (from)
          for (int u = 0; u < block.mul; u++) first[u] = from[offset + u * dim + m];
        else
          std::fill_n(first, block.mul, Real<N>(0));
        std::fill(first + block.mul, first + padded(block.mul), Real<N>(0));
      }
  }
}

// Converts back, and adds to the result: the values or, for duals, the tangents.
template <class N>
void add_unpacked_row(const Irreps &irreps, const FeatureLayout &layout, const Real<N> *from, int64_t rows, int64_t r,
                      Real<N> *to) {
  for (int b = 0; b < irreps.size(); b++) {
    const FeatureBlock &block = layout.block(b);
    const FeatureGroup &group = layout.group(block.group);
    const int dim = group.irrep.dim(), offset = irreps.offset(b);
    const Real<N> *first =
        from + rows * group.offset + r * group.width() + block.channel + (PLANES<N> - 1) * group.channels;
    for (int m = 0; m < dim; m++, first += group.stride())
      for (int u = 0; u < block.mul; u++) to[offset + u * dim + m] += first[u];
  }
}

// Consecutive weights that are adjacent both in the rows of the user and in those of the kernels.
template <class T>
struct WeightRun {
  int user, kernel, size;
  T scale;
};

template <class T>
std::vector<WeightRun<T>> weight_runs(const std::vector<EdgeColumn> &columns) {
  std::vector<WeightRun<T>> runs;
  for (int c = 0; c < static_cast<int>(columns.size()); c++) {
    const T scale = static_cast<T>(columns[c].scale);
    if (!runs.empty() && columns[c].column == runs.back().kernel + runs.back().size && scale == runs.back().scale)
      runs.back().size++;
    else
      runs.push_back({c, columns[c].column, 1, scale});
  }
  return runs;
}

// x_adj of the senders first .. first + rows - 1 from the receivers of one part.
template <class R>
struct SenderAdjoint {
  int64_t first = 0, rows = 0;
  Buffer<R> data;
};

}    // namespace

void check_sizes(const EdgeList &edges) {
  if (std::max({edges.count, edges.num_senders, edges.num_receivers}) > INT32_MAX)
    throw std::out_of_range("more than 2^31 - 1 edges or nodes");
}

void check_edge(const EdgeList &edges, int64_t e, int64_t sender, int64_t receiver) {
  const auto check = [&](const char *what, int64_t row, int64_t rows) {
    if (row < 0 || row >= rows)
      throw std::out_of_range("edge " + std::to_string(e) + ": expected a " + what + " from 0 to " +
                              std::to_string(rows - 1) + ", found " + std::to_string(row));
  };
  check("sender", sender, edges.num_senders);
  check("receiver", receiver, edges.num_receivers);
}

OperatorProduct OperatorProduct::parse(const std::string &text) {
  const std::vector<std::string> parts = split(text, ';');
  if (parts.size() != 4)
    throw std::invalid_argument("product '" + text +
                                "': expected the irreps of the input, of the edges, of the output, and instructions");
  OperatorProduct p;
  p.product.irreps_in = Irreps::parse(parts[0]);
  p.irreps_edge = Irreps::parse(parts[1]);
  p.product.irreps_out = Irreps::parse(parts[2]);
  p.product.lmax_edge = std::max(0, p.irreps_edge.lmax());
  p.harmonic_column.assign((p.product.lmax_edge + 1) * (p.product.lmax_edge + 1), -1);
  for (int b = 0; b < p.irreps_edge.size(); b++) {
    const auto &[mul, irrep] = p.irreps_edge[b];
    if (mul != 1 || p.harmonic_column[irrep.l * irrep.l] >= 0)
      throw std::invalid_argument("irreps of the edges '" + parts[1] + "': expected each order once, with one channel");
    for (int m = 0; m < irrep.dim(); m++) p.harmonic_column[irrep.l * irrep.l + m] = p.irreps_edge.offset(b) + m;
  }
  for (const std::string &instruction : split(parts[3], ',')) {
    TensorProductPath path;
    int edge = -1;
    std::istringstream stream(instruction);
    if (!(stream >> path.in >> edge >> path.out >> path.scale) || !(stream >> std::ws).eof())
      throw std::invalid_argument("instruction '" + instruction + "': expected three blocks and a factor");
    if (edge < 0 || edge >= p.irreps_edge.size())
      throw std::invalid_argument("instruction '" + instruction + "': the edges have no block " + std::to_string(edge));
    path.l2 = p.irreps_edge[edge].irrep.l;
    p.product.paths.push_back(path);
  }
  p.product.validate();
  return p;
}

template <class T>
template <class N>
EdgeConvolution<T>::Kernels<N>::Kernels(const OperatorProduct &p)
    : in(p.product.irreps_in, PLANES<N>),
      out(p.product.irreps_out, PLANES<N>),
      tables(p.product, in, out),
      functions(host_kernels<N>(best_instruction_set())) {
  tables.select_kernels(best_instruction_set());
}

template <class T>
EdgeConvolution<T>::EdgeConvolution(const OperatorProduct &product)
    : product_(product), plain_(product), dual_(product) {}

template <class T>
void EdgeConvolution<T>::forward(const ParallelFor &parallel, int parts, const EdgeList &edges, const T *x, const T *y,
                                 const T *w, T *out) const {
  run(plain_, parallel, parts, edges, {x}, {y}, {w}, nullptr, {out});
}

template <class T>
void EdgeConvolution<T>::backward(const ParallelFor &parallel, int parts, const EdgeList &edges, const T *x, const T *y,
                                  const T *w, const T *g, T *x_adj, T *y_adj, T *w_adj) const {
  run(plain_, parallel, parts, edges, {x}, {y}, {w}, g, {nullptr, x_adj, y_adj, w_adj});
}

template <class T>
void EdgeConvolution<T>::double_backward(const ParallelFor &parallel, int parts, const EdgeList &edges, Operand x,
                                         Operand y, Operand w, const T *g, T *g_adj, T *x_adj, T *y_adj,
                                         T *w_adj) const {
  run(dual_, parallel, parts, edges, x, y, w, g, {g_adj, x_adj, y_adj, w_adj});
}

template <class T>
template <class N>
void EdgeConvolution<T>::run(const Kernels<N> &kernels, const ParallelFor &parallel, int parts, const EdgeList &edges,
                             Operand x, Operand y, Operand w, const T *g, const Results &results) const {
  const SortedEdges sorted(edges);
  const Irreps &irreps_in = product_.product.irreps_in, &irreps_out = product_.product.irreps_out;
  const int64_t in_dim = irreps_in.dim(), out_dim = irreps_out.dim(), y_dim = product_.irreps_edge.dim();
  const int64_t num_weights = product_.product.num_weights(), weights_row = kernels.tables.view().weights_row;
  const int num_y = kernels.tables.view().num_y;
  const std::vector<WeightRun<T>> runs = weight_runs<T>(kernels.tables.edge_columns());
  parts = static_cast<int>(std::clamp<int64_t>(edges.num_receivers, 1, std::max(1, parts)));
  const auto share = [&](int64_t rows, int part) { return rows * part / parts; };

  Buffer<T> packed_x;
  T *xs = packed_x.reserve(edges.num_senders * kernels.in.row_size());
  parallel(parts, [&](int part) {
    for (int64_t j = share(edges.num_senders, part); j < share(edges.num_senders, part + 1); j++)
      pack_row<N>(irreps_in, kernels.in, x.value + j * in_dim, x.tangent ? x.tangent + j * in_dim : nullptr, xs,
                  edges.num_senders, j);
  });

  // Receivers by part, with about the same number of edges each.
  std::vector<int64_t> first_receiver(parts + 1, 0);
  for (int part = 1; part < parts; part++)
    first_receiver[part] =
        std::lower_bound(sorted.begin.begin(), sorted.begin.end() - 1, share(edges.count, part)) - sorted.begin.begin();
  first_receiver[parts] = edges.num_receivers;
  std::vector<SenderAdjoint<T>> sender_adj(parts);

  parallel(parts, [&](int part) {
    const int64_t last = first_receiver[part + 1];
    SenderAdjoint<T> &own = sender_adj[part];
    std::vector<int> adjoint_row;
    T *x_adj = nullptr;
    const int64_t first_edge = sorted.begin[first_receiver[part]], end_edge = sorted.begin[last];
    if (results.x_adj && first_edge < end_edge) {
      const auto [low, high] =
          std::minmax_element(sorted.sender.begin() + first_edge, sorted.sender.begin() + end_edge);
      own.first = *low;
      own.rows = *high - *low + 1;
      x_adj = own.data.reserve(own.rows * kernels.in.row_size());
      std::fill_n(x_adj, own.rows * kernels.in.row_size(), T(0));
    }
    Buffer<N> ys, y_adj, fractions;
    Buffer<T> ws, outs, gs, ones;
    Buffer<char> scratch;
    std::vector<int64_t> begin;
    std::vector<int> rows;
    for (int64_t i = first_receiver[part]; i < last;) {
      int64_t end = i + 1;
      while (end < last && sorted.begin[end + 1] - sorted.begin[i] <= CHUNK_EDGES) end++;
      const int64_t first = sorted.begin[i], n = sorted.begin[end] - first;
      const int count = static_cast<int>(end - i);
      begin.clear();
      for (int64_t k = i; k <= end; k++) begin.push_back(sorted.begin[k] - first);

      N *harmonics = ys.reserve(n * num_y), *fraction = fractions.reserve(n);
      T *weights = ws.reserve(PLANES<N> * n * weights_row), *one = ones.reserve(n);
      std::fill_n(one, n, T(1));
      rows.resize(n);
      for (int64_t k = 0; k < n; k++) {
        const int64_t e = sorted.edge[first + k];
        rows[k] = static_cast<int>(k);
        for (int c = 0; c < num_y; c++) {
          const int column = product_.harmonic_column[c];
          harmonics[k * num_y + c] = column < 0 ? N(0)
                                                : make_number<N>(y.value[e * y_dim + column],
                                                                 y.tangent ? y.tangent[e * y_dim + column] : T(0));
        }
        fraction[k] = harmonics[k * num_y];
        for (int plane = 0; plane < PLANES<N>; plane++) {
          const T *from = plane == 0 ? w.value : w.tangent;
          T *to = weights + (plane * n + k) * weights_row;
          for (const WeightRun<T> &r : runs) {
            if (from)
              for (int u = 0; u < r.size; u++) to[r.kernel + u] = r.scale * from[e * num_weights + r.user + u];
            else
              std::fill_n(to + r.kernel, r.size, T(0));
            std::fill(to + r.kernel + r.size, to + r.kernel + padded(r.size), T(0));
          }
        }
      }
      ConvEdges<N> conv_edges{count,
                              begin.data(),
                              sorted.sender.data() + first,
                              harmonics,
                              nullptr,
                              0,
                              rows.data(),
                              fraction,
                              one,
                              1,
                              make_pointer<const N>(weights, n * weights_row)};
      char *const space = scratch.reserve(kernels.functions.scratch_bytes(kernels.tables.view(), conv_edges));

      if (results.out) {
        T *out = outs.reserve(count * kernels.out.row_size());
        kernels.functions.forward(kernels.tables.view(), conv_edges, xs, edges.num_senders, out, count, 0, space);
        for (int64_t k = i; k < end; k++) {
          std::fill_n(results.out + k * out_dim, out_dim, T(0));
          add_unpacked_row<N>(irreps_out, kernels.out, out, count, k - i, results.out + k * out_dim);
        }
      }
      if (g) {
        T *cotangent = gs.reserve(count * kernels.out.row_size());
        for (int64_t k = i; k < end; k++)
          pack_row<N>(irreps_out, kernels.out, g + k * out_dim, nullptr, cotangent, count, k - i);
        conv_edges.weights_adj = make_pointer<N>(weights, n * weights_row);    // in their places
        N *of_y = y_adj.reserve(n * num_y);
        adjoint_row.resize(n);
        for (int64_t k = 0; k < n; k++) adjoint_row[k] = static_cast<int>(sorted.sender[first + k] - own.first);
        kernels.functions.backward(kernels.tables.view(), conv_edges, xs, edges.num_senders, cotangent, count, 0, of_y,
                                   x_adj, own.rows, adjoint_row.data(), space);
        for (int64_t k = 0; k < n; k++) {
          const int64_t e = sorted.edge[first + k];
          for (int c = 0; c < num_y; c++) {
            const N v = of_y[k * num_y + c];
            const int column = product_.harmonic_column[c];
            if (column >= 0) results.y_adj[e * y_dim + column] = IS_DUAL<N> ? tangent_of(v) : value_of(v);
          }
          const T *from = weights + ((PLANES<N> - 1) * n + k) * weights_row;
          for (const WeightRun<T> &r : runs)
            for (int u = 0; u < r.size; u++) results.w_adj[e * num_weights + r.user + u] = r.scale * from[r.kernel + u];
        }
      }
      i = end;
    }
  });
  if (!results.x_adj) return;
  parallel(parts, [&](int part) {
    for (int64_t j = share(edges.num_senders, part); j < share(edges.num_senders, part + 1); j++) {
      T *to = results.x_adj + j * in_dim;
      std::fill_n(to, in_dim, T(0));
      for (const SenderAdjoint<T> &from : sender_adj)
        if (j >= from.first && j < from.first + from.rows)
          add_unpacked_row<N>(irreps_in, kernels.in, from.data.data(), from.rows, j - from.first, to);
    }
  });
}

template class EdgeConvolution<float>;
template class EdgeConvolution<double>;

}    // namespace equi
