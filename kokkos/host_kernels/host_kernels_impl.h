// SPDX-License-Identifier: MIT
// The host kernels for one instruction set. The including file defines EQUI_ISA (a namespace name), EQUI_ISA_NAME
// and EQUI_SIMD_BYTES (the width of a register).
#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/kernel_interface/host_simd.h"

#include "kokkos/host_kernels/host_contraction_impl.h"
#include "kokkos/host_kernels/host_edges_impl.h"
#include "kokkos/host_kernels/host_gate_impl.h"
#include "kokkos/host_kernels/host_generic_path_group_impl.h"
#include "kokkos/host_kernels/host_local_impl.h"
#include "kokkos/host_kernels/host_product_impl.h"
#include "kokkos/host_kernels/host_so2_impl.h"
#include "kokkos/host_kernels/host_so2_product_impl.h"

#include <type_traits>

namespace equi {
namespace EQUI_ISA {

constexpr std::size_t align_up(std::size_t n) {
  return (n + 63) / 64 * 64;
}

// Calls the generated kernel of a path group if it exists for this kind of table, else the generic one.
// of_directions: null, or the generated kernel for several directions.
template <class T, class Generated, class Generic>
static void call_path_group(Generated generated, void (*PathGroupKernel<T>::*of_directions)(const PathGroupCall<T> &),
                            Generic generic, const GenericPathGroup<T> &walker, const PathGroupCall<T> &u) {
  const PathGroupKernel<T> *kernel = walker.path_group.kernel;
  const int place = kernel_place<T>(walker.rows);
  auto function = kernel && place >= 0 ? (kernel->*generated)[place] : nullptr;
  if (of_directions) function = kernel->*of_directions;
  if (function)
    function(u);
  else
    (walker.*generic)(u);
}

template <class T, class Generated, class Generic>
static void call_uvw(Generated generated, Generic generic, const GenericUvw<T> &walker, const UvwCall<T> &u) {
  const UvwKernel<T> *kernel = walker.path_group.uvw_kernel;
  const int place = kernel_place<T>(walker.rows);
  const auto function = kernel && place >= 0 ? (kernel->*generated)[place] : nullptr;
  if (function)
    function(u);
  else
    (walker.*generic)(u);
}

// ---- runs of atoms
// Views into the caller's scratch.
template <class T>
struct Scratch {
  Pointer<T> y;              // [blocks of all atoms][num_y][EDGE_BLOCK]
  Pointer<T> coupled;        // [blocks of an atom][max_coupled][EDGE_BLOCK]
  Pointer<T> d;              // [max_d], for rigid edges with a plane for each direction
  Real<T> *edge_weights;     // [2 * max_weights] for rigid edges
  Pointer<T> *out;           // [max_paths]
  int *out_stride;           // [max_paths]
  int *column;               // [max_paths]
  int64_t *out_width;        // [max_paths]
  Pointer<T> uvw_coupled;    // [blocks of all atoms][max_uvw_coupled][EDGE_BLOCK]
  Pointer<T> uvw;            // UvwCall::scratch
};

static int64_t edge_blocks(int64_t edges) {
  return (edges + EDGE_BLOCK - 1) / EDGE_BLOCK;
}

template <class T>
static std::size_t scratch_layout(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, char *base,
                                  Scratch<T> *s) {
  int64_t longest = 0, blocks = 0;
  for (int a = 0; a < edges.num_atoms; a++) {
    const int64_t n = edges.end(a) - edges.edge_begin[a];
    if (n > longest) longest = n;
    blocks += edge_blocks(n);
  }
  std::size_t used = 0;
  const auto take = [&](auto *&p, std::size_t count) {
    using Number = std::remove_reference_t<decltype(*p)>;
    p = reinterpret_cast<Number *>(base + used);
    used += align_up(count * sizeof(Number));
  };
  const auto take_planes = [&](Pointer<T> &p, std::size_t count, int planes = PLANES<T>) {
    Real<T> *first;
    take(first, planes * count);
    p = make_pointer<T>(first, count);
  };
  Scratch<T> unused;
  Scratch<T> &to = s ? *s : unused;
  const int planes = edges.moving_directions > 0 ? 1 + edges.moving_directions : PLANES<T>;
  take_planes(to.y, blocks * tables.num_y * EDGE_BLOCK, planes);
  take_planes(to.coupled, edge_blocks(longest) * tables.max_coupled * EDGE_BLOCK, planes);
  take_planes(to.d, tables.max_d, edges.rigid_directions > 0 ? 1 + edges.rigid_directions : PLANES<T>);
  take(to.edge_weights, edges.rigid_directions > 0 ? 2 * tables.max_weights : 0);
  take(to.out, tables.max_paths);
  take(to.out_stride, tables.max_paths);
  take(to.column, tables.max_paths);
  take(to.out_width, tables.max_paths);
  take_planes(to.uvw_coupled, blocks * tables.max_uvw_coupled * EDGE_BLOCK);
  const int64_t count = edges.edge_begin[edges.num_atoms] - edges.edge_begin[0];
  take_planes(to.uvw, tables.max_uvw_l3 < 0 ? 0 : count * (4 * tables.max_uvw_l3 + 3) * LANES<T>);
  return used;
}

template <class T>
static std::size_t scratch_bytes(const ConvolutionView<T> &tables, const ConvEdges<T> &edges) {
  return scratch_layout<T>(tables, edges, nullptr, nullptr);
}

// The same numbers with the tangents of direction k, of several directions whose planes have equal distances.
template <class T>
static T *along(T *p, int) {
  return p;
}
template <class T>
static DualPointer<T> along(DualPointer<T> p, int k) {
  return {p.value, (1 + k) * p.distance};
}

// to[EDGE_BLOCK a + b] = from[row b + a] for a, b < 4.
template <class R>
EQUI_INLINE void transpose_four(const R *from, int64_t row, R *to) {
  typename PartOf<R, 4>::type in[4], out[4];
  EQUI_UNROLL_SIMD
  for (int e = 0; e < 4; e++) __builtin_memcpy(&in[e], from + e * row, sizeof in[e]);
  const auto ab = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5),
             cd = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5),
             more_ab = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7),
             more_cd = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  out[0] = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  out[1] = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  out[2] = __builtin_shufflevector(more_ab, more_cd, 0, 1, 4, 5);
  out[3] = __builtin_shufflevector(more_ab, more_cd, 2, 3, 6, 7);
  EQUI_UNROLL_SIMD
  for (int k = 0; k < 4; k++) __builtin_memcpy(to + k * EDGE_BLOCK, &out[k], sizeof out[k]);
}

