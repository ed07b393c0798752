// SPDX-License-Identifier: MIT
// The convolution on a CPU: plain functions on plain data, compiled once per instruction set. One set is chosen when
// a model is loaded.
//
// A path group of a convolution (kernel_schedule.h) may have a generated kernel. Otherwise the generic kernel walks
// its tables. It computes the same products, for any order, several times slower.
//
// host_kernels_impl.h is compiled for each instruction set with its compiler flags
// (host_kernels_{generic,neon,avx2,avx512}.cpp). Code of one instruction set must not be linked into another's
// callers. Those files therefore include only this header and those of the kernels, in a namespace of their own, and
// neither Kokkos nor standard containers.
#ifndef EQUI_HOST_KERNELS_H
#define EQUI_HOST_KERNELS_H

#include "kokkos/host_kernels/edge_kernels.h"
#include "kokkos/host_kernels/product_kernels.h"
#include "kokkos/host_kernels/so2_kernels.h"
#include "kokkos/host_kernels/split_matrix.h"
#include "kokkos/kernel_interface/local_rows.h"
#include "kokkos/kernel_interface/path_group_kernel.h"
#include "src/algebra/sphere_grid_tables.h"
#include "src/functions/activation.h"
#include "src/generator/contraction_node.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace equi {

// One term of a list that the generic kernel walks: to += factor * from.
template <class T>
struct KernelTerm {
  int to, from;
  T factor;
};
// One nonzero entry of a matrix: M[a,b] or D[a,b] = sign * value[index].
template <class T>
struct KernelEntry {
  int a, b, index;
  T sign;
};

template <class T>
struct ConvPath {
  int l2, l3;
  int64_t out_group;                        // numbers per row before the output group
  int out_width;                            // numbers per row of the output group
  int out_channels;                         // channels of the output group
  int out_channel;                          // first channel in the output group
  const KernelEntry<Real<T>> *m;            // M[m1,m3], coupled harmonics of the path group; index -1: the entry is 1
  const KernelTerm<Real<T>> *d_terms;       // d (number in the path) += factor * g[m3]
  const KernelEntry<Real<T>> *d_entries;    // D[m1,m2]
  int num_m, num_d_terms, num_d_entries;
  int num_d;
  bool begins_output;    // uvw: no earlier path writes to its output block
  int column;            // uvu: its weights of edges begin there (ConvolutionView::weights_row)
};

// An input block and the paths that start from it, path first_path .. first_path + num_paths - 1.
template <class T>
struct ConvPathGroup {
  int l1;
  int64_t in_group;
  int in_width, in_channels, in_channel;
  int channels;    // with padding
  int first_path, num_paths;
  int outputs;             // uvw path: channels of its output, rounded up to the blocks of its table; else 0
  int64_t first_column;    // weights before: its channel blocks of the table begin at rows * first_column
  int channel_blocks;      // number of channel blocks of the table
  int row;                 // numbers in a row of a channel block
  const KernelTerm<Real<T>> *coupled_terms;    // coupled[to] += factor * y[from]
  int num_coupled_terms, num_coupled;
  const PathGroupKernel<T> *kernel;    // null: the generic kernel
  const UvwKernel<T> *uvw_kernel;
  bool is_uvw() const { return outputs > 0; }
  bool is_generic() const { return !kernel && !uvw_kernel; }
};

// What the kernels read of a convolution: pointers to its tables (ConvolutionTables), which own the numbers. Paths are
// ordered by path group.
template <class T>
struct ConvolutionView {
  const ConvPathGroup<T> *path_groups;
  const ConvPath<T> *paths;
  int num_path_groups, num_paths;
  int num_y;                          // (lmax_edge + 1)^2
  int64_t weights_row;                // numbers in an edge's row of weights
  int max_coupled, max_paths;         // over path groups
  int64_t max_d;                      // num_d * channels, over path groups
  int64_t max_weights;                // num_paths * channels, over path groups
  int max_uvw_coupled, max_uvw_l3;    // over uvw paths; max_uvw_l3 is -1 without any
};

