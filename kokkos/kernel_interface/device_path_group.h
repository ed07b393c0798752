// SPDX-License-Identifier: MIT
// The call of a device's kernel for a path group (kernel_schedule.h): a batch of atoms with all their edges. A launch
// takes several path groups, each with its call.
//
// Several lanes own an atom and an *item*: a run of paths and up to 32 channels, one per lane, or 64, two per lane, of
// path groups so light that what the lanes read together of an edge costs the most. Forward over a uvw path an item is
// some channels of the output; the sums over the sender's channels, one per lane, are added up over the lanes at the
// end. Items are the slow index of a launch, so that the blocks that run side by side read one slice of the radial
// table, which then stays in the first-level cache: these kernels read the table most. Where there are few atoms, the
// lanes of a whole team share one: each group of them takes a part of its edges.
//
// Generated kernels and the generic one (device_path_group_impl.h) take the same call.
#ifndef EQUI_DEVICE_PATH_GROUP_H
#define EQUI_DEVICE_PATH_GROUP_H

#include "kokkos/kernel_interface/harmonics_row.h"
#include "kokkos/kernel_interface/path_group_kernel.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>
#include <vector>

namespace equi {

constexpr int ITEM_CHANNELS = 32;
// A lane's coefficients come in loads of 16 bytes, and those of the lanes of a warp lie one after the other. R: the
// type of coefficients.
template <class R>
struct DeviceTable {
  static constexpr int PIECE = 16 / sizeof(R);    // coefficients
};
// A path group with more paths is called in several parts. The call has to fit into a GPU's memory for constants.
constexpr int MAX_CALL_PATHS = 16;

// Four numbers in one load or store, of 16 bytes unless T is larger.
template <class T>
struct alignas(16) Four {
  T v[4];
};

// What every lane reads of an edge.
template <class T>
struct alignas(16) DeviceEdgeRecord {
  T fraction;
  int table_row;    // as PathGroupCall has it
  int other_row;    // row of the atom at the other end
};

// Arrays in device memory. p: the number of an edge within the batch, in the order of its atoms. T: float, double or a
// Dual of them; features of duals lie in planes (feature_layout.h), duals of edges one after the other.
template <class T>
struct DevicePathGroupCall {
  int num_atoms, channels;    // channels: padded, unless weights are those of edges without padding
  const int64_t *begin;       // [num_atoms + 1] edges of an atom, `first` more than p
  int64_t first, num_edges;
  const DeviceEdgeRecord<T> *edges;    // [p]

  // Radial weights, as PathGroupCall has them, or UvwCall, but in blocks of ITEM_CHANNELS channels, and the
  // coefficients of a weight in pieces side by side (DeviceTable).
  const Real<T> *table;
  int64_t channel_block;

  const T *y;    // [p] rows of harmonics (harmonics_row.h); of kernels that read coupled ones for backward alone
  int y_row;
  const T *coupled;     // [p][coupled_width] the path group's distinct entries of M, for passes other than backward
  int coupled_width;    // a multiple of 4

  // Component m, channel c of the input block in row r: x + r * x_width + m * x_stride + c. x_adj is at its first row.
  // Of duals, tangents are x_tangents behind the values.
  const Real<T> *x;
  Real<T> *x_adj;
  int x_width, x_stride, x_tangents;
  bool shares_rows;    // whether x has so few rows, those of species, that they stay in the first-level cache

  // Component m, channel c of path q's output in row r: out + path[q].begin + r * width + m * stride + c.
  Real<T> *out;
  const Real<T> *out_adj;
  struct Path {
    int64_t begin;
    int width, stride, tangents;
  } path[MAX_CALL_PATHS];
  int outputs;    // of a uvw path: channels of its output, rounded up to the blocks of its table
  bool add;       // of a uvw path: forward adds to the output

  // Channel c of component 0 in row r of the above; component m is m times the stride further.
  KOKKOS_FORCEINLINE_FUNCTION Pointer<const T> input(int r, int c) const { return in_row<const T>(x, r, c); }
  KOKKOS_FORCEINLINE_FUNCTION Pointer<T> input_adjoint(int r, int c) const { return in_row<T>(x_adj, r, c); }
  KOKKOS_FORCEINLINE_FUNCTION Pointer<T> output(int q, int r, int c) const { return in_row_of_path<T>(out, q, r, c); }
  KOKKOS_FORCEINLINE_FUNCTION Pointer<const T> cotangent(int q, int r, int c) const {
    return in_row_of_path<const T>(out_adj, q, r, c);
  }
  template <class N, class R>
  KOKKOS_FORCEINLINE_FUNCTION Pointer<N> in_row(R *rows, int r, int c) const {
    return make_pointer<N>(rows + static_cast<int64_t>(r) * x_width + c, x_tangents);
  }
  template <class N, class R>
  KOKKOS_FORCEINLINE_FUNCTION Pointer<N> in_row_of_path(R *rows, int q, int r, int c) const {
    return make_pointer<N>(rows + path[q].begin + static_cast<int64_t>(r) * path[q].width + c, path[q].tangents);
  }