// Harmonics of all edges along one direction in blocks of 16, component by component; missing edges are 0.
template <class T>
static void transpose_harmonics(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const T *y,
                                Pointer<T> to) {
  const int num_y = tables.num_y;
  for (int a = 0; a < edges.num_atoms; a++)
    for (int64_t e0 = edges.edge_begin[a]; e0 < edges.end(a); e0 += EDGE_BLOCK) {
      const int64_t left = edges.end(a) - e0;
      const int n = static_cast<int>(left < EDGE_BLOCK ? left : EDGE_BLOCK);
      const T *from = y + e0 * num_y;
      if (n < EDGE_BLOCK)
        for (int k = 0; k < num_y * EDGE_BLOCK; k++) put(to, k, T(0));
      int fours = 0;    // edges that are done, four at a time
      if constexpr (!IS_DUAL<T>)
        for (; fours + 4 <= n; fours += 4)
          for (int k = 0; k + 4 <= num_y; k += 4)
            transpose_four(from + fours * num_y + k, num_y, to + (k * EDGE_BLOCK + fours));
      for (int e = 0; e < n; e++)
        for (int k = e < fours ? num_y / 4 * 4 : 0; k < num_y; k++) put(to, k * EDGE_BLOCK + e, from[e * num_y + k]);
      to += num_y * EDGE_BLOCK;
    }
}
template <class T>
static void transpose_harmonics(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, Pointer<T> to) {
  transpose_harmonics(tables, edges, edges.y, to);
  for (int k = 1; k < edges.moving_directions; k++)
    transpose_harmonics(tables, edges, edges.y + k * edges.y_distance, along(to, k));
}

