// SPDX-License-Identifier: MIT
// What the kernels of local networks compute for one row, on both back ends. A row is an edge, a receiver, or a part of
// a receiver. Lanes run over channels, whose number is a multiple of CHANNEL_PAD; those without a meaning are 0.
//
// L, the lanes that compute a row, has
//   FIRST .. in steps of STEP    its channels (members `first` and `step`)
//   load(pointer), store(pointer, v), zero<N>(), make<T>(value, tangent)
//   sum(v)                       the sum over all channels
//   add_sums(v, to)              to[k] += sum(v[k]) for an array of sums, once for all lanes
//   activate(...)                LocalActivation
// T: float, double or a dual of them. Numbers of duals are in planes (dual.h).
#ifndef EQUI_LOCAL_ROWS_H
#define EQUI_LOCAL_ROWS_H

#include "src/functions/activation.h"
#include "src/generator/kernel_layout.h"
#include "src/numbers/dual.h"
#include "src/numbers/host_device.h"

#include <cstdint>
#include <type_traits>

namespace equi {

// An array of rows, or adjacent numbers of each row of an array. Const calls may write them.
template <class T>
struct LocalRows {
  Real<T> *data = nullptr;
  int64_t row = 0, plane = 0;    // distances of rows and of planes
  EQUI_FUNCTION Pointer<T> at(int64_t r) const { return make_pointer<T>(data + r * row, plane); }
};

// The edges of some receivers; edge e has position first + e. On devices, positions may be no edges.
struct LocalEdges {
  int num_receivers;
  const int64_t *begin;    // [num_receivers + 1] positions
  int64_t first;
  const int *receiver;    // [edges] 0 where there is no edge
  const int *species;     // [num_receivers]
  EQUI_FUNCTION bool contains(int64_t e) const { return begin[0] <= first + e && first + e < begin[num_receivers]; }
  EQUI_FUNCTION int64_t first_of(int64_t receiver_row) const { return begin[receiver_row] - first; }
  EQUI_FUNCTION int64_t end_of(int64_t receiver_row) const { return begin[receiver_row + 1] - first; }
};

// ---- functions of the distance
// Functions from tables, and their derivatives with respect to the distance. Row: an edge.
template <class T>
struct LocalTable {
  using R = Real<T>;
  const R *powers;    // [bin][coefficients][width] of polynomials
  int coefficients, width;
  const int *bin;
  const R
      *place;    // [edge][3] position in the bin, its derivative with respect to the distance, tangent of the latter
  LocalRows<T> values, slopes;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    if (coefficients == CUBIC_ROWS)
      row_of<CUBIC_ROWS>(l, e);
    else if (coefficients == QUINTIC_ROWS)
      row_of<QUINTIC_ROWS>(l, e);
    else
      row_of<SEPTIC_ROWS>(l, e);
  }

 private:
  template <int ROWS, class L>
  EQUI_FUNCTION void row_of(const L &l, int64_t e) const {
    const R *const of_bin = powers + int64_t(bin[e]) * ROWS * width;
    const R fraction = place[3 * e], per_length = place[3 * e + 1], along = place[3 * e + 2];
    const Pointer<T> value = values.at(e), slope = slopes.at(e);
    for (int u = l.first; u < width; u += l.step) {
      auto p = l.load(of_bin + (ROWS - 1) * width + u);
      auto d = l.template zero<R>(), half = l.template zero<R>();
      for (int k = ROWS - 2; k >= 0; k--) {
        if (IS_DUAL<T>) half = half * fraction + d;
        d = d * fraction + p;
        p = p * fraction + l.load(of_bin + k * width + u);
      }
      d = d * per_length;
      l.store(value + u, l.template make<T>(p, d * along));
      l.store(slope + u, l.template make<T>(d, half * (R(2) * per_length * per_length * along)));
    }
  }
};

// The derivative of the energy with respect to the distance, from those with respect to the functions. Row: an edge.
template <class T>
struct LocalDistance {
  LocalEdges edges;
  int width;
  LocalRows<T> adjoints, slopes;
  DoubleOf<T> *distance_adj;
  int64_t stride;    // of distance_adj
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Pointer<T> adjoint = adjoints.at(e), slope = slopes.at(e);
    auto sum = l.template zero<T>();
    for (int u = l.first; u < width; u += l.step) sum += l.load(adjoint + u) * l.load(slope + u);
    const decltype(sum) sums[1] = {sum};
    if (edges.contains(e)) l.template add_sums<T>(sums, distance_adj + e * stride);
  }
};

