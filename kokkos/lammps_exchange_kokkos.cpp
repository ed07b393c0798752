/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

#include "lammps_exchange_kokkos.h"

#include "row_packing.h"

#include "kokkos_type.h"

namespace equi {

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::set_rows(LAMMPS_NS::Comm *comm, const std::vector<int> *atom_row, int num_owned,
                                                bool active) {
  LammpsExchange::set_rows(comm, atom_row, num_owned, active);
  if (row_of_atom_.extent(0) < atom_row->size())
    row_of_atom_ = Kokkos::View<int *, DeviceType>(Kokkos::view_alloc("equi:row_of_atom", Kokkos::WithoutInitializing),
                                                   atom_row->size() + atom_row->size() / 8);
  const Kokkos::View<const int *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> rows(atom_row->data(), atom_row->size());
  Kokkos::deep_copy(Kokkos::subview(row_of_atom_, std::make_pair(size_t(0), atom_row->size())), rows);
}

// f(rows, type of their numbers) for the feature on its way.
template <class DeviceType>
template <class F>
void LammpsExchangeKokkos<DeviceType>::with_rows(const F &f) {
  auto call = [&](auto number) {
    using T = decltype(number);
    PackedRows<T> rows;
    for (const Piece &p : pieces_) rows.add({reinterpret_cast<T *>(p.data), static_cast<int>(p.bytes / sizeof(T))});
    rows.num_owned = num_owned_;
    rows.stride = static_cast<int>(size_ * sizeof(double) / sizeof(T));
    rows.row_of_atom = row_of_atom_.data();
    f(rows, number);
  };
  if (is_float_)
    call(float());
  else
    call(double());
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_forward_device(int n, const int *list, double *buffer) {
  with_rows([&](const auto &rows, auto number) {
    pack_forward_rows(DeviceType(), n, list, rows, reinterpret_cast<decltype(number) *>(buffer));
  });
  return this->packed(n);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_forward_device(int n, int first, const double *buffer) {
  with_rows([&](const auto &rows, auto number) {
    unpack_forward_rows(DeviceType(), n, first, rows, reinterpret_cast<const decltype(number) *>(buffer));
  });
}

template <class DeviceType>
int LammpsExchangeKokkos<DeviceType>::pack_reverse_device(int n, int first, double *buffer) {
  with_rows([&](const auto &rows, auto number) {
    pack_reverse_rows(DeviceType(), n, first, rows, reinterpret_cast<decltype(number) *>(buffer));
  });
  return this->packed(n);
}

template <class DeviceType>
void LammpsExchangeKokkos<DeviceType>::unpack_reverse_device(int n, const int *list, const double *buffer) {
  with_rows([&](const auto &rows, auto number) {
    unpack_reverse_rows(DeviceType(), n, list, rows, reinterpret_cast<const decltype(number) *>(buffer));
  });
}

}    // namespace equi

using namespace LAMMPS_NS;
template class equi::LammpsExchangeKokkos<LMPDeviceType>;
#ifdef LMP_KOKKOS_GPU
template class equi::LammpsExchangeKokkos<LMPHostType>;
#endif
