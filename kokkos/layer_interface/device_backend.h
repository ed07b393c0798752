// SPDX-License-Identifier: MIT
// What layers use of a back end, on devices: the counterpart of host_backend.h.
#ifndef EQUI_DEVICE_BACKEND_H
#define EQUI_DEVICE_BACKEND_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/device_batch.h"
#include "kokkos/layer_interface/device_sender_layer.h"

#include <cstdint>

namespace equi {

template <class Pass>
struct ChannelsKernel {
  Pass pass;
  int channels;
  KOKKOS_FUNCTION void operator()(int64_t k) const {
    pass.template channels<1>(k / channels, static_cast<int>(k % channels));
  }
};

// Runs one team of lanes per row.
template <class Pass>
struct RowsKernel {
  using Member = Kokkos::TeamPolicy<DeviceExec>::member_type;
  Pass pass;
  KOKKOS_FUNCTION void operator()(const Member &team) const {
    pass.lanes(team.league_rank(), team.team_rank(), SumOfLanes<DeviceTraits<>::LANES>());
  }
};

template <class T>
struct DeviceBackend {
  using Number = T;
  using Batch = DeviceBatch<T>;
  using Context = DeviceContext;
  using Work = DeviceExec;
  using Target = DeviceExec;
  using SenderLayer = DeviceSenderLayer<T>;
  template <class N>
  using Array = DeviceBuffer<N>;
  template <class Host, class Device>
  using Choose = Device;

  template <class N, class V>
  static void copy(const Target &exec, const V &values, DeviceBuffer<N> &array) {
    assign(exec, array, values);
  }

  template <class F>
  static void for_numbers(const Work &exec, const char *label, int64_t count, const F &f) {
    Kokkos::parallel_for(label, DeviceRange(exec, 0, count), f);
  }
  template <class Pass>
  static void for_channels(const Work &exec, const char *label, int64_t count, int channels, const Pass &pass) {
    Kokkos::parallel_for(label, DeviceRange(exec, 0, count * channels), ChannelsKernel<Pass>{pass, channels});
  }
  static constexpr int LANES = DeviceTraits<>::LANES;
  static constexpr bool ON_GPU = !DeviceTraits<>::ON_HOST;
  template <class Pass>
  static void for_rows(const Work &exec, const char *label, int64_t count, const Pass &pass) {
    if (count == 0) return;
    Kokkos::parallel_for(label, DeviceTeams<>(exec, static_cast<int>(count), LANES, 1), RowsKernel<Pass>{pass});
  }
};

}    // namespace equi

#endif
