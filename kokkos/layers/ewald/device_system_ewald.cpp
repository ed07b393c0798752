// SPDX-License-Identifier: MIT
// The Ewald sum of an evaluation on a device: wave vectors of the present cell, sums over ranks, forces and virials.
#include "kokkos/layers/ewald/device_system_ewald.h"

#include <algorithm>

namespace equi {

namespace {

template <class D>
struct EwaldGradients {
  const EwaldAtom<D> *atoms;
  D *gradient;    // [atoms][3]
  EQUI_FUNCTION void operator()(int64_t k) const { gradient[k] += atoms[k / 3].gradient[k % 3]; }
};

}    // namespace

template <class D>
void DeviceSystemEwald<D>::evaluate(const DeviceExec &exec, const DeviceSystem<D> &system, int count, const D *charges,
                                    EwaldAtom<D> *atoms, GhostExchange &exchange) {
  const SystemWaves::Change change = waves_.use(system.cell, system.cell_direction);
  if (change == SystemWaves::Change::integers) has_integers_ = false;
  if (change != SystemWaves::Change::none) is_current_ = false;
  if (!has_integers_) sum_.set_integers(exec, waves_.vectors());
  has_integers_ = true;
  if (!is_current_) sum_.set_cell(exec, EwaldCell<D>(function_, waves_.vectors(), &waves_.cell_direction()));
  is_current_ = true;

  sum_.tabulate(exec, count, system.receiver, system.positions, system.directions[0]);
  // Through the host, where ranks sum. A single rank reads back what it has written.
  const int64_t size = sum_.size();
  EwaldNumber<D> *sums = sums_.reserve(size + 1);
  sum_.add_up(exec, count, charges, sums);
  sum_of_charges_.add_up(
      exec, {{reinterpret_cast<const double *>(charges), count, PLANES<D>, reinterpret_cast<double *>(sums + size)}});
  host_sums_.resize(2 * size + 2);
  D *numbers = host_sums_.data();
  copy_to_host(exec, numbers, reinterpret_cast<const D *>(sums), 2 * size + 1);
  numbers[2 * size + 1] = D(static_cast<double>(count));
  exchange.sum(reinterpret_cast<double *>(numbers), static_cast<int>(host_sums_.size()) * PLANES<D>);
  total_charge_ = value_of(numbers[2 * size]);
  num_atoms_ = value_of(numbers[2 * size + 1]);
  copy_to_device(exec, reinterpret_cast<D *>(sums), numbers, 2 * size);

  sum_.gather(exec, count, charges, sums, atoms);
  if (system.gradient)
    Kokkos::parallel_for("equi:ewald_gradients", DeviceRange(exec, 0, 3 * static_cast<int64_t>(count)),
                         EwaldGradients<D>{atoms, system.gradient});
  // Each rank adds its share of the virial, which belongs to the structure factors of all atoms.
  if (system.virial && num_atoms_ > 0.0) sum_.subtract_total_strain(exec, count / num_atoms_, sums, system.virial);
  if (system.atom_virial) sum_.subtract_strain(exec, count, charges, system.atom_virial);
}

template <class D>
std::size_t DeviceSystemEwald<D>::bytes() const {
  return sum_.bytes() + sum_of_charges_.bytes() + sums_.bytes();
}

template <class D>
std::size_t DeviceSystemEwald<D>::additional_bytes(const CellMatrix &cell, int count) const {
  const WaveVectors::Extent extent = waves_.extent(cell);
  const std::size_t needed =
      DeviceEwaldSum<D>::bytes_for(extent, count) + (extent.most + extent.most / 8) * sizeof(EwaldNumber<D>);
  return needed - std::min(needed, bytes());
}

template <class D>
std::string DeviceSystemEwald<D>::describe(std::size_t bytes_of_atoms) const {
  return waves_.describe("Ewald sum", bytes() + bytes_of_atoms) +
         SystemWaves::warning_of_charge(total_charge_, num_atoms_);
}

template class DeviceSystemEwald<double>;
template class DeviceSystemEwald<Dual<double>>;

}    // namespace equi
