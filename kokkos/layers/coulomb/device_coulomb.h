// SPDX-License-Identifier: MIT
// The Coulomb energy of charges (src/layers/coulomb.h) on a device.
#ifndef EQUI_DEVICE_COULOMB_H
#define EQUI_DEVICE_COULOMB_H

#include "kokkos/geometry/device_edges.h"
#include "kokkos/layers/coulomb/coulomb_channels.h"
#include "kokkos/layers/feature_rows.h"

namespace equi {

template <class T>
class DeviceCoulomb {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  // scale: factor of energies, per species of the receiver.
  DeviceCoulomb(const DeviceExec &exec, const Coulomb &layer, const FeatureLayout &layout,
                const std::vector<double> &scale);

  // For receivers [first, first + count): adds energies of atoms, where energy[0] is that of the first receiver, and
  // the derivatives with respect to the distances. x: all rows.
  template <class G>
  void forward(const DeviceExec &exec, int first, int count, DeviceEdges<T, G> &edges, FeatureRows<const R> x,
               D *energy) const;
  // Adds the adjoints of the receivers' own charges; x_adj begins with their rows. A pair is an edge of both atoms,
  // so the edges of an atom contain all contributions of its charges.
  template <class G>
  void backward(const DeviceExec &exec, int first, int count, DeviceEdges<T, G> &edges, FeatureRows<const R> x,
                FeatureRows<R> x_adj) const;
  std::size_t bytes() const { return weights_.bytes() + scale_.bytes(); }

 private:
  CoulombFunction function_;
  std::vector<CoulombRun> channels_;
  int num_species_;
  DeviceBuffer<double> weights_, scale_;    // [channels], [species]
};

}    // namespace equi

#endif
