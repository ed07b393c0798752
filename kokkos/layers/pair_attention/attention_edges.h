// SPDX-License-Identifier: MIT
// What pair attention (src/layers/pair_attention.h) computes for an edge, on hosts and devices. T: float, double or a
// Dual of them.
//
// The weights w of an edge are a row of numbers, the columns of heads and then those of groups, both padded. A *part*
// is a head or a group: the heads come first.
#ifndef EQUI_ATTENTION_EDGES_H
#define EQUI_ATTENTION_EDGES_H

#include "kokkos/kernel_libraries/convolution_tables.h"
#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/runtime/device_exec.h"
#include "src/base/model_limits.h"
#include "src/layers/pair_attention.h"
#include "src/numbers/host_device.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace equi {

// Column k of the weights belongs to channel k of the values, if it is below channels_of_heads.
struct AttentionShape {
  int heads, head_size, num_groups, num_components;
  int channels_of_heads, channels_of_groups;                       // padded
  int group_begin[MAX_ATTENTION_GROUPS + 1];                       // first column of each group among those of groups
  int l[MAX_ATTENTION_GROUPS], component[MAX_ATTENTION_GROUPS];    // component: first one, counted over all groups
  int key, value, second_query, second_key;                        // first channels in the input; queries begin at 0

  AttentionShape(const PairAttention &layer, const FeatureLayout &in)
      : heads(layer.heads),
        head_size(layer.channels / layer.heads),
        num_groups(static_cast<int>(layer.groups.size())),
        num_components(0),
        channels_of_heads(padded(layer.channels)),
        channels_of_groups(padded(layer.group_channels())),
        group_begin{},
        l{},
        component{},
        key(in.block(1).channel),
        value(in.block(2).channel),
        second_query(in.block(3).channel),
        second_key(in.block(4).channel) {
    for (int g = 0; g < num_groups; g++) {
      group_begin[g + 1] = group_begin[g] + layer.groups[g].channels;
      l[g] = layer.groups[g].l;
      component[g] = num_components;
      num_components += 2 * l[g] + 1;
    }
  }
  EQUI_FUNCTION int num_parts() const { return heads + num_groups; }
  EQUI_FUNCTION int row() const { return channels_of_heads + channels_of_groups; }
  EQUI_FUNCTION int part_begin(int part) const {
    return part < heads ? part * head_size : channels_of_heads + group_begin[part - heads];
  }
  EQUI_FUNCTION int part_size(int part) const {
    return part < heads ? head_size : group_begin[part - heads + 1] - group_begin[part - heads];
  }
  // The part of a column, or -1 for padding.
  EQUI_FUNCTION int part_of(int column) const {
    if (column < channels_of_heads) return column < heads * head_size ? column / head_size : -1;
    int g = 0;
    while (g < num_groups && column - channels_of_heads >= group_begin[g + 1]) g++;
    return g < num_groups ? heads + g : -1;
  }
  // The group of a component.
  EQUI_FUNCTION int group_of(int c) const {
    int g = num_groups - 1;
    while (component[g] > c) g--;
    return g;
  }
  // Channels of the input that belong to a column.
  EQUI_FUNCTION int query_at(int column) const {
    return column < channels_of_heads ? column : second_query + column - channels_of_heads;
  }
  EQUI_FUNCTION int key_at(int column) const {
    return column < channels_of_heads ? key + column : second_key + column - channels_of_heads;
  }
};

// The columns of the radial network, and those of the difference networks of heads and of groups, with the scales of
// the layer.
inline std::vector<EdgeColumn> attention_columns(const PairAttention &layer, const AttentionShape &shape) {
  std::vector<EdgeColumn> columns;
  for (int part = 0; part < shape.num_parts(); part++)
    for (int u = 0; u < shape.part_size(part); u++)
      columns.push_back(
          {shape.part_begin(part) + u, part < shape.heads ? layer.scale : layer.groups[part - shape.heads].scale});
  return columns;
}
inline std::vector<EdgeColumn> difference_columns(const PairAttention &layer, const AttentionShape &shape,
                                                  bool of_groups) {
  std::vector<EdgeColumn> columns;
  for (EdgeColumn c : attention_columns(layer, shape))
    if ((c.column >= shape.channels_of_heads) == of_groups) {
      if (of_groups) c.column -= shape.channels_of_heads;
      columns.push_back(c);
    }
  return columns;
}