// ---- networks
// Computes h = scale activation(z), and replaces z by the derivative of h. Row: an edge.
template <class T>
struct LocalActivation {
  Activation activation;
  Real<T> scale;
  int width;
  LocalRows<T> z, h;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    l.template activate<T>(activation, scale, width, z.at(e), h.at(e));
  }
};

// Multiplies a row, an edge, by numbers: `to` *= `by`.
template <class T>
struct LocalMultiply {
  int width;
  LocalRows<T> to, by;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Pointer<T> x = to.at(e), y = by.at(e);
    for (int u = l.first; u < width; u += l.step) l.store(x + u, l.load(x + u) * l.load(y + u));
  }
};

// Multiplies a row, an edge, by the factors of its two species.
template <class T>
struct LocalFactors {
  LocalEdges edges;
  const int *sender_species;                 // by position
  const Real<T> *of_receiver, *of_sender;    // [species][width]
  int width;
  LocalRows<T> x;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    if (!edges.contains(e)) return;
    const Real<T> *const a = of_receiver + int64_t(edges.species[edges.receiver[e]]) * width,
                         *const b = of_sender + int64_t(sender_species[edges.first + e]) * width;
    const Pointer<T> at = x.at(e);
    for (int u = l.first; u < width; u += l.step) l.store(at + u, (l.load(a + u) * l.load(b + u)) * l.load(at + u));
  }
};

// y = x W with the matrix of an edge's pair of species, or x = y W^T. Row: an edge.
template <class T>
struct LocalPairProduct {
  LocalEdges edges;
  const int *sender_species;
  int num_species, num_x, width;
  const Real<T> *matrices;    // [receiver species][sender species][num_x][width]
  LocalRows<T> x, y;
  bool is_transposed;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    if (!edges.contains(e)) return;
    const int64_t pair = int64_t(edges.species[edges.receiver[e]]) * num_species + sender_species[edges.first + e];
    const Real<T> *const matrix = matrices + pair * num_x * width;
    const Pointer<T> x_row = x.at(e), y_row = y.at(e);
    if (is_transposed) {
      for (int n = 0; n < num_x; n++) {
        auto sum = l.template zero<T>();
        for (int u = l.first; u < width; u += l.step)
          sum += l.load(matrix + int64_t(n) * width + u) * l.load(y_row + u);
        const T total = l.template sum<T>(sum);
        if (l.is_first()) put(x_row, n, total);
      }
      return;
    }
    for (int u = l.first; u < width; u += l.step) {
      auto sum = l.template zero<T>();
      for (int n = 0; n < num_x; n++) {
        const T number = x_row[n];
        const auto of_row = l.load(matrix + int64_t(n) * width + u);
        sum += l.template make<T>(of_row * value_of(number), of_row * tangent_of(number));
      }
      l.store(y_row + u, sum);
    }
  }
};

// The number that a row, an edge, adds to an energy: the first of `sums`.
template <class T>
struct LocalReadout {
  int width;
  const Real<T> *weights;    // [width]
  LocalRows<T> h, sums;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Pointer<T> x = h.at(e);
    auto sum = l.template zero<T>();
    for (int u = l.first; u < width; u += l.step) sum += l.load(weights + u) * l.load(x + u);
    const T total = l.template sum<T>(sum);
    if (l.is_first()) put(sums.at(e), 0, total);
  }
};

// Adds these numbers, in the order of the edges, to the energy of a row, a receiver.
template <class T>
struct LocalEnergy {
  LocalEdges edges;
  const double *scale;    // [species]
  LocalRows<T> sums;
  DoubleOf<T> *energy;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t a) const {
    DoubleOf<T> sum(0.0);
    for (int64_t e = edges.first_of(a); e < edges.end_of(a); e++) sum += static_cast<DoubleOf<T>>(T(sums.at(e)[0]));
    if (l.is_first()) energy[a] += scale[edges.species[a]] * sum;
  }
};

