// SPDX-License-Identifier: MIT
// The readout of rows in host memory.
#ifndef EQUI_HOST_READOUT_H
#define EQUI_HOST_READOUT_H

#include "kokkos/layer_interface/feature_rows.h"
#include "kokkos/layer_interface/host_batch.h"
#include "src/functions/network.h"
#include "src/numbers/dual.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

namespace equi {

// energy[i] += scale[species[i]] network(x_i) in float64, and its gradient with respect to x_i.
template <class T>
class HostReadout {
  using R = Real<T>;
  using D = DoubleOf<T>;

 public:
  HostReadout(InstructionSet, const Network &network, const FeatureGroup &group, int channel)
      : group_(group), channel_(channel), network_(network) {}
  int num_inputs() const { return network_.num_inputs(); }

  // direction: for duals, whose tangents are in plane 1 + direction. adjoint: [batch.count][num_inputs()].
  void forward(HostBatch<T> &batch, FeatureRows<R> rows, const double *scale, T *adjoint, int direction) const {
    constexpr int P = PLANES<T>;
    const int mul = num_inputs(), most = std::min(batch.count, ROWS);
    double *in = reinterpret_cast<double *>(
               batch.scratch.kernel.reserve(sizeof(double) * P * (most * (2 * mul + 1) + network_.scratch_size(most)))),
           *gradients = in + P * most * mul, *values = gradients + P * most * mul, *scratch = values + P * most;
    D *energy = batch.evaluation.energy_of(direction) + batch.first;
    const R *x = rows.group(group_) + channel_;
    const int plane[2] = {0, group_.tangents(direction)};
    for (int first = 0; first < batch.count; first += ROWS) {
      const int count = std::min(ROWS, batch.count - first);
      for (int a = 0; a < count; a++)
        for (int p = 0; p < P; p++)
          std::copy_n(x + static_cast<int64_t>(first + a) * group_.width() + plane[p], mul, in + (a * P + p) * mul);
      network_.template evaluate<D>(count, in, values, gradients, scratch);
      for (int a = 0; a < count; a++) {
        const double factor = scale[batch.species[first + a]];
        const auto gradient = make_pointer<const D>(gradients + a * P * mul, mul);
        T *of_row = adjoint + static_cast<int64_t>(first + a) * mul;
        energy[first + a] += factor * make_pointer<const D>(values + a * P, 1)[0];
        for (int u = 0; u < mul; u++) of_row[u] = static_cast<T>(factor * gradient[u]);
      }
    }
  }
  auto members() const { return std::tie(network_); }

 private:
  // Number of atoms at a time: the weights of wide networks are read once for several atoms, and the intermediate
  // numbers fit in a cache.
  static constexpr int ROWS = 16;

  FeatureGroup group_;
  int channel_;
  NetworkGradient network_;
};

}    // namespace equi

#endif