// A call for the path group with the values that are the same for every atom.
template <class T>
static PathGroupCall<T> path_group_call(const ConvolutionView<T> &tables, const ConvPathGroup<T> &path_group,
                                        const ConvEdges<T> &edges, const Scratch<T> &s) {
  PathGroupCall<T> u = {};
  u.channels = path_group.channels;
  u.table = edges.table + edges.table_rows * path_group.first_column;
  u.channel_block = edges.table_rows * path_group.num_paths * CHANNEL_PAD;
  u.weights = edges.weights;
  u.weights_row = tables.weights_row;
  u.weights_adj = edges.weights_adj;
  u.column = s.column;
  u.x_width = path_group.in_width;
  u.x_stride = path_group.in_width / (2 * path_group.l1 + 1);
  u.out = s.out;
  u.out_stride = s.out_stride;
  u.out_width = s.out_width;
  for (int q = 0; q < path_group.num_paths; q++) {
    const ConvPath<T> &path = tables.paths[path_group.first_path + q];
    s.out_stride[q] = path.out_width / (2 * path.l3 + 1);
    s.out_width[q] = path.out_width;
    s.column[q] = path.column;
  }
  u.num_y = tables.num_y;
  u.coupled = s.coupled;
  u.d = s.d;
  u.directions = edges.moving_directions + edges.rigid_directions;    // one of them is 0
  u.fraction_distance = edges.fraction_distance;
  u.sender_factor = edges.sender_factor;
  u.y_adj_distance = edges.y_adj_distance;
  u.edge_weights = s.edge_weights;
  return u;
}

// A path group's channels in a row of the input feature, with the tangents of the edges' direction.
template <class T>
static Pointer<T> input_row(const ConvPathGroup<T> &path_group, const ConvEdges<T> &edges, Real<T> *feature,
                            int64_t rows, int64_t row = 0) {
  return make_pointer<T>(feature + rows * path_group.in_group + row * path_group.in_width + path_group.in_channel,
                         (1 + edges.direction) * path_group.in_channels);
}

// Likewise a path's channels in a row of the output feature.
template <class T>
static Pointer<T> output_row(const ConvPath<T> &path, const ConvEdges<T> &edges, Real<T> *feature, int64_t rows,
                             int64_t row) {
  return make_pointer<T>(feature + rows * path.out_group + row * path.out_width + path.out_channel,
                         (1 + edges.direction) * path.out_channels);
}

template <class T>
static GenericPathGroup<T> generic_path_group(const ConvolutionView<T> &tables, const ConvPathGroup<T> &path_group,
                                              const ConvEdges<T> &edges) {
  return {path_group, tables.paths + path_group.first_path, edges.rows_per_bin};
}

// The edges of atom a.
template <class T>
static void set_atom(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, int a, PathGroupCall<T> &u) {
  const int64_t begin = edges.edge_begin[a], local = begin - edges.edge_begin[0];
  u.count = static_cast<int>(edges.end(a) - begin);
  u.table_row = edges.table_row + local;
  u.fraction = edges.fraction + local;
  if (edges.sender_factor) u.sender_factor = edges.sender_factor + local;
  u.x_row = edges.other_row + begin;
  u.y = edges.y + begin * tables.num_y;
}

// The outputs of a path group's paths at a row.
template <class T>
static void set_outputs(const ConvolutionView<T> &tables, const ConvPathGroup<T> &path_group, const ConvEdges<T> &edges,
                        Real<T> *out, int64_t rows, int64_t row, const Scratch<T> &s) {
  for (int q = 0; q < path_group.num_paths; q++)
    s.out[q] = output_row(tables.paths[path_group.first_path + q], edges, out, rows, row);
}