// The adjoint of h. Row: an edge.
template <class T>
struct LocalReadoutAdjoint {
  LocalEdges edges;
  int width;
  const Real<T> *weights;
  const double *scale;
  LocalRows<T> h_adj;
  bool add;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Real<T> factor = static_cast<Real<T>>(scale[edges.species[edges.receiver[e]]]);
    const Pointer<T> to = h_adj.at(e);
    for (int u = l.first; u < width; u += l.step) {
      const auto value = factor * l.load(weights + u);
      const auto adjoint = l.template make<T>(value, l.template zero<Real<T>>());
      l.store(to + u, add ? l.load(to + u) + adjoint : adjoint);
    }
  }
};

// ---- tensors
// Harmonics of edges, and the derivatives of the energy with respect to them.
template <class T>
struct LocalHarmonics {
  const T *y;
  int64_t y_row;
  DoubleOf<T> *y_adj;
  int64_t num_y;
};

// Blocks of tensors. Component c, counted over all blocks, belongs to block component[2c], and is number
// component[2c+1] of the harmonics.
struct LocalBlocks {
  int num_blocks, num_components, channels;
  const int *degree;       // [num_blocks]
  const int *component;    // [num_components][2]
};

// x[c][u] = w[block of c][u] Y[c]. Row: an edge.
template <class T>
struct LocalTensor {
  LocalEdges edges;
  LocalBlocks blocks;
  LocalHarmonics<T> harmonics;
  LocalRows<T> w, x;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    if (!edges.contains(e)) return;
    const T *const y = harmonics.y + e * harmonics.y_row;
    const Pointer<T> from = w.at(e), to = x.at(e);
    for (int c = 0; c < blocks.num_components; c++)
      for (int u = l.first; u < blocks.channels; u += l.step)
        l.store(to + (c * blocks.channels + u),
                y[blocks.component[2 * c + 1]] * l.load(from + (blocks.component[2 * c] * blocks.channels + u)));
  }
};

// The adjoints of w and Y from that of x. Row: an edge.
template <class T>
struct LocalTensorAdjoint {
  LocalEdges edges;
  LocalBlocks blocks;
  LocalHarmonics<T> harmonics;
  LocalRows<T> w;    // replaced by its adjoint
  LocalRows<T> x_adj;
  bool of_receivers;    // rows of x_adj are those of receivers, not of edges
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    if (!edges.contains(e)) return;
    const T *const y = harmonics.y + e * harmonics.y_row;
    DoubleOf<T> *const y_adj = harmonics.y_adj + e * harmonics.num_y;
    Pointer<T> from = x_adj.at(of_receivers ? edges.receiver[e] : e);
    const Pointer<T> factors = w.at(e);
    for (int b = 0; b < blocks.num_blocks; b++) {
      const int degree = blocks.degree[b];
      for_degree<0>(l, degree, y + degree * degree, from, factors + b * blocks.channels, y_adj + degree * degree);
      from += (2 * degree + 1) * blocks.channels;
    }
  }

 private:
  template <int DEGREE, class L>
  EQUI_FUNCTION void for_degree(const L &l, int degree, const T *y, Pointer<T> from, Pointer<T> factors,
                                DoubleOf<T> *y_adj) const {
    if (degree == DEGREE) return block<DEGREE>(l, y, from, factors, y_adj);
    if constexpr (DEGREE < 8) for_degree<DEGREE + 1>(l, degree, y, from, factors, y_adj);
  }
  template <int DEGREE, class L>
  EQUI_FUNCTION void block(const L &l, const T *y, Pointer<T> from, Pointer<T> factors, DoubleOf<T> *y_adj) const {
    constexpr int DIM = 2 * DEGREE + 1;
    auto zero = l.template zero<T>();
    decltype(zero) sums[DIM];
    for (int m = 0; m < DIM; m++) sums[m] = zero;
    for (int u = l.first; u < blocks.channels; u += l.step) {
      const auto factor = l.load(factors + u);
      auto sum = zero;
      for (int m = 0; m < DIM; m++) {
        const auto x = l.load(from + (m * blocks.channels + u));
        sum += y[m] * x;
        sums[m] += factor * x;
      }
      l.store(factors + u, sum);
    }
    // The harmonic of degree 0 is a constant; its place has the derivative with respect to the distance.
    if constexpr (DEGREE > 0) l.template add_sums<T>(sums, y_adj);
  }
};