// A difference network as a function of an edge: its inputs are the block of a feature with a row per edge, at the
// sender. It has no function of the distance except the cutoff function, which multiplies its outputs.
inline RadialFunction difference_function(const PairAttention &layer, int number) {
  RadialFunction function;
  function.basis = layer.radial.basis;
  function.basis.kind = RadialBasis::Kind::bessel;
  function.basis.wave_numbers.clear();
  function.basis.transform = RadialBasis::Transform::none;
  function.basis.pair_r0 = Matrix();
  function.network = layer.difference[number];
  function.sender_block = 0;
  function.times_cutoff = true;
  return function;
}
// A line of the log; of_radial: EdgeNetwork::describe().
inline std::string describe_pair_attention(const PairAttention &layer, const std::string &of_radial) {
  return "pair attention: " + std::to_string(layer.heads) + (layer.heads == 1 ? " head" : " heads") + ", weights " +
         of_radial;
}
// The feature that difference networks read, with a row per edge.
inline FeatureLayout differences_layout(const PairAttention &layer, int planes) {
  return FeatureLayout(Irreps(std::vector<IrrepBlock>{{static_cast<int>(layer.groups.size()), {0, 1}}}), planes);
}

// Rows of the input or the output, or of their adjoints. Const calls may write them.
template <class T>
struct AttentionRows {
  Real<T> *scalars = nullptr;    // null: not requested
  int64_t width = 0, channels = 0;
  struct Tensor {
    Real<T> *x = nullptr;
    int64_t width = 0, stride = 0, channels = 0;
  } tensor[MAX_ATTENTION_GROUPS];

  // first_tensor: number of the block with the first tensor.
  AttentionRows() = default;
  AttentionRows(FeatureRows<Real<T>> rows, const FeatureLayout &layout, int first_tensor) {
    if (!rows.data) return;
    scalars = rows.group(layout.group(0));
    width = layout.group(0).width();
    channels = layout.group(0).channels;
    for (int b = first_tensor; b < layout.num_blocks(); b++) {
      const FeatureGroup &group = layout.group(layout.block(b).group);
      tensor[b - first_tensor] = {rows.group(group) + layout.block(b).channel, group.width(), group.stride(),
                                  group.channels};
    }
  }
  EQUI_FUNCTION Pointer<T> at(int64_t row, int channel) const {
    return make_pointer<T>(scalars + row * width + channel, channels);
  }
  // Component m of a tensor, from 0 on.
  EQUI_FUNCTION Pointer<T> of_tensor(int64_t row, int g, int m) const {
    return make_pointer<T>(tensor[g].x + row * tensor[g].width + m * tensor[g].stride, tensor[g].channels);
  }
};

template <class T>
EQUI_FUNCTION void add_to(Pointer<T> p, int64_t k, T number) {
  put(p, k, T(p[k]) + number);
}

// The sum of term(u) for 0 <= u < n, in as many sums as SIMD lanes may have.
template <class T, class F>
EQUI_FUNCTION T sum_of_terms(int n, const F &term) {
  constexpr int SUMS = 8;
  T sum[SUMS];
  EQUI_UNROLL for (int k = 0; k < SUMS; k++) sum[k] = T(0);
  int u = 0;
  for (; u + SUMS <= n; u += SUMS) {
    EQUI_UNROLL for (int k = 0; k < SUMS; k++) sum[k] += term(u + k);
  }
  for (; u < n; u++) sum[0] += term(u);
  EQUI_UNROLL for (int half = SUMS / 2; half > 0; half /= 2) for (int k = 0; k < half; k++) sum[k] += sum[k + half];
  return sum[0];
}

// The queries, keys and weights of a part, for one edge: a = sum of q k w.
template <class T>
struct AttentionPart {
  int size;
  Pointer<T> q, k, w;
  T a, a_adj;

  EQUI_FUNCTION T query_adj(int u) const { return a_adj * (T(k[u]) * T(w[u])); }
  EQUI_FUNCTION T key_adj(int u) const { return a_adj * (T(q[u]) * T(w[u])); }
  EQUI_FUNCTION T weight_adj(int u) const { return a_adj * (T(q[u]) * T(k[u])); }
};

// Some edges. Arrays of numbers are in planes.
template <class T>
struct AttentionEdges {
  using R = Real<T>;
  AttentionShape shape;
  int64_t count = 0;
  const int *sender = nullptr, *receiver = nullptr, *out = nullptr;    // rows of x, and of the output and its adjoint
  AttentionRows<T> x = {};
  Pointer<T> weights = {};    // [count][row()], or their adjoints
  // Without tensors, these are not used: outputs of the difference networks of heads and of groups [count][channels],
  // or their adjoints; rows of s and of its adjoint [count].
  Pointer<T> difference[2] = {};
  R *squares = nullptr, *squares_adj = nullptr;
  int64_t squares_width = 0, squares_channels = 0;
  const T *y = nullptr;    // [count][num_y] harmonics
  int num_y = 0;
  Pointer<T> scores = {}, scores_adj = {};    // [count][num_parts()] a and b