// Coupled harmonics of the edges of one atom, for duals along one direction. Returns where the next atom's harmonics
// begin.
template <class T>
static Pointer<const T> couple_harmonics(const ConvolutionView<T> &tables, const ConvPathGroup<T> &path_group,
                                         Pointer<const T> y, int count, Pointer<T> coupled) {
  for (int64_t block = 0; block < edge_blocks(count); block++, y += tables.num_y * EDGE_BLOCK) {
    const Pointer<T> to = coupled + block * path_group.num_coupled * EDGE_BLOCK;
    if (path_group.kernel)
      path_group.kernel->couple_harmonics(y, to);
    else if (path_group.uvw_kernel)
      path_group.uvw_kernel->couple_harmonics(y, to);
    else
      couple_harmonics_generic(path_group, y, to);
  }
  return y;
}

// Calls the kernel of a uvw path once for all atoms. x: the input feature of the other atoms if this is not a
// gather.
template <class T>
static UvwCall<T> uvw_call(const ConvolutionView<T> &tables, const ConvPathGroup<T> &path_group,
                           const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows, Real<T> *out, int64_t out_rows,
                           int64_t out_begin, const Scratch<T> &s) {
  const ConvPath<T> &path = tables.paths[path_group.first_path];
  const int64_t first = edges.edge_begin[0];
  UvwCall<T> u = {};
  u.num_atoms = edges.num_atoms;
  u.edge_begin = edges.edge_begin;
  u.channels = path_group.channels;
  u.outputs = path_group.outputs;
  u.table = edges.table + edges.table_rows * path_group.first_column;
  u.channel_block = edges.table_rows * path_group.row;
  u.table_row = edges.table_row;
  u.fraction = edges.fraction;
  if (x) u.x = input_row(path_group, edges, const_cast<Real<T> *>(x), x_rows);    // this call only reads them
  u.x_width = path_group.in_width;
  u.x_stride = path_group.in_width / (2 * path_group.l1 + 1);
  u.x_row = edges.other_row + first;
  u.out = output_row(path, edges, out, out_rows, out_begin);
  u.out_width = path.out_width;
  u.out_stride = path.out_width / (2 * path.l3 + 1);
  u.y = edges.y + first * tables.num_y;
  u.num_y = tables.num_y;
  u.scratch = s.uvw;
  Pointer<const T> y = s.y;
  Pointer<T> coupled = s.uvw_coupled;
  for (int a = 0; a < edges.num_atoms; a++) {
    const int count = static_cast<int>(edges.edge_begin[a + 1] - edges.edge_begin[a]);
    y = couple_harmonics(tables, path_group, y, count, coupled);
    coupled += edge_blocks(count) * path_group.num_coupled * EDGE_BLOCK;
  }
  u.coupled = s.uvw_coupled;
  return u;
}

template <class T>
static void set_outputs_to_zero(const UvwCall<T> &u, int l3) {
  const int channels = (u.outputs + CHANNEL_PAD - 1) / CHANNEL_PAD * CHANNEL_PAD;
  for (int a = 0; a < u.num_atoms; a++)
    for (int m = 0; m < 2 * l3 + 1; m++)
      for (int w = 0; w < channels; w++) put(u.out, a * u.out_width + m * u.out_stride + w, T(0));
}