// G[c][u] = scale times the sum over the receiver's edges of w[block of c][u] Y[c] or, without w, of x[c][u]. Row:
// component c of receiver a has number a num_components + c.
template <class T>
struct LocalSum {
  LocalEdges edges;
  LocalBlocks blocks;
  LocalHarmonics<T> harmonics;
  LocalRows<T> w, x;
  const Real<T> *scale;    // [species]
  LocalRows<T> sums;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t r) const {
    const int64_t a = r / blocks.num_components;
    const int c = static_cast<int>(r % blocks.num_components);
    const int at = w.data ? blocks.component[2 * c] * blocks.channels : c * blocks.channels;
    const T *const y = harmonics.y + blocks.component[2 * c + 1];
    const Real<T> factor = scale[edges.species[a]];
    const int64_t end = edges.end_of(a);
    for (int u = l.first; u < blocks.channels; u += l.step) {
      auto total = l.template zero<T>();
      // Sums of a few edges are added up, which loses fewer digits in float32.
      for (int64_t first = edges.first_of(a); first < end; first += EDGES_TOGETHER) {
        const int64_t last = first + EDGES_TOGETHER < end ? first + EDGES_TOGETHER : end;
        auto sum = l.template zero<T>();
        if (w.data)
          for (int64_t e = first; e < last; e++) sum += y[e * harmonics.y_row] * l.load(w.at(e) + (at + u));
        else
          for (int64_t e = first; e < last; e++) sum += l.load(x.at(e) + (at + u));
        total += sum;
      }
      l.store(sums.at(a) + (c * blocks.channels + u), factor * total);
    }
  }
  static constexpr int EDGES_TOGETHER = 16;
};

// Multiplies rows of receivers by a factor of their species.
template <class T>
struct LocalScale {
  LocalEdges edges;
  const Real<T> *scale;
  int width;
  LocalRows<T> x;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t a) const {
    const Real<T> factor = scale[edges.species[a]];
    const Pointer<T> at = x.at(a);
    for (int u = l.first; u < width; u += l.step) l.store(at + u, factor * l.load(at + u));
  }
};

// Copies, or adds, the row of an edge's receiver.
template <class T>
struct LocalSpread {
  LocalEdges edges;
  int width;
  LocalRows<T> from, to;
  bool add;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Pointer<T> source = from.at(edges.receiver[e]), x = to.at(e);
    for (int u = l.first; u < width; u += l.step) {
      const auto v = l.load(source + u);
      l.store(x + u, add ? l.load(x + u) + v : v);
    }
  }
};

// ---- products of tensors, x'[c] = sum over a of x[a] M[a,c], where M is made of the environment
// A list of terms for each number of a result: those of number k are begin[k] .. begin[k+1] - 1.
template <class R>
struct LocalTerms {
  const int *begin;
  const int *entries;    // [terms][2]
  const R *factors;      // [terms], or null
};

// to[k][u] (+)= sum over terms of factor weights[entry 0][u] from[entry 1][u]. Row: number k of receiver a has number a
// size + k. It computes M, or the adjoint of the environment from that of M.
template <class T>
struct LocalCoupling {
  int size, channels;
  LocalTerms<Real<T>> terms;
  const Real<T> *weights;    // [paths][channels]
  LocalRows<T> from, to;
  bool add;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t r) const {
    const int64_t a = r / size;
    const int k = static_cast<int>(r % size);
    const Pointer<T> source = from.at(a), x = to.at(a) + int64_t(k) * channels;
    for (int u = l.first; u < channels; u += l.step) {
      auto sum = l.template zero<T>();
      for (int n = terms.begin[k]; n < terms.begin[k + 1]; n++)
        sum += (terms.factors[n] * l.load(weights + (int64_t(terms.entries[2 * n]) * channels + u))) *
               l.load(source + (int64_t(terms.entries[2 * n + 1]) * channels + u));
      l.store(x + u, add ? l.load(x + u) + sum : sum);
    }
  }
};