// Edges of a run of atoms [0, num_atoms): edge_begin[a]..edge_begin[a+1] index the arrays. In a gather over
// receivers the other atom is the sender, in a gather over senders it is the receiver.
template <class T>
struct ConvEdges {
  int num_atoms;
  const int64_t *edge_begin;
  const int *other_row;              // [edge] row of the other atom
  const T *y;                        // [edge][num_y] harmonics
  const Real<T> *table;              // radial rows, channel block by channel block (PathGroupCall)
  int64_t table_rows;                // rows of each channel block
  const int *table_row;              // [edge - edge_begin[0]] first row of the edge's bin
  const T *fraction;                 // [edge - edge_begin[0]] PathGroupCall
  const Real<T> *bins_per_length;    // [edge - edge_begin[0]] d fraction / d distance
  int rows_per_bin;                  // 1 (weights of edges), 2 or, for duals, 3 (exact), 4, 6, 8 (tables)
  // Weights of edges instead of a table, for uvu paths: [table_row][ConvolutionView::weights_row]. PathGroupCall
  // defines `fraction` for this case, and where derivatives with respect to the weights are stored.
  Pointer<const T> weights = {};
  Pointer<T> weights_adj = {};
  // For duals, tangents are usually those of one direction, in plane 1 + direction of the features. Several
  // directions at a time require kernels for all path groups (PathGroupKernel::moving_forward). moving_directions,
  // if not 0, is only for forward, which also writes values. rigid_directions requires that no edge moves; forward
  // and backward then write only tangents.
  int direction = 0;
  int moving_directions = 0, rigid_directions = 0;
  int64_t y_distance = 0, fraction_distance = 0;    // moving edges: distances between the numbers of two directions
  const Real<T> *sender_factor = nullptr;           // moving edges: defined at PathGroupCall
  int64_t y_adj_distance = 0;                       // rigid edges: like y_distance
  const int64_t *edge_end = nullptr;    // [num_atoms] or null: atom a has only the edges edge_begin[a]..edge_end[a]
  int64_t end(int a) const { return edge_end ? edge_end[a] : edge_begin[a + 1]; }
};

// A term of a gate: channels [0, mul) of one input block, which activated gates scale or which are activated
// themselves.
template <class T>
struct GateCall {
  Activation activation;
  Real<T> scale;
  int mul, dim;    // dim: components of the block
  int64_t rows;
  // Row r, component m, channel u at pointer + r * width + m * stride + u; a gate has one component.
  Pointer<T> z, gate, x;    // gate: null for an activated block
  int64_t z_width, gate_width, x_width;
  int z_stride, x_stride;
  int padding;    // channels after mul that forward sets to 0
};

// The numbers of a symmetric contraction that the generic kernel reads: its tree or grid (contraction_schedule.h),
// and the features that it reads and writes.
template <class T>
struct ContractionView {
  const ContractionNode *nodes;
  const int *outputs;    // per entry
  int num_nodes;
  const int *in_dim, *out_dim;    // components of each block
  int num_in, num_out;            // blocks
  int num_inputs, num_outputs;    // components of all blocks
  const SphereGridView *grid;     // null: uses the tree
};

// Products by matrix units, of float32.
struct SplitKernels {
  // Whether this CPU has the units and the kernel of the system lets this process use them.
  bool (*is_available)();
  // Matrices with fewer rows or columns are not split: the rows of the other factor are split for each product, which
  // takes time.
  int least_in, least_out;
  void (*product)(const ProductCall<float, BFloat16> &call);
  void (*so2_product)(const So2ProductCall<float, BFloat16> &call);
};

template <class T>
struct HostKernels {
  const char *name;

  // Finds the bins of a convolution's edges.
  void (*find_bins)(const BinCall<Real<T>> &call);

  // Size of the scratch that a call needs, aligned to 64 bytes.
  std::size_t (*scratch_bytes)(const ConvolutionView<T> &tables, const ConvEdges<T> &edges);

  // The layout of features is that of feature_layout.h.
  //
  // Writes rows out_begin .. out_begin + num_atoms - 1 of the output feature, which has out_rows rows. x: the input
  // feature with x_rows rows.
  void (*forward)(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows,
                  Real<T> *out, int64_t out_rows, int64_t out_begin, void *scratch);