  // Fused: the batch's first row; edges from the rows of receivers have a reverse edge.
  int first_row, num_receivers;

  // Backward. Derivatives by an edge leave every item as a few numbers per edge, which are added up afterwards in the
  // order of items, so that results repeat bit by bit: run by run, channel block by channel block, [p][sums of the
  // run].
  T *parts;

  // Weights of edges (ROWS = 1) instead of a table, for uvu paths: that of path q and channel c, of which there
  // are `channels`, is scale[q] times number table_row * weights_row + column[q] + c. The fraction is then the
  // harmonic of order 0, by which paths of l2 = 0 are multiplied. Backward writes the derivatives by the weights in the
  // same order, or adds them. So does a gather by the generic kernel, which then reads x, at its first row, too.
  Pointer<const T> weights;
  int weights_row;
  int column[MAX_CALL_PATHS];
  Real<T> scale[MAX_CALL_PATHS];
  Pointer<T> weights_adj;    // null: not wanted
  bool add_weights_adj;
};

// Fused: backward, and the gather of the receivers' own rows over the reverse edges, which have the same weights.
enum PathGroupPass { PATH_GROUP_FORWARD, PATH_GROUP_BACKWARD, PATH_GROUP_GATHER, PATH_GROUP_FUSED };

// What a kernel tells of a path group: the runs of its backward pass, numbers per edge, and what each is the derivative
// by, run by run: a harmonic, or 0 for the fraction of the bin.
struct DevicePathGroupRuns {
  const char *key;    // PathGroupShape::key
  int num_runs;
  const int *num_sums, *sums;
  int lane_channels;    // that a lane takes, where there are as many
};

// Of a path group with so many channels, where a lane takes up to `lane_channels`: those that it takes, and the items
// of a run.
KOKKOS_INLINE_FUNCTION constexpr int channels_of_lane(int lane_channels, int channels) {
  return channels > ITEM_CHANNELS ? lane_channels : 1;
}
KOKKOS_INLINE_FUNCTION constexpr int num_channel_items(int lane_channels, int channels) {
  const int item = ITEM_CHANNELS * channels_of_lane(lane_channels, channels);
  return (channels + item - 1) / item;
}

// A launch takes so many path groups at most: their calls are its arguments.
constexpr int MAX_LAUNCH_PATH_GROUPS = 4;

// Rows of a bin in the tables of high degree.
template <class T>
constexpr int DEVICE_FINE_ROWS = sizeof(Real<T>) == sizeof(float) ? QUINTIC_ROWS : SEPTIC_ROWS;

// A kernel takes the path groups of a convolution together, in one launch. calls: one for each of its path groups;
// those of no atoms take no part.
template <class T>
struct DevicePathGroupKernel {
  int num_path_groups;
  const DevicePathGroupRuns *path_groups;
  bool reads_coupled;    // for some of its path groups; else it makes the entries of M from the harmonics
  // By pass, and table: exact (2 rows), cubic, DEVICE_FINE_ROWS. Null for cubic tables but of float, and for exact ones
  // of duals. Fused null for duals and where a path is uvw.
  void (*launch[4][3])(const DeviceExec &, const DevicePathGroupCall<T> *calls);

  static constexpr bool OF_EDGES = false;
  static constexpr int place(int rows) {
    return rows == 2 ? 0 : rows == CUBIC_ROWS ? 1 : (rows == DEVICE_FINE_ROWS<T>) ? 2 : -1;
  }
  auto launcher(PathGroupPass pass, int rows) const { return place(rows) < 0 ? nullptr : launch[pass][place(rows)]; }
};

// The same for weights of edges, in a library of its own.
template <class T>
struct DeviceEdgeKernel {
  int num_path_groups;
  const DevicePathGroupRuns *path_groups;
  bool reads_coupled;
  void (*launch[3])(const DeviceExec &, const DevicePathGroupCall<T> *calls);

  static constexpr bool OF_EDGES = true;
  auto launcher(PathGroupPass pass, int) const { return launch[pass]; }
};

// The generated kernels of the build. A path group may be in several.
template <class T>
std::vector<const DevicePathGroupKernel<T> *> device_kernels();
template <class T>
std::vector<const DeviceEdgeKernel<T> *> device_edge_kernels();

}    // namespace equi

#endif
