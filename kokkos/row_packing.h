// Rows of features into buffers of messages and back, on an execution space: what LammpsExchange does on the host, with
// the same results to the last bit. Buffers hold `stride` numbers per atom; row_of_atom is -1 for atoms without a row.
//
// Two atoms of one message can share a row (neighbor_graph.h). Where that makes their order matter, threads divide the
// columns and walk through the atoms in order.
#ifndef EQUI_ROW_PACKING_H
#define EQUI_ROW_PACKING_H

#include "device_exec.h"
#include "ghost_exchange.h"

#include <stdexcept>
#include <string>

namespace equi {

constexpr int MAX_PIECES = 32;

// The pieces of a feature, to be copied into kernels. Their memory is that of the execution space.
template <class T>
struct PackedRows {
  FeaturePiece<T> piece[MAX_PIECES];
  int num_pieces = 0, num_owned = 0, stride = 0;
  const int *row_of_atom = nullptr;

  void add(const FeaturePiece<T> &p) {
    if (num_pieces == MAX_PIECES)
      throw std::invalid_argument("a feature of more than " + std::to_string(MAX_PIECES) + " pieces");
    piece[num_pieces++] = p;
  }
};

// f(offset in a row of the buffer, piece, first column, number of columns) for blocks of columns, side by side.
template <class Exec, class T, class F>
void for_columns(const char *label, const Exec &exec, const PackedRows<T> &rows, const F &f) {
  // A thread of the host takes a cache line at a time.
  constexpr int BLOCK = DeviceTraits<Exec>::ON_HOST ? 64 / sizeof(T) : 1;
  int num_blocks = 0;
  for (int p = 0; p < rows.num_pieces; p++) num_blocks += (rows.piece[p].width + BLOCK - 1) / BLOCK;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Exec>(exec, 0, num_blocks), KOKKOS_LAMBDA(int block) {
        int p = 0, offset = 0;
        while (block >= (rows.piece[p].width + BLOCK - 1) / BLOCK) {
          block -= (rows.piece[p].width + BLOCK - 1) / BLOCK;
          offset += rows.piece[p++].width;
        }
        const int first = block * BLOCK;
        const int count = first + BLOCK < rows.piece[p].width ? BLOCK : rows.piece[p].width - first;
        f(offset + first, rows.piece[p], first, count);
      });
}

// f(k, place in the buffer, piece, column) for n atoms and all columns, side by side.
template <class Exec, class T, class F>
void for_atoms(const char *label, const Exec &exec, int n, const PackedRows<T> &rows, const F &f) {
  using Policy = Kokkos::TeamPolicy<Exec>;
  using Team = typename Policy::member_type;
  // A team of one thread on the host, of four warps on a GPU: rows have hundreds of columns.
  const int team_size = DeviceTraits<Exec>::ON_HOST ? 1 : 128;
  Kokkos::parallel_for(
      label, Policy(exec, n, team_size), KOKKOS_LAMBDA(const Team &team) {
        const int k = team.league_rank();
        int offset = 0;
        for (int p = 0; p < rows.num_pieces; p++) {
          const FeaturePiece<T> &piece = rows.piece[p];
          Kokkos::parallel_for(Kokkos::TeamVectorRange(team, piece.width),
                               [&](int c) { f(k, static_cast<int64_t>(k) * rows.stride + offset + c, piece, c); });
          offset += piece.width;
        }
      });
}

// atoms[n]: what is sent.
template <class Exec, class T>
void pack_forward_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, T *buffer) {
  for_atoms(
      "equi:pack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        buffer[at] = row < 0 ? T(0) : piece.data[static_cast<int64_t>(row) * piece.width + c];
      });
}

// For atoms first .. first + n - 1. Copies of one atom write the same numbers.
template <class Exec, class T>
void unpack_forward_rows(const Exec &exec, int n, int first, const PackedRows<T> &rows, const T *buffer) {
  for_atoms(
      "equi:unpack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[first + k];
        if (row >= rows.num_owned) piece.data[static_cast<int64_t>(row) * piece.width + c] = buffer[at];
      });
}

// The first copy of a row takes its sum and leaves zeros.
template <class Exec, class T>
void pack_reverse_rows(const Exec &exec, int n, int first, const PackedRows<T> &rows, T *buffer) {
  for_columns(
      "equi:pack", exec, rows, KOKKOS_LAMBDA(int offset, const FeaturePiece<T> &piece, int column, int count) {
        for (int k = 0; k < n; k++) {
          T *to = buffer + static_cast<int64_t>(k) * rows.stride + offset;
          const int row = rows.row_of_atom[first + k];
          if (row < rows.num_owned) {
            for (int c = 0; c < count; c++) to[c] = T(0);
            continue;
          }
          T *from = piece.data + static_cast<int64_t>(row) * piece.width + column;
          for (int c = 0; c < count; c++) {
            to[c] = from[c];
            from[c] = T(0);
          }
        }
      });
}

template <class Exec, class T>
void unpack_reverse_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, const T *buffer) {
  for_columns(
      "equi:unpack", exec, rows, KOKKOS_LAMBDA(int offset, const FeaturePiece<T> &piece, int column, int count) {
        for (int k = 0; k < n; k++) {
          const int row = rows.row_of_atom[atoms[k]];
          if (row < 0) continue;
          const T *from = buffer + static_cast<int64_t>(k) * rows.stride + offset;
          T *to = piece.data + static_cast<int64_t>(row) * piece.width + column;
          for (int c = 0; c < count; c++) to[c] += from[c];
        }
      });
}

}    // namespace equi

#endif
