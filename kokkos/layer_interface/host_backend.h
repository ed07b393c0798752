// SPDX-License-Identifier: MIT
// What layers use of a back end, on CPUs: its types and its loops over rows.
#ifndef EQUI_HOST_BACKEND_H
#define EQUI_HOST_BACKEND_H

#include "kokkos/layer_interface/batch_layer.h"
#include "kokkos/layer_interface/host_batch.h"
#include "kokkos/layer_interface/host_sender_layer.h"
#include "kokkos/runtime/device_exec.h"

#include <algorithm>
#include <cstdint>

namespace equi {

template <class T>
struct HostBackend {
  using Number = T;
  using Batch = HostBatch<T>;
  using Context = HostContext;
  using Work = HostKernels<T>;
  using Target = InstructionSet;    // the type that constants are prepared for
  using SenderLayer = HostSenderLayer<T>;
  static constexpr bool ON_GPU = false;
  template <class N>
  using Array = Buffer<N>;
  // Selects the text for this back end.
  template <class Host, class Device>
  using Choose = Host;

  // Fills an array where rows are. To: Target or Work.
  template <class To, class N, class V>
  static void copy(const To &, const V &values, Buffer<N> &array) {
    std::copy(values.begin(), values.end(), array.reserve(values.size()));
  }

  // Calls f(n) for 0 <= n < count.
  template <class F>
  static void for_numbers(const Work &, const char *, int64_t count, const F &f) {
    for (int64_t n = 0; n < count; n++) f(n);
  }
  // Calls pass.channels<LANES>(row, first channel) for all channels of `count` rows, LANES at a time. The last ones of
  // a row may lie beyond `channels`, in padding or not.
  template <class Pass>
  static void for_channels(const Work &, const char *, int64_t count, int channels, const Pass &pass) {
    for (int64_t row = 0; row < count; row++)
      for (int u = 0; u < channels; u += CHANNEL_PAD) pass.template channels<CHANNEL_PAD>(row, u);
  }
  // Calls pass.lanes(row, lane, sum) for the LANES lanes of `count` rows; sum(v) adds up a number over the lanes of
  // a row.
  static constexpr int LANES = 1;
  template <class Pass>
  static void for_rows(const Work &, const char *, int64_t count, const Pass &pass) {
    for (int64_t row = 0; row < count; row++) pass.lanes(row, 0, SumOfLanes<1>());
  }
};

}    // namespace equi

#endif
