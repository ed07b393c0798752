// SPDX-License-Identifier: MIT
// Instances of an execution space besides its default one, and a test whether the work queued on one has ended.
#ifndef EQUI_DEVICE_QUEUE_H
#define EQUI_DEVICE_QUEUE_H

#include "kokkos/runtime/device_exec.h"

namespace equi {

// An instance whose work runs at the same time as that of the default one. On a host both are the same, because its
// threads exist only once.
inline DeviceExec make_own_instance() {
  if constexpr (DeviceTraits<>::ON_HOST)
    return DeviceExec();
  else
    return Kokkos::Experimental::partition_space(DeviceExec(), 1)[0];
}

// Reports without waiting whether queued work has yet to end. Launches on a host end before they return, so the
// answer there is that of a device that is slower than the host.
template <bool ON_HOST = DeviceTraits<>::ON_HOST>
class QueuedWork {
 public:
  // All earlier work has ended, and work will be queued, until one of the next functions is called.
  void begin() { is_queued_ = false; }
  // Work was queued.
  void end(const DeviceExec &) { is_queued_ = true; }
  // There was no work.
  void cancel() {}
  bool is_busy() const { return is_queued_; }

 private:
  bool is_queued_ = false;
};

#ifdef KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
template <>
class QueuedWork<false> {
 public:
  QueuedWork() : is_done_("equi:is_done") { *is_done_.data() = 1; }
  void begin() { *is_done_.data() = 0; }
  void end(const DeviceExec &exec) {
    int *is_done = is_done_.data();
    Kokkos::parallel_for(
        "equi:work_done", DeviceRange(exec, 0, 1), KOKKOS_LAMBDA(int64_t) { *is_done = 1; });
  }
  void cancel() { *is_done_.data() = 1; }
  bool is_busy() const { return *static_cast<volatile const int *>(is_done_.data()) == 0; }

 private:
  Kokkos::View<int, Kokkos::SharedHostPinnedSpace> is_done_;    // the device writes it, the host reads it
};
#endif

}    // namespace equi

#endif
