// SPDX-License-Identifier: MIT
// The sums over wave vectors of a layer on either back end.
#ifndef EQUI_WAVE_SUMS_H
#define EQUI_WAVE_SUMS_H

#include "kokkos/wave_sums/device_waves.h"
#include "kokkos/wave_sums/host_waves.h"
#include "kokkos/wave_sums/system_multipoles.h"
#include "src/functions/multipole_function.h"

#include <memory>
#include <string>

namespace equi {

extern template class SystemMultipoles<HostWaves<double>>;
extern template class SystemMultipoles<HostWaves<Dual<double>>>;
extern template class SystemMultipoles<DeviceWaves<double>>;
extern template class SystemMultipoles<DeviceWaves<Dual<double>>>;

template <class Backend>
using WavesOf = typename Backend::template Choose<HostWaves<DoubleOf<typename Backend::Number>>,
                                                  DeviceWaves<DoubleOf<typename Backend::Number>>>;
template <class Backend>
using MultipolesOf = SystemMultipoles<WavesOf<Backend>>;

// Layers with the same cutoff (1/Angstrom) and set share wave vectors and tables of a step.
template <class Backend>
MultipolesOf<Backend> make_system_multipoles(typename Backend::Context &context, const MultipoleFunction &function,
                                             int channels, bool has_dipoles, bool has_gradients, double cutoff,
                                             const std::string &set) {
  const SystemWaves vectors(cutoff, function.least_width(), set, context.options.wave_vectors);
  const auto waves = context.template share<WavesOf<Backend>>(
      vectors.name(), [&] { return std::make_unique<WavesOf<Backend>>(vectors); });
  return {function, channels, has_dipoles, has_gradients, waves.object, waves.is_first};
}

}    // namespace equi

#endif