template <class T>
static void forward(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows,
                    Real<T> *out, int64_t out_rows, int64_t out_begin, void *scratch) {
  Scratch<T> s;
  scratch_layout<T>(tables, edges, static_cast<char *>(scratch), &s);
  transpose_harmonics(tables, edges, s.y);
  const auto kernel_of_directions = edges.moving_directions > 0  ? &PathGroupKernel<T>::moving_forward
                                    : edges.rigid_directions > 0 ? &PathGroupKernel<T>::rigid_forward
                                                                 : nullptr;
  // One path group after another, so that its channel blocks stay in the cache.
  for (int k = 0; k < tables.num_path_groups; k++) {
    const ConvPathGroup<T> &path_group = tables.path_groups[k];
    if (path_group.is_uvw()) {
      const ConvPath<T> &path = tables.paths[path_group.first_path];
      const UvwCall<T> u = uvw_call(tables, path_group, edges, x, x_rows, out, out_rows, out_begin, s);
      if (path.begins_output) set_outputs_to_zero(u, path.l3);
      call_uvw<T>(&UvwKernel<T>::forward, &GenericUvw<T>::forward, {path_group, path, edges.rows_per_bin}, u);
      continue;
    }
    const GenericPathGroup<T> generic = generic_path_group(tables, path_group, edges);
    PathGroupCall<T> u = path_group_call(tables, path_group, edges, s);
    u.x = input_row(path_group, edges, const_cast<Real<T> *>(x), x_rows);    // this call only reads them
    Pointer<const T> y = s.y;
    for (int a = 0; a < edges.num_atoms; a++) {
      set_atom(tables, edges, a, u);
      set_outputs(tables, path_group, edges, out, out_rows, out_begin + a, s);
      for (int d = 1; d < edges.moving_directions; d++)
        couple_harmonics(tables, path_group, along(y, d), u.count, along(s.coupled, d));
      y = couple_harmonics(tables, path_group, y, u.count, s.coupled);
      call_path_group<T>(&PathGroupKernel<T>::forward, kernel_of_directions, &GenericPathGroup<T>::forward, generic, u);
    }
  }
}

template <class T>
static void backward(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows,
                     const Real<T> *out_adj, int64_t out_rows, int64_t out_begin, T *y_adj, Real<T> *x_adj,
                     int64_t x_adj_rows, const int *x_adj_row, void *scratch) {
  Scratch<T> s;
  scratch_layout<T>(tables, edges, static_cast<char *>(scratch), &s);
  const int64_t first = edges.edge_begin[0], count = edges.edge_begin[edges.num_atoms] - first;
  const int directions = edges.rigid_directions > 0 ? edges.rigid_directions : 1;
  if (tables.max_uvw_l3 >= 0) transpose_harmonics(tables, edges, s.y);    // its z needs the coupled harmonics
  for (int d = 0; d < directions; d++)
    for (int64_t k = 0; k < count * tables.num_y; k++) y_adj[d * edges.y_adj_distance + k] = T(0);
  // One path group after another: its channels of all senders, their adjoints and its channel blocks of the table
  // stay in the cache.
  for (int k = 0; k < tables.num_path_groups; k++) {
    const ConvPathGroup<T> &path_group = tables.path_groups[k];
    if (path_group.is_uvw()) {
      // This call only reads out_adj.
      UvwCall<T> u =
          uvw_call(tables, path_group, edges, x, x_rows, const_cast<Real<T> *>(out_adj), out_rows, out_begin, s);
      u.y_adj = y_adj;
      if (x_adj) u.x_adj = input_row(path_group, edges, x_adj, x_adj_rows);
      u.x_adj_row = x_adj_row + first;
      call_uvw<T>(&UvwKernel<T>::backward, &GenericUvw<T>::backward,
                  {path_group, tables.paths[path_group.first_path], edges.rows_per_bin}, u);
      continue;
    }
    const GenericPathGroup<T> generic = generic_path_group(tables, path_group, edges);
    PathGroupCall<T> u = path_group_call(tables, path_group, edges, s);
    u.x = input_row(path_group, edges, const_cast<Real<T> *>(x), x_rows);    // this call only reads them
    if (x_adj) u.x_adj = input_row(path_group, edges, x_adj, x_adj_rows);
    for (int a = 0; a < edges.num_atoms; a++) {
      const int64_t begin = edges.edge_begin[a];
      set_atom(tables, edges, a, u);
      u.y_adj = y_adj + (begin - first) * tables.num_y;
      u.x_adj_row = x_adj_row + begin;
      // This call only reads them.
      set_outputs(tables, path_group, edges, const_cast<Real<T> *>(out_adj), out_rows, out_begin + a, s);
      call_path_group<T>(&PathGroupKernel<T>::backward,
                         edges.rigid_directions > 0 ? &PathGroupKernel<T>::rigid_backward : nullptr,
                         &GenericPathGroup<T>::backward, generic, u);
    }
  }
  // Converts derivatives with respect to the fraction of the bin to derivatives with respect to the distance.
  for (int d = 0; d < directions; d++)
    for (int64_t e = 0; e < count; e++) y_adj[d * edges.y_adj_distance + e * tables.num_y] *= edges.bins_per_length[e];
}

