// SPDX-License-Identifier: MIT
// The call of a kernel of one path group (kernel_schedule.h), for one atom, all its edges and all channels of the
// group. For a uvw path, whose table is large, it is for several atoms. Kernels of symmetric contractions
// (contraction_kernel.h) are in the same libraries.
//
// Generated kernels come from the build or from a library that a user made with `equi compile`. Such a library
// shares only this header with the plugin. The header contains plain data, without Kokkos and standard containers.
// The files that include it are compiled for several instruction sets, and code for one must not be linked into
// another's callers. A change of a structure or of its meaning requires a higher PATH_GROUP_KERNEL_ABI.
#ifndef EQUI_PATH_GROUP_KERNEL_H
#define EQUI_PATH_GROUP_KERNEL_H

#include "kokkos/kernel_interface/contraction_kernel.h"
#include "src/generator/kernel_layout.h"

#include <cstdint>

namespace equi {

constexpr int PATH_GROUP_KERNEL_ABI = 11;

// A radial weight is a polynomial in the distance f from the middle of its bin, in widths of the bin: w = sum_k
// row_k f^k. The same rows, which may be split (SPLIT_ROWS), give dw/df. The first row of edge e for channel block k
// of a path q (its number in the path group) is at
//   table + k * channel_block + table_row[e] * stride + q * CHANNEL_PAD,
// and the next one is stride further; stride = num_paths * CHANNEL_PAD. T: float, double or a Dual of them. Numbers
// of channels, and of edges that SIMD handles side by side, have planes (Pointer); single numbers of an edge are
// adjacent. The table is plain; that of duals is never cubic.
template <class T>
struct PathGroupCall {
  int count;       // edges
  int channels;    // with padding
  const Real<T> *table;
  int64_t channel_block;
  const int *table_row;    // [count]
  const T *fraction;       // [count]

  // Weights of edges (ROWS = 1) instead of a table. The weight of path q and channel c is number table_row[e] *
  // weights_row + column[q] + c. The fraction is then the harmonic of order 0, which multiplies the paths of l2 = 0;
  // with tables it is 1.
  Pointer<const T> weights;
  int64_t weights_row;
  const int *column;

  // Features: component m of the other atom's row e is at x + x_row[e] * x_width + m * x_stride.
  Pointer<const T> x;
  int64_t x_width;
  int x_stride;
  const int *x_row;    // [count]; in a gather of senders the row of out

  // out[q] + m * out_stride[q]: component m of path q. Forward writes it, backward reads it as the cotangent. In a
  // gather of senders out[q] is the first row, and the next one is out_width[q] numbers further.
  const Pointer<T> *out;
  const int *out_stride;
  const int64_t *out_width;

  Pointer<const T> coupled;    // [blocks of edges][num_coupled][EDGE_BLOCK] (forward, gather)

  // Backward.
  const T *y;    // [count][num_y] harmonics
  int num_y;
  T *y_adj;    // [count][num_y], results are added; number 0 is dE/df
  // With weights of edges: null, or where the derivatives with respect to the weights are stored, in the layout of
  // the weights. May be the same memory as the weights, which are then overwritten.
  Pointer<T> weights_adj;
  Pointer<T> d;            // scratch [num_d * channels], for rigid_backward with a plane for each direction
  Pointer<T> x_adj;        // null, or added to: component m at x_adj + x_adj_row[e] * x_width + m * x_stride
  const int *x_adj_row;    // [count]; a gather adds to one atom's x_adj instead

