// SPDX-License-Identifier: MIT
// Packs rows of features into buffers of messages and unpacks them, on an execution space. It does what LammpsExchange
// does on the host, with the same results to the last bit. Buffers hold `stride` numbers per atom; row_of_atom is -1
// for atoms without a row.
//
// Two atoms of one message can share a row (neighbor_graph.h). Where that matters RowGroups says which do.
#ifndef EQUI_ROW_PACKING_H
#define EQUI_ROW_PACKING_H

#include "kokkos/runtime/device_exec.h"
#include "src/evaluation/ghost_exchange.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace equi {

constexpr int MAX_PIECES = 32;

// The pieces of a feature, to be copied into kernels. Their memory is that of the execution space.
template <class T>
struct PackedRows {
  FeaturePiece<T> piece[MAX_PIECES] = {};
  int num_pieces = 0, num_owned = 0, stride = 0;
  const int *row_of_atom = nullptr;

  void add(const FeaturePiece<T> &p) {
    if (num_pieces == MAX_PIECES)
      throw std::invalid_argument("a feature of more than " + std::to_string(MAX_PIECES) + " pieces");
    piece[num_pieces++] = p;
  }
};

// The atoms of a message by rows. It is made on the host, and valid as long as the message's atoms and their rows stay
// the same.
template <class Exec>
class RowGroups {
 public:
  // atoms[n], or first .. first + n - 1 if atoms is null.
  RowGroups(const Exec &exec, int n, const int *atoms, int first, const int *row_of_atom) {
    DeviceBuffer<int, Exec> rows;
    read_rows(exec, n, atoms, first, row_of_atom, rows.reserve(n));
    std::vector<int> row(n), position(n), begin, is_first(n, 0);
    copy_to_host(exec, row.data(), rows.data(), n);
    std::iota(position.begin(), position.end(), 0);
    position.erase(std::remove_if(position.begin(), position.end(), [&](int k) { return row[k] < 0; }), position.end());
    std::stable_sort(position.begin(), position.end(), [&](int a, int b) { return row[a] < row[b]; });
    for (size_t k = 0; k < position.size(); k++)
      if (k == 0 || row[position[k]] != row[position[k - 1]]) {
        begin.push_back(static_cast<int>(k));
        is_first[position[k]] = 1;
      }
    num_groups_ = static_cast<int>(begin.size());
    begin.push_back(static_cast<int>(position.size()));
    assign(exec, begin_, begin);
    assign(exec, position_, position);
    assign(exec, is_first_, is_first);
  }
  int num_groups() const { return num_groups_; }
  // In device memory: group g has the positions position[begin[g]] .. position[begin[g+1]-1] of the message, in order.
  const int *begin() const { return begin_.data(); }
  const int *position() const { return position_.data(); }
  const int *is_first() const { return is_first_.data(); }    // [n] whether a position is the first of its row

  static void read_rows(const Exec &exec, int n, const int *atoms, int first, const int *row_of_atom, int *rows) {
    Kokkos::parallel_for(
        "equi:rows", RangeOn<Exec>(exec, 0, n),
        KOKKOS_LAMBDA(int64_t k) { rows[k] = row_of_atom[atoms ? atoms[k] : first + k]; });
  }

 private:
  int num_groups_ = 0;
  DeviceBuffer<int, Exec> begin_, position_, is_first_;
};

// f(k, position in the buffer, piece, column) for k < n and all columns, side by side.
template <class Exec, class T, class F>
void for_atoms(const char *label, const Exec &exec, int n, const PackedRows<T> &rows, const F &f) {
  using Policy = Kokkos::TeamPolicy<Exec, CallAsArgument>;
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

// atoms[n]: the atoms whose rows are sent.
template <class Exec, class T>
void pack_forward_rows(const Exec &exec, int n, const int *atoms, const PackedRows<T> &rows, T *buffer) {
  for_atoms(
      "equi:pack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[k]];
        buffer[at] = row < 0 ? T(0) : piece.data[static_cast<int64_t>(row) * piece.width + c];
      });
}

// A store beside others of the same number.
template <class T>
KOKKOS_INLINE_FUNCTION void store_whole(T *to, T value) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
  *to = value;
#else
  __atomic_store(to, &value, __ATOMIC_RELAXED);    // Kokkos's own compares and swaps
#endif
}

// For atoms first .. first + n - 1. Copies of one atom write the same numbers, at the same time.
template <class Exec, class T>
void unpack_forward_rows(const Exec &exec, int n, int first, const PackedRows<T> &rows, const T *buffer) {
  for_atoms(
      "equi:unpack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[first + k];
        if (row >= rows.num_owned) store_whole(piece.data + static_cast<int64_t>(row) * piece.width + c, buffer[at]);
      });
}

// The first copy of a row takes its sum and leaves zeros. groups: of the same atoms.
template <class Exec, class T>
void pack_reverse_rows(const Exec &exec, int n, int first, const RowGroups<Exec> &groups, const PackedRows<T> &rows,
                       T *buffer) {
  const int *is_first = groups.is_first();
  for_atoms(
      "equi:pack", exec, n, rows, KOKKOS_LAMBDA(int k, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[first + k];
        buffer[at] = T(0);
        if (row < rows.num_owned || !is_first[k]) return;
        T &from = piece.data[static_cast<int64_t>(row) * piece.width + c];
        buffer[at] = from;
        from = T(0);
      });
}

// Adds in the order of atoms.
template <class Exec, class T>
void unpack_reverse_rows(const Exec &exec, const int *atoms, const RowGroups<Exec> &groups, const PackedRows<T> &rows,
                         const T *buffer) {
  const int *begin = groups.begin(), *position = groups.position();
  for_atoms(
      "equi:unpack", exec, groups.num_groups(), rows,
      KOKKOS_LAMBDA(int group, int64_t at, const FeaturePiece<T> &piece, int c) {
        const int row = rows.row_of_atom[atoms[position[begin[group]]]];
        const int64_t column = at - static_cast<int64_t>(group) * rows.stride;
        T &to = piece.data[static_cast<int64_t>(row) * piece.width + c];
        for (int k = begin[group]; k < begin[group + 1]; k++)
          to += buffer[static_cast<int64_t>(position[k]) * rows.stride + column];
      });
}

}    // namespace equi

#endif
