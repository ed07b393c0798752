// SPDX-License-Identifier: MIT
// Packs rows of features into buffers of messages and unpacks them, on an execution space. It does what
// LammpsExchange does on the host, with the same results to the last bit. Buffers hold `stride` numbers per atom;
// row_of_atom is -1 for atoms without a row. No two atoms of a message have the same row.
#ifndef EQUI_ROW_PACKING_H
#define EQUI_ROW_PACKING_H

#include "kokkos/runtime/device_exec.h"
#include "src/base/model_limits.h"
#include "src/evaluation/ghost_exchange.h"

#include <stdexcept>
#include <string>

namespace equi {

// The pieces of a feature, which kernels copy. Their memory is that of the execution space.
template <class T>
struct PackedRows {
  FeaturePiece<T> piece[MAX_EXCHANGED_RUNS] = {};
  int num_pieces = 0, stride = 0;
  const int *row_of_atom = nullptr;

  void add(const FeaturePiece<T> &p) {
    if (num_pieces == MAX_EXCHANGED_RUNS)
      throw std::invalid_argument("a feature of more than " + std::to_string(MAX_EXCHANGED_RUNS) + " pieces");
    piece[num_pieces++] = p;
  }
};

// Calls f(k, position in the buffer, piece, column) for k < n and all columns, in parallel.
template <class Exec, class T, class F>
void for_atoms(const char *label, const Exec &exec, int n, const PackedRows<T> &rows, const F &f) {
  using Policy = Kokkos::TeamPolicy<Exec, CallAsArgument>;
  using Team = typename Policy::member_type;
  // A team has one thread on the host and four warps on a GPU, because rows have hundreds of columns.
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

// atoms[n], here and below: the atoms of a message, in the memory of the execution space.
template <class Exec, class T>
void pack_forward_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, T *buffer) {
  for_atoms(
      "equi:pack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        buffer[at] = row < 0 ? T(0) : piece.data[static_cast<int64_t>(row) * piece.width + c];
      });
}

template <class Exec, class T>
void unpack_forward_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, const T *buffer) {
  for_atoms(
      "equi:unpack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        if (row >= 0) piece.data[static_cast<int64_t>(row) * piece.width + c] = buffer[at];
      });
}

// Leaves zeros in the packed rows.
template <class Exec, class T>
void pack_reverse_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, T *buffer) {
  for_atoms(
      "equi:pack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        buffer[at] = T(0);
        if (row < 0) return;
        T &from = piece.data[static_cast<int64_t>(row) * piece.width + c];
        buffer[at] = from;
        from = T(0);
      });
}

template <class Exec, class T>
void unpack_reverse_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, const T *buffer) {
  for_atoms(
      "equi:unpack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        if (row >= 0) piece.data[static_cast<int64_t>(row) * piece.width + c] += buffer[at];
      });
}

}    // namespace equi

#endif
