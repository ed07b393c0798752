// SPDX-License-Identifier: MIT
// Potentials that are linear in the position: those of a uniform electric field, and of the dipole of a slab
// (src/layers/potential.h).
#ifndef EQUI_HOST_UNIFORM_POTENTIAL_H
#define EQUI_HOST_UNIFORM_POTENTIAL_H

#include "kokkos/layer_interface/balance_layer.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstdint>
#include <vector>

namespace equi {

// D: double or Dual<double>. Multipoles of this rank's receivers are in the order of MultipoleSum. The atoms of all
// ranks enter by a few sums.
template <class D>
class HostUniformPotential {
 public:
  explicit HostUniformPotential(const Potential &layer) : layer_(layer) {}

  // Adds to the derivatives by the probes. Collective.
  void evaluate(const HostSystem &system, Boundary boundary, int count, const std::vector<D> &sources,
                std::vector<D> &of_probes, GhostExchange &exchange);
  // Adds to the derivatives by the sources, to forces and to virials. Follows evaluate() at the same positions.
  // Collective.
  void evaluate_adjoint(const HostSystem &system, int count, const std::vector<D> &sources,
                        const std::vector<D> &probes, std::vector<D> &of_sources, GhostExchange &exchange);

 private:
  using Vector = std::array<D, 3>;
  struct Channel {
    D charge, height;    // sums over all atoms: q or g0; n . (r - r0) times that
    Vector vector;       // p or g1
    D along(const std::array<double, 3> &n) const {
      return height + D(n[0]) * vector[0] + D(n[1]) * vector[1] + D(n[2]) * vector[2];
    }
  };
  bool is_slab() const { return slab_ > 0.0; }
  // Sums of a side over the atoms of all ranks, by channel. numbers: of an atom and channel, with all widths.
  std::vector<Channel> sums(const std::vector<D> &multipoles, int num_widths, GhostExchange &exchange) const;
  void add_forces(const HostSystem &system, const std::vector<D> &sources, const std::vector<D> &probes,
                  const std::vector<Channel> &of_probes) const;
  D height(const Vector &r) const { return D(normal_[0]) * r[0] + D(normal_[1]) * r[1] + D(normal_[2]) * r[2]; }

  Potential layer_;
  std::vector<Vector> places_;    // [receivers] unwrapped positions
  Vector center_;                 // the mean of the positions of all atoms
  double num_atoms_ = 0.0;
  double slab_ = 0.0;    // prefactor / volume, eV / (charge^2 Angstrom^2); 0: no slab
  std::array<double, 3> normal_{};
  std::vector<Channel> of_sources_;
};

}    // namespace equi

#endif
