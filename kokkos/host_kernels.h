// The convolution on a CPU: plain functions over plain data, compiled once per instruction set and chosen at load.
//
// host_kernels_impl.h is compiled three times with different compiler flags (host_kernels_{generic,avx2,avx512}.cpp).
// To keep code of one instruction set from being linked into another's callers, those files use nothing but this header
// and conv_paths.h: no Kokkos, no standard containers.
#ifndef EQUI_HOST_KERNELS_H
#define EQUI_HOST_KERNELS_H

#include <cstddef>
#include <cstdint>

namespace equi {

// value added to entry `entry` of a contracted coupling for component `m` of the other factor
template <class T>
struct CouplingTerm {
  int entry;
  int m;
  T value;
};

template <class T>
struct ConvPath {
  int l1, l2, l3;
  int column;                         // first table column
  int64_t out_group;                  // numbers per row before the output group
  int out_width;                      // numbers per row of the output group
  int out_channels;                   // stride between components of the output
  int out_channel;                    // first channel in the output group
  int m_offset;                       // entries per edge before this path in the M record; unused if l2 = 0
  const CouplingTerm<T> *m_terms;     // M[m1 (2 l3+1) + m3] += value y[m], m an index into all harmonics
  const CouplingTerm<T> *mt_terms;    // the same with M stored transposed, [m3 (2 l1+1) + m1]
  const CouplingTerm<T> *d_terms;     // D[m1 (2 l2+1) + m2] += value g[m], m = m3; sorted by entry
  int num_terms;
};

// An input block and the paths that start from it, path first_path .. first_path + num_paths - 1.
template <class T>
struct ConvUnit {
  int l1;
  int64_t in_group;
  int in_width, in_channels, in_channel;
  int channels;    // padded
  int first_path, num_paths;
};

// All constants of one convolution. Paths are ordered by unit.
template <class T>
struct ConvPlan {
  const ConvUnit<T> *units;
  const ConvPath<T> *paths;
  int num_units, num_paths;
  int num_y;        // (lmax_edge + 1)^2
  int m_entries;    // entries of the M record per edge
  int max_d;        // largest (2 l1+1)(2 l2+1) over the paths
  int max_l1, max_l3;
};

// Edges of a run of atoms [0, num_atoms): edge_begin[a]..edge_begin[a+1] index the arrays. In a gather over receivers
// the other atom is the sender, in a gather over senders it is the receiver.
template <class T>
struct ConvEdges {
  int num_atoms;
  const int64_t *edge_begin;
  const int *other_row;           // [edge] row of the other atom
  const T *y;                     // [edge][num_y] harmonics
  const T *table;                 // radial rows
  int64_t columns;                // numbers per table row
  const int *table_row;           // [edge - edge_begin[0]] first row of the edge's bin
  const T *value, *derivative;    // [edge - edge_begin[0]][rows_per_bin]
  int rows_per_bin;               // 2 (exact), 4 (cubic), 6 (quintic)
};

template <class T>
struct HostKernels {
  const char *name;

  // Scratch that a call needs, 64-byte aligned, for atoms with at most max_edges edges.
  std::size_t (*scratch_bytes)(const ConvPlan<T> &plan, int64_t max_edges);

  // Writes rows out_begin .. out_begin + num_atoms - 1 of the output feature, which has out_rows rows. x: the input
  // feature with x_rows rows.
  void (*forward)(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows, T *out,
                  int64_t out_rows, int64_t out_begin, void *scratch);

  // The adjoint of forward with respect to the edges, and to x unless x_adj is null.
  // out_adj as out of forward. y_adj (overwritten): [edge - edge_begin[0]][num_y], slot 0 the derivative by distance.
  // x_adj (added to): a feature with x_adj_rows rows, row x_adj_row[edge] for each edge.
  void (*backward)(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *x, int64_t x_rows, const T *out_adj,
                   int64_t out_rows, int64_t out_begin, T *y_adj, T *x_adj, int64_t x_adj_rows, const int *x_adj_row,
                   void *scratch);

  // x_adj (added to) of the senders [0, num_atoms) by a gather over their transposed edges; other_row are receivers,
  // out_adj has out_rows rows. x_adj has x_adj_rows rows, the first of these atoms is row x_adj_begin.
  void (*backward_gather)(const ConvPlan<T> &plan, const ConvEdges<T> &edges, const T *out_adj, int64_t out_rows,
                          T *x_adj, int64_t x_adj_rows, int64_t x_adj_begin, void *scratch);
};

enum class InstructionSet { generic, avx2, avx512 };

// The best set that this CPU has and that was compiled in.
InstructionSet best_instruction_set();
bool instruction_set_available(InstructionSet set);
template <class T>
const HostKernels<T> &host_kernels(InstructionSet set);

}    // namespace equi

#endif
