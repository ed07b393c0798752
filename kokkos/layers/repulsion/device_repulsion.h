// SPDX-License-Identifier: MIT
// Pair repulsion (pair_repulsion.h) on a device.
#ifndef EQUI_DEVICE_REPULSION_H
#define EQUI_DEVICE_REPULSION_H

#include "kokkos/geometry/device_edges.h"
#include "src/layers/pair_repulsion.h"

namespace equi {

class DeviceRepulsion {
 public:
  DeviceRepulsion(const DeviceExec &exec, const PairRepulsion &repulsion);

  // For all receivers: energy[i] += factor times the energies of its pairs; factor is scale[species of i], or 1 if
  // scale is null. Adds the derivative with respect to the distance of edge e to distance_adj[e * stride].
  template <class G>
  void add(const DeviceExec &exec, int num_receivers, const int64_t *begin, const G *distance, const int *pair,
           int num_species, const double *scale, DoubleOf<G> *energy, G *distance_adj, int stride) const;
  std::size_t bytes() const { return data_.bytes(); }

 private:
  int num_pairs_, num_terms_;
  double p_;
  DeviceBuffer<double> data_;    // prefactors, lengths and cutoffs of all pairs; coefficients; exponents
};

}    // namespace equi

#endif
