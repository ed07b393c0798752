// SPDX-License-Identifier: MIT
// Launches with a group of lanes for each item, several groups per team.
#ifndef EQUI_LAUNCH_ON_LANES_H
#define EQUI_LAUNCH_ON_LANES_H

#include "kokkos/runtime/device_exec.h"

#include <cstdint>

namespace equi {

template <class F>
struct OnLanesKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  static constexpr int LANES = DeviceTraits<>::LANES, GROUPS = DeviceTraits<>::GROUPS;
  F f;
  int64_t count;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    const int64_t item = static_cast<int64_t>(team.league_rank()) * GROUPS + team.team_rank() / LANES;
    if (item < count) f(item, team.team_rank() % LANES);
  }
};

// Calls f(item, lane) for 0 <= item < count and all lanes of DeviceTraits; those of an item call it together.
template <class F>
void launch_on_lanes(const DeviceExec &exec, const char *label, int64_t count, const F &f) {
  constexpr int GROUPS = DeviceTraits<>::GROUPS;
  Kokkos::parallel_for(label,
                       DeviceTeams<>(exec, static_cast<int>((count + GROUPS - 1) / GROUPS), DeviceTraits<>::TEAM, 1),
                       OnLanesKernel<F>{f, count});
}

}    // namespace equi

#endif