template <class T>
static void backward_gather(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x,
                            int64_t x_rows, int64_t x_begin, const Real<T> *out_adj, int64_t out_rows, Real<T> *x_adj,
                            int64_t x_adj_rows, int64_t x_adj_begin, void *scratch) {
  Scratch<T> s;
  scratch_layout<T>(tables, edges, static_cast<char *>(scratch), &s);
  transpose_harmonics(tables, edges, s.y);
  for (int k = 0; k < tables.num_path_groups; k++) {
    const ConvPathGroup<T> &path_group = tables.path_groups[k];
    if (path_group.is_uvw()) {
      UvwCall<T> u = uvw_call<T>(tables, path_group, edges, nullptr, 0, const_cast<Real<T> *>(out_adj), out_rows, 0, s);
      u.x_adj = input_row(path_group, edges, x_adj, x_adj_rows, x_adj_begin);
      call_uvw<T>(&UvwKernel<T>::gather, &GenericUvw<T>::gather,
                  {path_group, tables.paths[path_group.first_path], edges.rows_per_bin}, u);
      continue;
    }
    const GenericPathGroup<T> generic = generic_path_group(tables, path_group, edges);
    PathGroupCall<T> u = path_group_call(tables, path_group, edges, s);
    set_outputs(tables, path_group, edges, const_cast<Real<T> *>(out_adj), out_rows, 0, s);
    Pointer<const T> y = s.y;
    for (int a = 0; a < edges.num_atoms; a++) {
      set_atom(tables, edges, a, u);
      if (edges.weights_adj)
        // this call only reads them
        u.x = input_row(path_group, edges, const_cast<Real<T> *>(x), x_rows, x_begin + a);
      u.x_adj = input_row(path_group, edges, x_adj, x_adj_rows, x_adj_begin + a);
      y = couple_harmonics(tables, path_group, y, u.count, s.coupled);
      call_path_group<T>(&PathGroupKernel<T>::gather, nullptr, &GenericPathGroup<T>::gather, generic, u);
    }
  }
}

template <class T>
constexpr HostKernels<T> KERNELS = {EQUI_ISA_NAME,
                                    find_bins<Real<T>>,
                                    scratch_bytes<T>,
                                    forward<T>,
                                    backward<T>,
                                    backward_gather<T>,
                                    gate_forward<T>,
                                    gate_backward<T>,
                                    PANEL<Real<T>>,
                                    product<Real<T>>,
                                    nullptr,
                                    so2_rotate<T>,
                                    so2_rotate_back<T>,
                                    so2_factors<T>,
                                    so2_factors_backward<T>,
                                    so2_product<Real<T>>,
                                    so2_cutoff_backward<T>,
                                    so2_torque<T>,
                                    so2_gate<T>,
                                    so2_gate_backward<T>,
                                    so2_points<T>,
                                    so2_points_backward<T>,
                                    LOCAL_KERNELS<T>,
                                    contraction_scratch_bytes<T>,
                                    contraction_forward<T>,
                                    contraction_backward<T>};
// Declared in host_kernels.cpp.
extern const AllHostKernels ALL_KERNELS;
constexpr AllHostKernels ALL_KERNELS = {KERNELS<float>,
                                        KERNELS<double>,
                                        KERNELS<Dual<float>>,
                                        KERNELS<Dual<double>>,
                                        {EDGE_LANES, edge_harmonics, edge_gradient, add_float32}};

}    // namespace EQUI_ISA
}    // namespace equi
