// SPDX-License-Identifier: MIT
// What sums over all atoms of a host's evaluation share (balance_layer.h).
#ifndef EQUI_HOST_SYSTEM_H
#define EQUI_HOST_SYSTEM_H

#include "kokkos/layer_interface/balance_layer.h"
#include "kokkos/runtime/host_exec.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace equi {

// Calls f(first, end) for pieces of a range, which threads share. size: at least 1, unless the range is empty.
template <class F>
void for_pieces(const char *label, int64_t count, int64_t size, const F &f) {
  if (count == 0) return;
  const int64_t pieces = (count + size - 1) / size;
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostExec, Kokkos::Schedule<Kokkos::Dynamic>>(0, pieces),
                       [&](int64_t p) { f(p * size, std::min<int64_t>(count, (p + 1) * size)); });
}

// Writes the positions of the first `count` receivers, with their tangents along the direction of the request.
template <class D>
void positions_of_receivers(const HostSystem &system, int count, std::vector<std::array<D, 3>> &positions) {
  positions.resize(count);
  for (int i = 0; i < count; i++) {
    const int atom = system.neighborhood.receiver[i];
    for (int a = 0; a < 3; a++)
      positions[i][a] = make_number<D>(system.request.positions[atom][a],
                                       system.request.direction ? system.request.direction[atom][a] : 0.0);
  }
}

// Subtracts an energy's derivative by component a of receiver i from the forces that are requested.
template <class D>
void subtract_gradient(const HostSystem &system, int i, int a, D gradient) {
  const int atom = system.neighborhood.receiver[i];
  if (system.request.forces) system.request.forces[atom][a] -= value_of(gradient);
  if (system.request.force_tangents) system.request.force_tangents[atom][a] -= tangent_of(gradient);
}

// Subtracts an energy's derivative by a strain, xx, yy, zz, xy, xz, yz, from the virial if it is requested, or from
// that of receiver i.
template <class D>
void subtract_strain(const HostSystem &system, const D *strain) {
  for (int c = 0; system.request.virial && c < 6; c++) {
    system.result.virial[c] -= value_of(strain[c]);
    system.result.virial_tangent[c] -= tangent_of(strain[c]);
  }
}
template <class D>
void subtract_atom_strain(const HostSystem &system, int i, const D *strain) {
  constexpr int COMPONENT[9] = {0, 1, 2, 3, 4, 5, 3, 4, 5};
  for (int c = 0; system.request.atom_virial && c < 9; c++)
    system.request.atom_virial[system.neighborhood.receiver[i]][c] -= value_of(strain[COMPONENT[c]]);
}

}    // namespace equi

#endif