  // The adjoint of forward with respect to the edges, and to x unless x_adj is null. out_adj: like out of forward.
  // y_adj (overwritten): [edge - edge_begin[0]][num_y], slot 0 for the distance; for rigid edges direction by
  // direction. x_adj (added to): a feature with x_adj_rows rows, row x_adj_row[edge] for each edge.
  void (*backward)(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows,
                   const Real<T> *out_adj, int64_t out_rows, int64_t out_begin, T *y_adj, Real<T> *x_adj,
                   int64_t x_adj_rows, const int *x_adj_row, void *scratch);

  // Computes x_adj (added to) of the senders [0, num_atoms) by a gather over their transposed edges. other_row are
  // receivers; out_adj has out_rows rows. x_adj has x_adj_rows rows; the first of these atoms has row x_adj_begin.
  // x: like x_adj, read only for weights_adj.
  void (*backward_gather)(const ConvolutionView<T> &tables, const ConvEdges<T> &edges, const Real<T> *x, int64_t x_rows,
                          int64_t x_begin, const Real<T> *out_adj, int64_t out_rows, Real<T> *x_adj, int64_t x_adj_rows,
                          int64_t x_adj_begin, void *scratch);

  // Writes x.
  void (*gate_forward)(const GateCall<T> &call);
  // x is the adjoint of the output; replaces z and gate by their adjoints.
  void (*gate_backward)(const GateCall<T> &call);

  int product_panel;    // columns of a panel of packed matrices (product_kernels.h)
  void (*product)(const ProductCall<Real<T>> &call);
  const SplitKernels *split;    // products with matrices in parts, or null

  // The kernels of SO(2) convolutions.
  void (*so2_rotate)(const So2RotationCall<T> &call);
  void (*so2_rotate_back)(const So2RotationCall<T> &call);
  void (*so2_factors)(const So2FactorCall<T> &call);
  void (*so2_factors_backward)(const So2FactorCall<T> &call);
  void (*so2_product)(const So2ProductCall<Real<T>> &call);
  void (*so2_cutoff_backward)(const So2CutoffCall<T> &call);
  void (*so2_torque)(const So2TorqueCall<T> &call);
  void (*so2_gate)(const So2GateCall<T> &call);
  void (*so2_gate_backward)(const So2GateCall<T> &call);
  void (*so2_points)(const So2PointsCall<T> &call);
  void (*so2_points_backward)(const So2PointsCall<T> &call);

  LocalKernels<T> local;    // the kernels of local networks

  // The generic kernel of symmetric contractions, with the call of ContractionKernel. It needs scratch of
  // contraction_scratch_bytes, aligned to 64 bytes.
  std::size_t (*contraction_scratch_bytes)(const ContractionView<T> &tables);
  void (*contraction_forward)(const ContractionView<T> &tables, const ContractionCall<T> &call, void *scratch);
  void (*contraction_backward)(const ContractionView<T> &tables, const ContractionCall<T> &call, void *scratch);
};

// The kernels of all types.
struct AllHostKernels : HostKernels<float>,
                        HostKernels<double>,
                        HostKernels<Dual<float>>,
                        HostKernels<Dual<double>>,
                        EdgeKernels {};

// The set that any CPU of the target has; NEON of aarch64; AVX2 and AVX-512 of x86-64; AMX of x86-64, which has the
// kernels of the best other set, but dense products of float32 by matrix units.
enum class InstructionSet { generic, neon, avx2, avx512, amx };
// All sets. A later one is faster on a CPU that has several; amx may not be.
constexpr InstructionSet INSTRUCTION_SETS[] = {InstructionSet::generic, InstructionSet::neon, InstructionSet::avx2,
                                               InstructionSet::avx512, InstructionSet::amx};

// The best set that this CPU has; only compiled sets count if `compiled`. amx counts if its products are right and
// faster, which the first call measures in some milliseconds.
InstructionSet best_instruction_set(bool compiled = true);
// The set of the registers that its kernels use: that of generated kernels.
InstructionSet vector_set(InstructionSet set);
bool instruction_set_available(InstructionSet set);
const char *instruction_set_name(InstructionSet set);
// Throws std::invalid_argument if no set has this name.
InstructionSet instruction_set_of_name(const std::string &name);
template <class T>
const HostKernels<T> &host_kernels(InstructionSet set);
const EdgeKernels &edge_kernels(InstructionSet set);

}    // namespace equi

#endif