  EQUI_FUNCTION Pointer<T> row_of_weights(int64_t e) const { return weights + e * shape.row(); }
  EQUI_FUNCTION Pointer<T> squares_of(int64_t e) const {
    return make_pointer<T>(squares + e * squares_width, squares_channels);
  }
  EQUI_FUNCTION Pointer<T> squares_adj_of(int64_t e) const {
    return make_pointer<T>(squares_adj + e * squares_width, squares_channels);
  }
  EQUI_FUNCTION const T *harmonics(int64_t e, int g) const { return y + e * num_y + shape.l[g] * shape.l[g]; }

  // s_g = |t_g(j) - t_g(i)|^2 / sqrt(2 l + 1)
  EQUI_FUNCTION R square_scale(int g) const { return R(1) / std::sqrt(static_cast<R>(2 * shape.l[g] + 1)); }
  EQUI_FUNCTION T difference_of(int64_t e, int g, int m) const {
    return T(x.of_tensor(sender[e], g, m)[0]) - T(x.of_tensor(receiver[e], g, m)[0]);
  }
  EQUI_FUNCTION void set_square(int64_t e, int g) const {
    T sum = T(0);
    for (int m = 0; m <= 2 * shape.l[g]; m++) {
      const T d = difference_of(e, g, m);
      sum += d * d;
    }
    put(squares_of(e), g, square_scale(g) * sum);
  }
  // The adjoint of a component of the sender's tensor; that of the receiver's is its negative.
  EQUI_FUNCTION T tensor_adj(int64_t e, int g, int m) const {
    return (R(2) * square_scale(g)) * (T(squares_adj_of(e)[g]) * difference_of(e, g, m));
  }

  // The output of a difference network that is added to a weight.
  EQUI_FUNCTION Pointer<T> difference_at(int64_t e, int column) const {
    return column < shape.channels_of_heads
               ? difference[0] + (e * shape.channels_of_heads + column)
               : difference[1] + (e * shape.channels_of_groups + column - shape.channels_of_heads);
  }

  EQUI_FUNCTION void set_score(int64_t e, int part) const {
    const AttentionPart<T> p = operands(e, part);
    put(scores, e * shape.num_parts() + part,
        sum_of_terms<T>(p.size, [&](int u) { return T(p.q[u]) * T(p.k[u]) * T(p.w[u]); }));
  }
  EQUI_FUNCTION T score(int64_t e, int part) const { return scores[e * shape.num_parts() + part]; }
  EQUI_FUNCTION T score_adj(int64_t e, int part) const { return scores_adj[e * shape.num_parts() + part]; }
  // A part with its score and its adjoint; the second function leaves these out.
  EQUI_FUNCTION AttentionPart<T> part_of_edge(int64_t e, int part) const {
    AttentionPart<T> p = operands(e, part);
    p.a = score(e, part);
    p.a_adj = score_adj(e, part);
    return p;
  }
  EQUI_FUNCTION AttentionPart<T> operands(int64_t e, int part) const {
    const int begin = shape.part_begin(part);
    return {shape.part_size(part),
            x.at(receiver[e], shape.query_at(begin)),
            x.at(sender[e], shape.key_at(begin)),
            row_of_weights(e) + begin,
            T(0),
            T(0)};
  }
  EQUI_FUNCTION Pointer<T> values(int64_t e, int head) const {
    return x.at(sender[e], shape.value + head * shape.head_size);
  }

  // y_adj: the adjoint of the output.
  EQUI_FUNCTION void set_score_adj(int64_t e, int part, const AttentionRows<T> &y_adj) const {
    T sum = T(0);
    if (part < shape.heads) {
      const Pointer<T> v = values(e, part), g = y_adj.at(out[e], part * shape.head_size);
      sum = sum_of_terms<T>(shape.head_size, [&](int u) { return T(v[u]) * T(g[u]); });
    } else {
      const int g = part - shape.heads;
      const T *const harmonic = harmonics(e, g);
      for (int m = 0; m <= 2 * shape.l[g]; m++) sum += harmonic[m] * T(y_adj.of_tensor(out[e], g, m)[0]);
    }
    put(scores_adj, e * shape.num_parts() + part, sum);
  }
};

}    // namespace equi

#endif
