// SPDX-License-Identifier: MIT
// The call of a device kernel for a path group (kernel_schedule.h), for a batch of atoms with all their edges. A
// launch does several path groups, each with its own call.
//
// Several lanes own an atom and an *item*. An item consists of consecutive paths and up to 32 channels, one per
// lane. In light path groups the numbers of an edge that the lanes read together cost most; their items have 64
// channels, two per lane. In the forward pass over a uvw path, an item is some channels of the output. Each lane
// sums over some of the sender's channels, and the sums are added over the lanes at the end. Items are the slow
// index of a launch, so blocks that run at the same time read one slice of the radial table. The slice stays in the
// first-level cache; these kernels read the table more than anything else. If atoms are few, the lanes of a whole
// team share one: each group of lanes handles a part of its edges.
//
// Generated kernels and the generic one (device_path_group_impl.h) have the same call.
#ifndef EQUI_DEVICE_PATH_GROUP_H
#define EQUI_DEVICE_PATH_GROUP_H

#include "kokkos/kernel_interface/harmonics_row.h"
#include "kokkos/kernel_interface/path_group_kernel.h"
#include "kokkos/runtime/device_exec.h"

#include <cstdint>
#include <vector>

namespace equi {

constexpr int ITEM_CHANNELS = 32;
// A lane loads its coefficients with loads of 16 bytes; those of the lanes of a warp are adjacent. R: the type of
// coefficients.
template <class R>
struct DeviceTable {
  static constexpr int PIECE = 16 / sizeof(R);    // coefficients
};
// A path group with more paths is called in several parts. The call must fit into a GPU's constant memory.
constexpr int MAX_CALL_PATHS = 16;

// Four numbers in one load or store, which has 16 bytes unless T is larger.
template <class T>
struct alignas(16) Four {
  T v[4];
};

// What every lane reads of an edge.
template <class T>
struct alignas(16) DeviceEdgeRecord {
  T fraction;
  int table_row;    // defined at PathGroupCall
  int other_row;    // row of the atom at the other end
};

// Arrays are in device memory. p: the number of an edge within the batch, in the order of its atoms. T: float,
// double or a Dual of them. Features of duals have planes (feature_layout.h); duals of edges are adjacent.
template <class T>
struct DevicePathGroupCall {
  int num_atoms, channels;    // channels: with padding, unless weights are those of edges without padding
  const int64_t *begin;       // [num_atoms + 1] edges of an atom, as p + `first`
  int64_t first, num_edges;
  const DeviceEdgeRecord<T> *edges;    // [p]

  // Radial weights. Their layout is that of PathGroupCall or UvwCall with two differences. They are in blocks of
  // ITEM_CHANNELS channels, and the coefficients of a weight are adjacent in pieces (DeviceTable).
  const Real<T> *table;
  int64_t channel_block;

  const T *y;    // [p] rows of harmonics (harmonics_row.h); only for backward if the kernel reads coupled ones
  int y_row;
  const T *coupled;     // [p][coupled_width] the path group's distinct entries of M, for all passes except backward
  int coupled_width;    // a multiple of 4

  // Component m, channel c of the input block in row r: x + r * x_width + m * x_stride + c. x_adj points to its
  // first row. For duals, tangents are x_tangents after the values.
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
  int outputs;    // uvw path: channels of its output, rounded up to the blocks of its table
  bool add;       // uvw path: whether forward adds to the output

  // Channel c of component 0 in row r of the above; component m is m strides further.
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

  // Fused: the batch's first row; edges from the rows of receivers have reverse edges.
  int first_row, num_receivers;

  // Backward. Each item leaves a few numbers per edge for the derivatives with respect to edges. These are summed
  // afterwards in the order of items, so results are reproducible bit by bit. The order is run by run, channel block
  // by channel block, [p][sums of the run].
  T *parts;

  // Weights of edges (ROWS = 1) instead of a table, for uvu paths. The weight of path q and channel c (of
  // `channels`) is scale[q] times number table_row * weights_row + column[q] + c. The fraction is then the harmonic
  // of order 0, which multiplies paths of l2 = 0. Backward writes or adds the derivatives with respect to the
  // weights in the same order. So does a gather with the generic kernel, which then reads x, at its first row, too.
  Pointer<const T> weights;
  int weights_row;
  int column[MAX_CALL_PATHS];
  Real<T> scale[MAX_CALL_PATHS];
  Pointer<T> weights_adj;    // null: not requested
  bool add_weights_adj;
};

// Fused: backward, and the gather of the receivers' own rows over the reverse edges, which have the same weights.
enum PathGroupPass { PATH_GROUP_FORWARD, PATH_GROUP_BACKWARD, PATH_GROUP_GATHER, PATH_GROUP_FUSED };

// What a kernel reports of a path group: the runs of its backward pass, their numbers per edge, and the variable of
// each derivative, run by run. The variable is a harmonic, or 0 for the fraction of the bin.
struct DevicePathGroupRuns {
  const char *key;    // PathGroupShape::key
  int num_runs;
  const int *num_sums, *sums;
  int lane_channels;    // channels per lane, if the path group has that many
};

// For a path group with this many channels, if a lane handles up to `lane_channels`: the number that it handles, and
// the items of a run.
KOKKOS_INLINE_FUNCTION constexpr int channels_of_lane(int lane_channels, int channels) {
  return channels > ITEM_CHANNELS ? lane_channels : 1;
}
KOKKOS_INLINE_FUNCTION constexpr int num_channel_items(int lane_channels, int channels) {
  const int item = ITEM_CHANNELS * channels_of_lane(lane_channels, channels);
  return (channels + item - 1) / item;
}

// Largest number of path groups in a launch: their calls are its arguments.
constexpr int MAX_LAUNCH_PATH_GROUPS = 4;

// Rows per bin in the tables of high degree.
template <class T>
constexpr int DEVICE_FINE_ROWS = sizeof(Real<T>) == sizeof(float) ? QUINTIC_ROWS : SEPTIC_ROWS;

// A kernel does the path groups of a convolution together, in one launch. calls: one for each of its path groups; a
// call without atoms is skipped.
template <class T>
struct DevicePathGroupKernel {
  int num_path_groups;
  const DevicePathGroupRuns *path_groups;
  bool reads_coupled;    // for some of its path groups; else it computes the entries of M from the harmonics
  // By pass, and by table: exact (2 rows), cubic, DEVICE_FINE_ROWS. Null for cubic tables except for float, and for
  // exact ones with duals. Fused is null for duals, and if a path is uvw.
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

// The generated kernels of the build. Several may contain the same path group.
template <class T>
std::vector<const DevicePathGroupKernel<T> *> device_kernels();
template <class T>
std::vector<const DeviceEdgeKernel<T> *> device_edge_kernels();

}    // namespace equi

#endif