  // The moving and rigid kernels of duals compute several directions at a time. The planes of their tangents follow
  // those of the values at equal distances: direction k of p is at p.value + (1 + k) * p.distance. The values in
  // y_adj are not read.
  int directions;
  int64_t fraction_distance;    // between the fractions of two directions (moving_forward)
  // Null, or [directions] numbers of an edge, as far apart as fractions. The sender's tangents in direction k that
  // edge e reads are those of the row plus sender_factor[k * fraction_distance + e] times those in direction 0.
  const Real<T> *sender_factor;
  int64_t y_adj_distance;    // between the y_adj of two directions
  Real<T> *edge_weights;     // scratch [2 * paths * channels], backward
};

// Kernels exist for weights of edges, for cubic tables of float, and for the tables of high degree of a number type:
// quintic ones of float, the split ones of degree 7 of double. Returns the place in a list of these three, or -1 for
// exact tables and others, which use the generic kernels.
template <class T>
constexpr int FINE_ROWS = sizeof(Real<T>) == sizeof(float) ? QUINTIC_ROWS : SPLIT_ROWS;
// Whether bins with this many rows are split, and how many coefficients they have.
template <class T, int ROWS>
constexpr bool IS_SPLIT = sizeof(Real<T>) == sizeof(double) && ROWS == SPLIT_ROWS;
template <class T>
constexpr int coefficients_in(int rows) {
  return IS_SPLIT<T, SPLIT_ROWS> && rows == SPLIT_ROWS ? SEPTIC_ROWS : rows;
}
template <class T>
constexpr int kernel_place(int rows) {
  constexpr int FINE = FINE_ROWS<T>;
  return rows == 1 ? 0 : rows == FINE ? 2 : rows == CUBIC_ROWS ? 1 : -1;
}

template <class T>
struct PathGroupKernel {
  const char *key;    // PathGroupShape::key
  // coupled [num_coupled][EDGE_BLOCK] of one block of edges from y [..][EDGE_BLOCK]
  void (*couple_harmonics)(Pointer<const T> y, Pointer<T> coupled);
  // By kernel_place(). Cubic tables: null except for float; weights of edges: null for a gather.
  void (*forward[3])(const PathGroupCall<T> &);
  void (*backward[3])(const PathGroupCall<T> &);
  void (*gather[3])(const PathGroupCall<T> &);
  // Null for plain numbers. For duals with tables: computes what forward writes, with the tangents in all
  // directions.
  void (*moving_forward)(const PathGroupCall<T> &);
  // Also for duals with tables, and for edges that do not move, whose fractions and harmonics have no tangents.
  // Computes only the tangents of what forward and backward write, in all directions.
  void (*rigid_forward)(const PathGroupCall<T> &);
  void (*rigid_backward)(const PathGroupCall<T> &);
};

// Weights [u, w] of a uvw path are stored in blocks of 16 channels u and 4 channels w. The first row of edge e for
// channels 16 k .. and 4 b .. is at table + (k * blocks + b) * channel_block + table_row[e] * stride, with stride =
// 4 * CHANNEL_PAD. It has the 16 channels u for each w; the next row is stride further. Atom a has edges
// edge_begin[a] - edge_begin[0] .. edge_begin[a + 1] - edge_begin[0] - 1; all arrays by edge use these numbers.
template <class T>
struct UvwCall {
  int num_atoms;
  const int64_t *edge_begin;    // [num_atoms + 1]
  int channels;                 // channels of the sender, with padding
  int outputs;                  // channels of the output, rounded up to blocks of 4
  const Real<T> *table;
  int64_t channel_block;
  const int *table_row;
  const T *fraction;

  // As in PathGroupCall. Component m of the output of atom a is at out + a * out_width + m * out_stride. Forward
  // adds to it, backward reads it as the cotangent. In a gather of senders out is the first row, and x_row the row
  // of out.
  Pointer<const T> x;
  int64_t x_width;
  int x_stride;
  const int *x_row;
  Pointer<T> out;
  int64_t out_width;
  int out_stride;
  Pointer<const T> coupled;    // [blocks of edges, atom by atom][num_coupled][EDGE_BLOCK] (forward, gather)

  // Backward.
  const T *y;    // [edge][num_y]
  int num_y;
  T *y_adj;            // [edge][num_y], results are added; number 0 is dE/df
  Pointer<T> x_adj;    // as in PathGroupCall; in a gather that of the first atom, with rows x_width apart
  const int *x_adj_row;
  Pointer<T> scratch;    // [edges][2 (2 l3 + 1) + 1][register]
};

template <class T>
struct UvwKernel {
  const char *key;    // PathGroupShape::key
  void (*couple_harmonics)(Pointer<const T> y, Pointer<T> coupled);
  // By kernel_place(); null for weights of edges, and for cubic tables of double.
  void (*forward[3])(const UvwCall<T> &);
  void (*backward[3])(const UvwCall<T> &);
  void (*gather[3])(const UvwCall<T> &);
};

template <class K>
struct KernelList {
  int count;
  const K *const *kernels;
};

// What a library of kernels exports as equi_kernels.
struct KernelLibrary {
  int abi;            // PATH_GROUP_KERNEL_ABI
  const char *isa;    // HostKernels::name
  KernelList<PathGroupKernel<float>> float_path_groups;
  KernelList<PathGroupKernel<double>> double_path_groups;
  KernelList<UvwKernel<float>> float_uvw;
  KernelList<UvwKernel<double>> double_uvw;
  KernelList<ContractionKernel<float>> float_contractions;
  KernelList<ContractionKernel<double>> double_contractions;
  KernelList<PathGroupKernel<Dual<float>>> dual_float_path_groups;
  KernelList<PathGroupKernel<Dual<double>>> dual_double_path_groups;
};

}    // namespace equi

#endif
