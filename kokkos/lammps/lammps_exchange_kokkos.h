// SPDX-License-Identifier: GPL-2.0-only
/* ----------------------------------------------------------------------
   LAMMPS - Large-scale Atomic/Molecular Massively Parallel Simulator
   https://www.lammps.org/, Sandia National Laboratories

   This file derives from classes of LAMMPS and is distributed under the
   GNU General Public License, version 2, as LAMMPS is.
------------------------------------------------------------------------- */

// Exchanges remote rows of features through the communication of LAMMPS's package KOKKOS. Hooks pack and unpack
// where DeviceType runs. KOKKOS may communicate in the classic way (comm styles other than brick, `comm host` and
// `comm no`). Then the hooks of LammpsExchange are used if features are in host memory. Otherwise messages are still
// packed and unpacked on the device, and only messages pass through host memory.

#ifndef EQUI_LAMMPS_EXCHANGE_KOKKOS_H
#define EQUI_LAMMPS_EXCHANGE_KOKKOS_H

#include "kokkos/lammps/row_packing.h"
#include "src/lammps/atoms/lammps_exchange.h"

#include <unordered_map>

namespace equi {

template <class DeviceType>
class LammpsExchangeKokkos : public LammpsExchange {
 public:
  using LammpsExchange::LammpsExchange;

  void set_mode(ExchangeMode mode, bool is_gpu_aware) {
    mode_ = mode;
    is_gpu_aware_ = is_gpu_aware;
  }

  void set_rows(const std::vector<int> *atom_row, bool active) override;
  // The same for features in the memory of DeviceType; row_of_atom is in that memory and must stay valid.
  void set_device_rows(const int *row_of_atom, bool active);
  bool takes_device_rows() const override { return on_device_; }
  void set_ghosts(LAMMPS_NS::Comm *comm, const LAMMPS_NS::Atom &atom) override;

  // Buffers are in the memory of DeviceType; lists are those of LAMMPS in host memory. The caller waits for these
  // functions' work. LAMMPS's device hooks call note_device_hooks() first.
  void note_device_hooks() { used_device_hooks_ = true; }
  int pack_forward_device(int n, const int *list, double *buffer);
  void unpack_forward_device(int n, int first, const double *buffer);
  int pack_reverse_device(int n, int first, double *buffer);
  void unpack_reverse_device(int n, const int *list, const double *buffer);

  int pack_forward(int n, const int *list, double *buffer) override;
  void unpack_forward(int n, int first, const double *buffer) override;
  int pack_reverse(int n, int first, double *buffer) override;
  void unpack_reverse(int n, const int *list, const double *buffer) override;

  std::string describe() const override;

 private:
  using Exec = typename DeviceType::execution_space;

  void communicate(bool forward) override;
  const std::vector<int> &rows_on_host(int num_atoms, std::vector<int> &space) const override;
  template <class Buffer, class F>
  void with_rows(Buffer *buffer, const F &f);
  const double *message_to_device(const std::vector<int> &atoms, const double *buffer);

  ExchangeMode mode_ = ExchangeMode::automatic;
  bool is_gpu_aware_ = false, on_device_ = false, used_device_hooks_ = false;
  const int *row_of_atom_ = nullptr;
  DeviceBuffer<int, Exec> copied_rows_;
  DeviceBuffer<double, Exec> message_;
  // sent_ and received_ in the memory of DeviceType, and where each message begins.
  DeviceBuffer<int, Exec> message_atoms_;
  std::unordered_map<const int *, const int *> device_sent_;
  std::unordered_map<int, const int *> device_received_;
};

}    // namespace equi

#endif
