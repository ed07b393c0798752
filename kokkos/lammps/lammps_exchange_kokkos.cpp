// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "kokkos/lammps/lammps_exchange_kokkos.h"

#include "kokkos/lammps/lammps_kokkos_version.h"

#include "comm_kokkos.h"
#include "pair.h"

#include <type_traits>

namespace equi {

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_rows(LAMMPS_NS::Comm *comm, const std::vector<int> *atom_row, int num_owned,
                                                bool active) {
  assign(Exec(), copied_rows_, *atom_row);
  set_device_rows(comm, copied_rows_.data(), num_owned, active);
  atom_row_ = atom_row;
  on_device_ = false;
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_device_rows(LAMMPS_NS::Comm *comm, const int *row_of_atom, int num_owned,
                                                       bool active) {
  set_communication(comm, num_owned, active);
  on_device_ = true;
  row_of_atom_ = row_of_atom;
  ghost_groups_.clear();
  list_groups_.clear();
}

template <class DeviceType>
std::string LammpsExchangeKokkos<DeviceType>::describe() const {
  if (!used_device_hooks_) return "host";
  constexpr bool ON_HOST = DeviceTraits<Exec>::ON_HOST;
  return ON_HOST || is_gpu_aware_ ? "device" : "device, LAMMPS copies the messages through host memory";
}

// What LAMMPS reads of the pair style and of its own settings is as it was afterwards.
template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::communicate(bool forward) {
  using Classic = LAMMPS_NS::EquiKokkos::ClassicPairComm<LAMMPS_NS::CommKokkos>;
  used_device_hooks_ = false;
  auto *device_comm = dynamic_cast<LAMMPS_NS::CommKokkos *>(comm());
  if (mode_ == ExchangeMode::host) {
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

// f(rows, buffer as their numbers) for the feature on its way.
template <class DeviceType>
template <class Buffer, class F>
void LammpsExchangeKokkos<DeviceType>::with_rows(Buffer *buffer, const F &f) {
  auto call = [&](auto number) {
    using T = decltype(number);
    PackedRows<T> rows;
    for (const Piece &p : pieces_) rows.add({reinterpret_cast<T *>(p.data), static_cast<int>(p.bytes / sizeof(T))});
    rows.num_owned = num_owned_;
    rows.stride = static_cast<int>(size_ * sizeof(double) / sizeof(T));
    rows.row_of_atom = row_of_atom_;
    f(rows, reinterpret_cast<std::conditional_t<std::is_const_v<Buffer>, const T, T> *>(buffer));
  };
  if (is_float_)
    call(float());
  else
    call(double());
  check_launches();    // before MPI has the GPU
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_forward_device(int n, const int *list, double *buffer) {
  with_rows(buffer, [&](const auto &rows, auto *to) { pack_forward_rows(Exec(), n, list, rows, to); });
  return this->packed(n);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_forward_device(int n, int first, const double *buffer) {
  with_rows(buffer, [&](const auto &rows, const auto *from) { unpack_forward_rows(Exec(), n, first, rows, from); });
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_reverse_device(int n, int first, double *buffer) {
  const RowGroups<Exec> &groups =
      ghost_groups_.try_emplace({first, n}, Exec(), n, nullptr, first, row_of_atom_).first->second;
  with_rows(buffer, [&](const auto &rows, auto *to) { pack_reverse_rows(Exec(), n, first, groups, rows, to); });
  return this->packed(n);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse_groups(int n, const int *key, const int *list,
                                                             const double *buffer) {
  const RowGroups<Exec> &groups = list_groups_.try_emplace({key, n}, Exec(), n, list, 0, row_of_atom_).first->second;
  with_rows(buffer, [&](const auto &rows, const auto *from) { unpack_reverse_rows(Exec(), list, groups, rows, from); });
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse_device(int n, const int *list, const double *buffer) {
  unpack_reverse_groups(n, list, list, buffer);
}

// ---- LAMMPS's classic hooks: lists and buffers in host memory

template <class DeviceType>
const int *LammpsExchangeKokkos<DeviceType>::list_to_device(int n, const int *list) {
  copy_to_device(Exec(), list_.reserve(n), list, n);
  return list_.data();
}

template <class DeviceType>
const double *LammpsExchangeKokkos<DeviceType>::message_to_device(int n, const double *buffer) {
  const int64_t size = static_cast<int64_t>(n) * size_;
  copy_to_device(Exec(), message_.reserve(size), buffer, size);
  return message_.data();
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::message_to_host(int n, double *buffer) {
  copy_to_host(Exec(), buffer, message_.data(), static_cast<int64_t>(n) * size_);
  return n * size_;
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_forward(int n, const int *list, double *buffer) {
  if (!on_device_) return LammpsExchange::pack_forward(n, list, buffer);
  pack_forward_device(n, list_to_device(n, list), message_.reserve(static_cast<int64_t>(n) * size_));
  return message_to_host(n, buffer);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_forward(int n, int first, const double *buffer) {
  if (!on_device_) return LammpsExchange::unpack_forward(n, first, buffer);
  unpack_forward_device(n, first, message_to_device(n, buffer));
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_reverse(int n, int first, double *buffer) {
  if (!on_device_) return LammpsExchange::pack_reverse(n, first, buffer);
  pack_reverse_device(n, first, message_.reserve(static_cast<int64_t>(n) * size_));
  return message_to_host(n, buffer);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse(int n, const int *list, const double *buffer) {
  if (!on_device_) return LammpsExchange::unpack_reverse(n, list, buffer);
  unpack_reverse_groups(n, list, list_to_device(n, list), message_to_device(n, buffer));
}

}    // namespace equi

using namespace LAMMPS_NS;
template class equi::LammpsExchangeKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class equi::LammpsExchangeKokkos<LMPHostType>;
#endif
