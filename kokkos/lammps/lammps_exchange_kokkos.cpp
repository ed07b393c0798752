// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Exchanges rows of features with other ranks through the communication of package KOKKOS.

#include "kokkos/lammps/lammps_exchange_kokkos.h"

#include "kokkos/lammps/lammps_kokkos_version.h"

#include "comm_kokkos.h"
#include "pair.h"

#include <type_traits>
#include <utility>

namespace equi {

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_rows(const std::vector<int> *atom_row, bool active) {
  assign(Exec(), copied_rows_, *atom_row);
  set_device_rows(copied_rows_.data(), active);
  atom_row_ = atom_row;
  on_device_ = false;
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_device_rows(const int *row_of_atom, bool active) {
  active_ = active;
  on_device_ = true;
  row_of_atom_ = row_of_atom;
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_ghosts(LAMMPS_NS::Comm *comm, const LAMMPS_NS::Atom &atom) {
  LammpsExchange::set_ghosts(comm, atom);
  std::vector<int> all;
  for (const auto &[list, atoms] : sent_) all.insert(all.end(), atoms.begin(), atoms.end());
  for (const auto &[first, atoms] : received_) all.insert(all.end(), atoms.begin(), atoms.end());
  assign(Exec(), message_atoms_, all);
  const int *begin = message_atoms_.data();
  device_sent_.clear();
  device_received_.clear();
  for (const auto &[list, atoms] : sent_) device_sent_[list] = std::exchange(begin, begin + atoms.size());
  for (const auto &[first, atoms] : received_) device_received_[first] = std::exchange(begin, begin + atoms.size());
}

template <class DeviceType>
const std::vector<int> &LammpsExchangeKokkos<DeviceType>::rows_on_host(int num_atoms, std::vector<int> &space) const {
  if (!on_device_) return *atom_row_;
  space.resize(num_atoms);
  copy_to_host(Exec(), space.data(), row_of_atom_, num_atoms);
  return space;
}

template <class DeviceType>
std::string LammpsExchangeKokkos<DeviceType>::describe() const {
  if (!used_device_hooks_) return "host";
  constexpr bool ON_HOST = DeviceTraits<Exec>::ON_HOST;
  return ON_HOST || is_gpu_aware_ ? "device" : "device, LAMMPS copies the messages through host memory";
}

// Restores the pair style's and LAMMPS's own settings afterwards.
template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::communicate(bool forward) {
  using Classic = LAMMPS_NS::EquiKokkos::ClassicPairComm<LAMMPS_NS::CommKokkos>;
  used_device_hooks_ = false;
  auto *device_comm = dynamic_cast<LAMMPS_NS::CommKokkos *>(comm());
  // Checks of a GPU's evaluation have rows in host memory, which kernels cannot read.
  const bool is_out_of_reach = !on_device_ && !DeviceTraits<Exec>::ON_HOST;
  if (mode_ == ExchangeMode::host || this->ranks_agree() || is_out_of_reach) {
    const auto space = std::exchange(pair()->execution_space, LAMMPS_NS::Host);
    LammpsExchange::communicate(forward);
    pair()->execution_space = space;
  } else if (mode_ == ExchangeMode::device && device_comm) {
    bool &classic = forward ? Classic::forward(*device_comm) : Classic::reverse(*device_comm);
    const bool was_classic = std::exchange(classic, false);
    LammpsExchange::communicate(forward);
    classic = was_classic;
  } else {
    LammpsExchange::communicate(forward);
  }
  if (on_device_) Exec().fence("equi: rows of other ranks are here");
}

// Calls f(rows, buffer as their numbers) for the feature in transit.
template <class DeviceType>
template <class Buffer, class F>
void LammpsExchangeKokkos<DeviceType>::with_rows(Buffer *buffer, const F &f) {
  auto call = [&](auto number) {
    using T = decltype(number);
    PackedRows<T> rows;
    for (const Piece &p : pieces_) rows.add({reinterpret_cast<T *>(p.data), static_cast<int>(p.bytes / sizeof(T))});
    rows.stride = static_cast<int>(size_ * sizeof(double) / sizeof(T));
    rows.row_of_atom = row_of_atom_;
    f(rows, reinterpret_cast<std::conditional_t<std::is_const_v<Buffer>, const T, T> *>(buffer));
  };
  if (is_float_)
    call(float());
  else
    call(double());
  check_launches();    // before MPI accesses the GPU
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_forward_device(int n, const int *list, double *buffer) {
  if (n == 0) return 0;
  const int size = static_cast<int>(sent_.at(list).size());
  const int *atoms = device_sent_.at(list);
  with_rows(buffer, [&](const auto &rows, auto *numbers) { pack_forward_rows(Exec(), size, atoms, rows, numbers); });
  return this->packed(size);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_forward_device(int n, int first, const double *buffer) {
  if (n == 0) return;
  const int size = static_cast<int>(received_.at(first).size());
  const int *atoms = device_received_.at(first);
  with_rows(buffer, [&](const auto &rows, auto *numbers) { unpack_forward_rows(Exec(), size, atoms, rows, numbers); });
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_reverse_device(int n, int first, double *buffer) {
  if (n == 0) return 0;
  const int size = static_cast<int>(received_.at(first).size());
  const int *atoms = device_received_.at(first);
  with_rows(buffer, [&](const auto &rows, auto *numbers) { pack_reverse_rows(Exec(), size, atoms, rows, numbers); });
  return this->packed(size);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse_device(int n, const int *list, const double *buffer) {
  if (n == 0) return;
  const int size = static_cast<int>(sent_.at(list).size());
  const int *atoms = device_sent_.at(list);
  with_rows(buffer, [&](const auto &rows, auto *numbers) { unpack_reverse_rows(Exec(), size, atoms, rows, numbers); });
}

// ---- LAMMPS's classic hooks: buffers in host memory

template <class DeviceType>
const double *LammpsExchangeKokkos<DeviceType>::message_to_device(const std::vector<int> &atoms, const double *buffer) {
  const int64_t size = static_cast<int64_t>(atoms.size()) * size_;
  copy_to_device(Exec(), message_.reserve(size), buffer, size);
  return message_.data();
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_forward(int n, const int *list, double *buffer) {
  if (!on_device_) return LammpsExchange::pack_forward(n, list, buffer);
  const int size = pack_forward_device(n, list, message_.reserve(static_cast<int64_t>(n) * size_));
  copy_to_host(Exec(), buffer, message_.data(), size);
  return size;
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_forward(int n, int first, const double *buffer) {
  if (!on_device_) return LammpsExchange::unpack_forward(n, first, buffer);
  if (n > 0) unpack_forward_device(n, first, message_to_device(received_.at(first), buffer));
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_reverse(int n, int first, double *buffer) {
  if (!on_device_ || this->ranks_agree()) return LammpsExchange::pack_reverse(n, first, buffer);
  const int size = pack_reverse_device(n, first, message_.reserve(static_cast<int64_t>(n) * size_));
  copy_to_host(Exec(), buffer, message_.data(), size);
  return size;
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse(int n, const int *list, const double *buffer) {
  if (!on_device_ || this->ranks_agree()) return LammpsExchange::unpack_reverse(n, list, buffer);
  if (n > 0) unpack_reverse_device(n, list, message_to_device(sent_.at(list), buffer));
}

}    // namespace equi

using namespace LAMMPS_NS;
template class equi::LammpsExchangeKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class equi::LammpsExchangeKokkos<LMPHostType>;
#endif