// to[k][u] (+)= sum over terms of from[entry 0][u] M[entry 1][u] of the receiver. Row: an edge. It computes x', or the
// adjoint of x from that of x'.
template <class T>
struct LocalProduct {
  LocalEdges edges;
  int size, channels;
  LocalTerms<Real<T>> terms;
  LocalRows<T> from, m, to;
  bool add;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t e) const {
    const Pointer<T> source = from.at(e), matrix = m.at(edges.receiver[e]), x = to.at(e);
    int u = l.first;
    for (; u + l.step < channels; u += 2 * l.step) for_channels<2>(l, source + u, matrix + u, x + u);
    if (u < channels) for_channels<1>(l, source + u, matrix + u, x + u);
  }

 private:
  // Several channels share the walk through the terms.
  template <int PARTS, class L>
  EQUI_FUNCTION void for_channels(const L &l, Pointer<T> source, Pointer<T> matrix, Pointer<T> x) const {
    const auto zero = l.template zero<T>();
    for (int k = 0; k < size; k++) {
      std::remove_const_t<decltype(zero)> sum[PARTS];
      for (int part = 0; part < PARTS; part++) sum[part] = zero;
      for (int n = terms.begin[k]; n < terms.begin[k + 1]; n++) {
        const Pointer<T> a = source + terms.entries[2 * n] * channels, b = matrix + terms.entries[2 * n + 1] * channels;
        for (int part = 0; part < PARTS; part++) sum[part] += l.load(a + part * l.step) * l.load(b + part * l.step);
      }
      for (int part = 0; part < PARTS; part++) {
        const Pointer<T> at = x + (k * channels + part * l.step);
        l.store(at, add ? l.load(at) + sum[part] : sum[part]);
      }
    }
  }
};

// The adjoints of the cells M[a, c] of a component c: sums over the receiver's edges of x[a] x'_adj[c]. Row: component
// c of receiver a has number a size + c.
template <class T>
struct LocalProductAdjoint {
  LocalEdges edges;
  int size, channels;
  LocalTerms<Real<T>> cells;    // of each component c: numbers a, and of the cells
  LocalRows<T> x, out_adj, m_adj;
  template <class L>
  EQUI_FUNCTION void row(const L &l, int64_t r) const {
    const int64_t a = r / size;
    const int c = static_cast<int>(r % size), end = cells.begin[c + 1];
    for (int u = l.first; u < channels; u += l.step) {
      int n = cells.begin[c];
      for (; n + TOGETHER <= end; n += TOGETHER) for_cells<TOGETHER>(l, a, c * channels + u, n, u);
      for (; n < end; n++) for_cells<1>(l, a, c * channels + u, n, u);
    }
  }

 private:
  // Cells that share the reading of x'_adj.
  static constexpr int TOGETHER = 4;
  template <int NUM, class L>
  EQUI_FUNCTION void for_cells(const L &l, int64_t a, int out, int first, int u) const {
    const auto zero = l.template zero<T>();
    std::remove_const_t<decltype(zero)> sum[NUM];
    int in[NUM];
    for (int k = 0; k < NUM; k++) {
      sum[k] = zero;
      in[k] = cells.entries[2 * (first + k)] * channels + u;
    }
    for (int64_t e = edges.first_of(a); e < edges.end_of(a); e++) {
      const auto adjoint = l.load(out_adj.at(e) + out);
      const Pointer<T> of_edge = x.at(e);
      for (int k = 0; k < NUM; k++) sum[k] += l.load(of_edge + in[k]) * adjoint;
    }
    for (int k = 0; k < NUM; k++)
      l.store(m_adj.at(a) + (int64_t(cells.entries[2 * (first + k) + 1]) * channels + u), sum[k]);
  }
};

// A list of the kernels for a number type.
template <template <class...> class List, class T>
using ForLocalKernels =
    List<LocalTable<T>, LocalDistance<T>, LocalActivation<T>, LocalMultiply<T>, LocalFactors<T>, LocalPairProduct<T>,
         LocalReadout<T>, LocalEnergy<T>, LocalReadoutAdjoint<T>, LocalTensor<T>, LocalTensorAdjoint<T>, LocalSum<T>,
         LocalScale<T>, LocalSpread<T>, LocalCoupling<T>, LocalProduct<T>, LocalProductAdjoint<T>>;

// The function of each kernel that computes its rows 0 .. count - 1.
template <class Kernel>
struct RowFunction {
  void (*run)(const Kernel &kernel, int64_t count);
};
template <class... Kernels>
struct RowFunctions : RowFunction<Kernels>... {
  template <class Kernel>
  void operator()(const Kernel &kernel, int64_t count) const {
    RowFunction<Kernel>::run(kernel, count);
  }
};
template <class T>
using LocalKernels = ForLocalKernels<RowFunctions, T>;

}    // namespace equi

#endif
