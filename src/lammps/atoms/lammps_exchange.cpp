// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Packs and unpacks rows of features for LAMMPS's communication.
#include "src/lammps/atoms/lammps_exchange.h"

#include "atom.h"
#include "comm.h"
#include "pair.h"

#include <climits>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>

namespace equi {

void LammpsExchange::set_rows(const std::vector<int> *atom_row, bool active) {
  atom_row_ = atom_row;
  active_ = active;
}

// Copies are recognized by their common row, or by their IDs if their type is invisible: it may change while ghosts
// stay.
void LammpsExchange::set_ghosts(LAMMPS_NS::Comm *comm, const LAMMPS_NS::Atom &atom) {
  comm_ = comm;
  sent_.clear();
  received_.clear();
  first_ghost_ = atom.nlocal;
  std::vector<int> copied;
  const std::vector<int> &rows = rows_on_host(atom.nlocal + atom.nghost, copied);
  std::vector<char> has_row(rows.size() + 1, false);
  std::unordered_set<LAMMPS_NS::tagint> ids;
  const auto is_new = [&](int i) {
    return rows[i] >= 0 ? !std::exchange(has_row[rows[i]], true) : ids.insert(atom.tag[i]).second;
  };
  for (int i = 0; i < atom.nlocal; i++) is_new(i);
  is_first_copy_.assign(atom.nghost + 1, false);
  for (int g = 0; g < atom.nghost; g++) is_first_copy_[g] = is_new(first_ghost_ + g);
  send(1, false);
  is_first_copy_.clear();
}

void LammpsExchange::communicate(bool forward) {
  if (forward)
    comm_->forward_comm(pair_);
  else
    comm_->reverse_comm(pair_);
}

// Every rank adds in the order of ranks: MPI_Allreduce may return different bits on different ranks.
void LammpsExchange::sum(double *numbers, int count) {
  int size = 1;
  MPI_Comm_size(world_, &size);
  std::vector<double> all(static_cast<std::size_t>(size) * count);
  MPI_Allgather(numbers, count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, world_);
  for (int k = 0; k < count; k++) {
    numbers[k] = 0.0;
    for (int rank = 0; rank < size; rank++) numbers[k] += all[static_cast<std::size_t>(rank) * count + k];
  }
}

std::size_t LammpsExchange::gather(const double *numbers, std::size_t count, std::vector<double> &all) {
  int size = 1, me = 0;
  MPI_Comm_size(world_, &size);
  MPI_Comm_rank(world_, &me);
  std::vector<int> counts(size), places(size, 0);
  // A count that MPI could not pass is refused on all ranks.
  const int mine = count > static_cast<std::size_t>(INT_MAX) ? -1 : static_cast<int>(count);
  MPI_Allgather(&mine, 1, MPI_INT, counts.data(), 1, MPI_INT, world_);
  int64_t total = 0;
  for (int rank = 0; rank < size; rank++) {
    places[rank] = static_cast<int>(total);
    total += counts[rank] < 0 ? INT_MAX : counts[rank];
    if (counts[rank] < 0 || total > INT_MAX)
      throw std::runtime_error("a sum over all pairs of atoms has too many atoms for one message");
  }
  all.resize(total);
  MPI_Allgatherv(numbers, mine, MPI_DOUBLE, all.data(), counts.data(), places.data(), MPI_DOUBLE, world_);
  return places[me];
}

template <class T>
void LammpsExchange::run(const FeaturePieces<T> &rows, bool forward) {
  if (!active_) return;
  pieces_.clear();
  std::size_t bytes = 0;
  for (const FeaturePiece<T> &p : rows) {
    pieces_.push_back({reinterpret_cast<char *>(p.data), static_cast<int>(p.width * sizeof(T))});
    bytes += p.width * sizeof(T);
  }
  is_float_ = std::is_same_v<T, float>;
  size_ = buffer_size(bytes);
  send(size_, forward);
}

// LAMMPS has sized its buffers for comm_forward and comm_reverse at setup; up to this size each call may use another.
void LammpsExchange::send(int size, bool forward) {
  const int forward_size = pair_->comm_forward, reverse_size = pair_->comm_reverse,
            reverse_off_size = pair_->comm_reverse_off;
  if (size > (forward ? forward_size : reverse_size))
    throw std::logic_error("exchange of " + std::to_string(size) + " numbers per atom, but buffers were made for " +
                           std::to_string(forward ? forward_size : reverse_size));
  pair_->comm_forward = pair_->comm_reverse = pair_->comm_reverse_off = size;
  communicate(forward);
  pair_->comm_forward = forward_size;
  pair_->comm_reverse = reverse_size;
  pair_->comm_reverse_off = reverse_off_size;
}

int LammpsExchange::packed(std::size_t n) {
  const double bytes = static_cast<double>(sizeof(double)) * n * size_;
  traffic_.bytes += bytes;
  if (is_beside_work()) traffic_.bytes_beside_work += bytes;
  traffic_.messages += n > 0;
  return static_cast<int>(n) * size_;
}

namespace {

template <class T>
void add(char *to, const char *from, int bytes) {
  T *t = reinterpret_cast<T *>(to);
  const T *f = reinterpret_cast<const T *>(from);
  for (size_t k = 0; k < bytes / sizeof(T); k++) t[k] += f[k];
}

}    // namespace

// Calls f(piece of the row or null, its place in the buffer, bytes) for each piece of the rows of atoms.
template <class Buffer, class F>
void LammpsExchange::for_pieces(const std::vector<int> &atoms, Buffer *buffer, const F &f) const {
  using Byte = std::conditional_t<std::is_const_v<Buffer>, const char, char>;
  for (size_t k = 0; k < atoms.size(); k++) {
    auto *place = reinterpret_cast<Byte *>(buffer + k * size_);
    const int row = (*atom_row_)[atoms[k]];
    for (const Piece &p : pieces_) {
      f(row >= 0 ? p.data + static_cast<size_t>(row) * p.bytes : nullptr, place, p.bytes);
      place += p.bytes;
    }
  }
}

int LammpsExchange::pack_forward(int n, const int *list, double *buffer) {
  if (n == 0) return 0;
  const std::vector<int> &atoms = sent_.at(list);
  for_pieces(atoms, buffer, [](const char *row, char *to, int bytes) {
    if (row)
      std::memcpy(to, row, bytes);
    else
      std::memset(to, 0, bytes);
  });
  return packed(atoms.size());
}

void LammpsExchange::unpack_forward(int n, int first, const double *buffer) {
  if (n == 0) return;
  for_pieces(received_.at(first), buffer, [](char *row, const char *from, int bytes) {
    if (row) std::memcpy(row, from, bytes);
  });
}

int LammpsExchange::pack_reverse(int n, int first, double *buffer) {
  if (n == 0) return 0;
  if (ranks_agree()) {
    std::vector<int> &atoms = received_[first];
    for (int k = 0; k < n; k++) {
      buffer[k] = is_first_copy_[first - first_ghost_ + k];
      if (buffer[k]) atoms.push_back(first + k);
    }
    return n;
  }
  const std::vector<int> &atoms = received_.at(first);
  for_pieces(atoms, buffer, [](char *row, char *to, int bytes) {
    if (row) std::memcpy(to, row, bytes);
    std::memset(row ? row : to, 0, bytes);
  });
  return packed(atoms.size());
}

void LammpsExchange::unpack_reverse(int n, const int *list, const double *buffer) {
  if (n == 0) return;
  if (ranks_agree()) {
    std::vector<int> &atoms = sent_[list];
    for (int k = 0; k < n; k++)
      if (buffer[k]) atoms.push_back(list[k]);
    return;
  }
  for_pieces(sent_.at(list), buffer, [this](char *row, const char *from, int bytes) {
    if (row) (is_float_ ? add<float> : add<double>)(row, from, bytes);
  });
}

template void LammpsExchange::run<float>(const FeaturePieces<float> &, bool);
template void LammpsExchange::run<double>(const FeaturePieces<double> &, bool);

}    // namespace equi
