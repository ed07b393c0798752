// SPDX-License-Identifier: MIT
#include "kokkos/layers/direct_forces/device_direct_forces.h"

namespace equi {

template <class R>
void write_vectors(const DeviceExec &exec, int64_t count, FeatureRows<const R> x, const FeatureGroup &group,
                   int channel, double scale, double *to) {
  const R *from = x.group(group) + channel;
  const int width = group.width(), stride = group.stride();
  Kokkos::parallel_for(
      "equi:direct_forces", DeviceRange(exec, 0, 3 * count), KOKKOS_LAMBDA(int64_t n) {
        to[n] = scale * static_cast<double>(from[n / 3 * width + n % 3 * stride]);    // in the order x, y, z
      });
}

template void write_vectors(const DeviceExec &, int64_t, FeatureRows<const float>, const FeatureGroup &, int, double,
                            double *);
template void write_vectors(const DeviceExec &, int64_t, FeatureRows<const double>, const FeatureGroup &, int, double,
                            double *);

}    // namespace equi
