// SPDX-License-Identifier: MIT
// Potentials of multipoles in an open system: sums over all pairs of atoms of all ranks, by the threads of a host.
#ifndef EQUI_HOST_OPEN_POTENTIAL_H
#define EQUI_HOST_OPEN_POTENTIAL_H

#include "kokkos/layer_interface/balance_layer.h"
#include "src/functions/gaussian_multipoles.h"
#include "src/layers/potential.h"
#include "src/numbers/dual.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace equi {

// D: double or Dual<double>. Each rank knows the multipoles of all atoms and computes what its own receivers feel of
// them, and their forces: the work of N atoms grows with N^2 and is divided among ranks and threads. Multipoles of this
// rank's receivers are in the order of MultipoleSum.
template <class D>
class HostOpenPotential {
 public:
  // The layer has data for open systems.
  HostOpenPotential(const Potential &layer, OpenSum sum);

  // Computes the derivatives by the probes from the sources. Collective.
  void evaluate(const HostSystem &system, int count, const std::vector<D> &sources, std::vector<D> &of_probes,
                GhostExchange &exchange);
  // Computes the derivatives by the sources from the probes, and adds forces and virials, half of each pair's virial to
  // either atom. Follows evaluate() at the same positions. Collective.
  void evaluate_adjoint(const HostSystem &system, int count, const std::vector<D> &sources,
                        const std::vector<D> &probes, std::vector<D> &of_sources, GhostExchange &exchange);

  std::size_t bytes() const;
  std::string describe() const;    // of the last evaluation

 private:
  using Vector = std::array<D, 3>;
  int num_widths() const { return static_cast<int>(pairs_.size()); }
  int num_sources() const { return 4 * channels_; }
  int num_probes() const { return num_sources() * num_widths(); }
  int64_t num_atoms() const { return static_cast<int64_t>(all_positions_.size()) / 3; }
  // Writes the numbers of all ranks, `width` for each receiver of this one; returns the place of its first receiver.
  static int64_t gather(const std::vector<D> &mine, int width, std::vector<D> &all, GhostExchange &exchange);
  Vector between(int64_t probe, int64_t source) const;
  // The sums over channels of the products of two atoms' numbers, times the prefactor.
  typename GaussianPair<D>::Matrix products(const D *probe, const D *source, int width) const;

  int channels_;
  double prefactor_;    // eV Angstrom
  OpenSum sum_;
  bool depends_on_axes_;
  std::vector<GaussianPair<D>> pairs_;    // by width
  std::vector<D> all_positions_, all_sources_, all_probes_;
  int64_t first_ = 0;    // place of this rank's first receiver
};

}    // namespace equi

#endif
