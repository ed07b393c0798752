/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Remote rows of features through the communication of LAMMPS's package KOKKOS: the hooks that pack and unpack on a
// device. Features lie in the memory of DeviceType. Where KOKKOS communicates in the classic way (comm styles other
// than brick, `comm host` and `comm no`), the hooks of LammpsExchange do it.

#ifndef EQUI_LAMMPS_EXCHANGE_KOKKOS_H
#define EQUI_LAMMPS_EXCHANGE_KOKKOS_H

#include "lammps_exchange.h"

#include <Kokkos_Core.hpp>

namespace equi {

template <class DeviceType>
class LammpsExchangeKokkos : public LammpsExchange {
 public:
  using LammpsExchange::LammpsExchange;

  void set_rows(LAMMPS_NS::Comm *comm, const std::vector<int> *atom_row, int num_owned, bool active) override;

  // As those of LammpsExchange; lists and buffers in the memory of DeviceType. The caller waits for them to end.
  int pack_forward_device(int n, const int *list, double *buffer);
  void unpack_forward_device(int n, int first, const double *buffer);
  int pack_reverse_device(int n, int first, double *buffer);
  void unpack_reverse_device(int n, const int *list, const double *buffer);

 private:
  template <class F>
  void with_rows(const F &f);

  Kokkos::View<int *, DeviceType> row_of_atom_;
};

}    // namespace equi

#endif
