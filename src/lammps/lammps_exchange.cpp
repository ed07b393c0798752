// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "src/lammps/lammps_exchange.h"

#include "comm.h"
#include "pair.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace equi {

void LammpsExchange::set_rows(LAMMPS_NS::Comm *comm, const std::vector<int> *atom_row, int num_owned, bool active) {
  atom_row_ = atom_row;
  set_communication(comm, num_owned, active);
}

void LammpsExchange::set_communication(LAMMPS_NS::Comm *comm, int num_owned, bool active) {
  comm_ = comm;
  num_owned_ = num_owned;
  active_ = active;
  to_itself_.clear();
}

bool LammpsExchange::is_to_itself(const int *list) const {
  return std::any_of(to_itself_.begin(), to_itself_.end(), [&](const Message &m) { return m.list == list; });
}
bool LammpsExchange::is_to_itself(int first) const {
  return std::any_of(to_itself_.begin(), to_itself_.end(), [&](const Message &m) { return m.first == first; });
}

void LammpsExchange::communicate(bool forward) {
  if (forward)
    comm_->forward_comm(pair_);
  else
    comm_->reverse_comm(pair_);
}

// Every rank adds in the order of ranks: MPI_Allreduce need not give all of them the same bits.
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
  // LAMMPS sized its buffers for comm_forward and comm_reverse at setup; within that the size may vary from call to
  // call.
  const int forward_size = pair_->comm_forward, reverse_size = pair_->comm_reverse,
            reverse_off_size = pair_->comm_reverse_off;
  if (size_ > (forward ? forward_size : reverse_size))
    throw std::logic_error("exchange of " + std::to_string(size_) + " numbers per atom, but buffers were made for " +
                           std::to_string(forward ? forward_size : reverse_size));
  pair_->comm_forward = pair_->comm_reverse = pair_->comm_reverse_off = size_;
  packed_buffer_ = nullptr;    // LAMMPS may have other buffers than at the last exchange
  communicate(forward);
  pair_->comm_forward = forward_size;
  pair_->comm_reverse = reverse_size;
  pair_->comm_reverse_off = reverse_off_size;
}

int LammpsExchange::packed(int n) {
  const double bytes = static_cast<double>(sizeof(double)) * n * size_;
  traffic_.bytes += bytes;
  if (is_beside_work()) traffic_.bytes_beside_work += bytes;
  traffic_.messages += n > 0;
  return n * size_;
}

int LammpsExchange::pack_forward(int n, const int *list, double *buffer) {
  packed_buffer_ = buffer;
  packed_list_ = list;
  if (is_to_itself(list)) return packed(n);
  for (int k = 0; k < n; k++) {
    char *to = reinterpret_cast<char *>(buffer + static_cast<size_t>(k) * size_);
    const int row = (*atom_row_)[list[k]];
    for (const Piece &p : pieces_) {
      if (row >= 0)
        std::memcpy(to, p.data + static_cast<size_t>(row) * p.bytes, p.bytes);
      else
        std::memset(to, 0, p.bytes);
      to += p.bytes;
    }
  }
  return packed(n);
}

void LammpsExchange::unpack_forward(int n, int first, const double *buffer) {
  if (buffer == packed_buffer_) {
    if (n > 0 && !is_to_itself(first)) to_itself_.push_back({packed_list_, first});
    return;
  }
  for (int k = 0; k < n; k++) {
    const int row = (*atom_row_)[first + k];
    if (row < num_owned_) continue;    // an owned atom's image, or no row at all
    const char *from = reinterpret_cast<const char *>(buffer + static_cast<size_t>(k) * size_);
    for (const Piece &p : pieces_) {
      std::memcpy(p.data + static_cast<size_t>(row) * p.bytes, from, p.bytes);
      from += p.bytes;
    }
  }
}

int LammpsExchange::pack_reverse(int n, int first, double *buffer) {
  if (is_to_itself(first)) return packed(n);
  for (int k = 0; k < n; k++) {
    char *to = reinterpret_cast<char *>(buffer + static_cast<size_t>(k) * size_);
    const int row = (*atom_row_)[first + k];
    for (const Piece &p : pieces_) {
      if (row >= num_owned_) {
        std::memcpy(to, p.data + static_cast<size_t>(row) * p.bytes, p.bytes);
        std::memset(p.data + static_cast<size_t>(row) * p.bytes, 0, p.bytes);
      } else {
        std::memset(to, 0, p.bytes);
      }
      to += p.bytes;
    }
  }
  return packed(n);
}

namespace {

template <class T>
void add(char *to, const char *from, int bytes) {
  T *t = reinterpret_cast<T *>(to);
  const T *f = reinterpret_cast<const T *>(from);
  for (size_t k = 0; k < bytes / sizeof(T); k++) t[k] += f[k];
}

}    // namespace

void LammpsExchange::unpack_reverse(int n, const int *list, const double *buffer) {
  if (is_to_itself(list)) return;
  for (int k = 0; k < n; k++) {
    const int row = (*atom_row_)[list[k]];
    if (row < 0) continue;
    const char *from = reinterpret_cast<const char *>(buffer + static_cast<size_t>(k) * size_);
    for (const Piece &p : pieces_) {
      char *to = p.data + static_cast<size_t>(row) * p.bytes;
      if (is_float_)
        add<float>(to, from, p.bytes);
      else
        add<double>(to, from, p.bytes);
      from += p.bytes;
    }
  }
}

template void LammpsExchange::run<float>(const FeaturePieces<float> &, bool);
template void LammpsExchange::run<double>(const FeaturePieces<double> &, bool);

}    // namespace equi
