// SPDX-License-Identifier: MIT
// The execution space of devices, its properties that kernels need, and memory on it.
//
// The kernels are written for *lanes*, threads that run in step and exchange numbers, with one channel per lane. A
// GPU has 32 of them (on AMD's waves of 64, two halves); a host thread is a single lane.
#ifndef EQUI_DEVICE_EXEC_H
#define EQUI_DEVICE_EXEC_H

#include "kokkos/runtime/device_launches.h"
#include "kokkos/runtime/unwritten_memory.h"
#include "src/numbers/dual.h"

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#if defined(KOKKOS_ENABLE_CUDA)
#include "kokkos/runtime/device_lanes_cuda.h"
#elif defined(KOKKOS_ENABLE_HIP)
#include "kokkos/runtime/device_lanes_hip.h"
#endif

// Before loops over arrays that must stay in registers.
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define EQUI_UNROLL _Pragma("unroll")
#elif defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define EQUI_UNROLL _Pragma("GCC unroll 64")
#else
#define EQUI_UNROLL
#endif

namespace equi {

using DeviceExec = Kokkos::DefaultExecutionSpace;

template <class Exec = DeviceExec>
struct DeviceTraits {
  static constexpr bool ON_HOST = std::is_same_v<typename Exec::memory_space, Kokkos::HostSpace>;
  static constexpr int LANES = ON_HOST ? 1 : 32;
  static constexpr int GROUPS = ON_HOST ? 1 : 4;    // groups of lanes per team, each with work of its own
  static constexpr int TEAM = LANES * GROUPS;
};

// While an object exists, this thread's launches are recorded (device_recorder.h).
class RecordingLaunches {
 public:
  RecordingLaunches() { is_active_ = true; }
  ~RecordingLaunches() { is_active_ = false; }
  RecordingLaunches(const RecordingLaunches &) = delete;
  RecordingLaunches &operator=(const RecordingLaunches &) = delete;
  // For operations that a recording cannot hold.
  static void refuse(const char *what) {
    if (is_active_) throw std::logic_error(std::string(what) + " while launches are recorded");
  }
  static bool is_active() { return is_active_; }

 private:
  inline static thread_local bool is_active_ = false;
};

// Numbers in device memory. The buffer grows and never shrinks, so a warm evaluation allocates nothing.
template <class T, class Exec = DeviceExec>
class DeviceBuffer {
 public:
  // Returns memory for n numbers. Whether it grows or not, the content is lost. Debug builds overwrite it, except
  // while launches are recorded, because a replay would not.
  T *reserve(int64_t n) {
    if (n > static_cast<int64_t>(view_.extent(0))) {
      RecordingLaunches::refuse("memory grows");
      view_ = {};    // frees the old memory first
      view_ = View(Kokkos::view_alloc(std::string("equi:buffer"), Kokkos::WithoutInitializing), capacity(n));
    }
    mark_unwritten(n);
    return view_.data();
  }
  T *data() const { return view_.data(); }
  std::size_t bytes() const { return view_.extent(0) * sizeof(T); }
  // Bytes that reserve(n) would add.
  std::size_t additional_bytes(int64_t n) const {
    const int64_t size = static_cast<int64_t>(view_.extent(0));
    return n > size ? static_cast<std::size_t>(capacity(n) - size) * sizeof(T) : 0;
  }

 private:
  // The reserve is an eighth, so that fluctuating counts do not reallocate at every maximum; for large counts, which
  // fluctuate less, it is a few million. EQUI_EXACT_BUFFERS is for memory that is guarded at its end: a read behind
  // the requested size is then one behind the memory.
#ifdef EQUI_EXACT_BUFFERS
  static constexpr int64_t MOST_SPARE = 0;
#else
  static constexpr int64_t MOST_SPARE = 1 << 22;
#endif
  static int64_t capacity(int64_t n) {
    return n + (n / 8 < MOST_SPARE ? n / 8 : MOST_SPARE);
  }
  void mark_unwritten([[maybe_unused]] int64_t n) {
#ifdef EQUI_DEBUG
    const bool keep = RecordingLaunches::is_active();
    if constexpr (DeviceTraits<Exec>::ON_HOST) {
      if (!keep) Kokkos::fence("equi: memory is handed out again");
      equi::mark_unwritten(view_.data(), n * sizeof(T), bytes(), keep);
    } else if (!keep) {
      using Bytes = Kokkos::View<unsigned char *, typename Exec::memory_space, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(Bytes(reinterpret_cast<unsigned char *>(view_.data()), bytes()), UNWRITTEN);
    }
#endif
  }
  using View = Kokkos::View<T *, typename Exec::memory_space>;
  View view_;
};

// Copies between host and device memory that are complete on return. All work queued on exec comes before.
template <class Exec, class T>
void copy_to_device(const Exec &exec, T *device, const T *host, int64_t n) {
  if (n == 0) return;
  RecordingLaunches::refuse("copying to the device");
  Kokkos::View<T *, typename Exec::memory_space, Kokkos::MemoryUnmanaged> to(device, n);
  Kokkos::View<const T *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> from(host, n);
  Kokkos::deep_copy(exec, to, from);
  exec.fence("equi: copied to device");    // the caller may reuse its memory
}
template <class Exec, class T>
void copy_to_host(const Exec &exec, T *host, const T *device, int64_t n) {
  if (n == 0) return;
  RecordingLaunches::refuse("copying to the host");
  Kokkos::View<const T *, typename Exec::memory_space, Kokkos::MemoryUnmanaged> from(device, n);
  Kokkos::View<T *, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> to(host, n);
  Kokkos::deep_copy(exec, to, from);
  exec.fence("equi: copied to host");
  if constexpr (!DeviceTraits<Exec>::ON_HOST) check_launches();
}
// A buffer with the content of a vector.
template <class Exec, class V>
void assign(const Exec &exec, DeviceBuffer<typename V::value_type, Exec> &buffer, const V &values) {
  copy_to_device(exec, buffer.reserve(static_cast<int64_t>(values.size())), values.data(),
                 static_cast<int64_t>(values.size()));
}

// Policies of kernels. Kokkos for CUDA passes their calls as arguments, of up to 4 kB. Without the hint it copies
// calls of more than 512 bytes through a buffer for which the host waits at each launch. Such a copy cannot be
// recorded, either.
using CallAsArgument = Kokkos::Experimental::WorkItemProperty::HintLightWeight_t;
template <class Exec>
using RangeOn = Kokkos::RangePolicy<Exec, Kokkos::IndexType<int64_t>, CallAsArgument>;
using DeviceRange = RangeOn<DeviceExec>;
template <class... Properties>
using DeviceTeams = Kokkos::TeamPolicy<DeviceExec, CallAsArgument, Properties...>;

template <class T>
void device_fill(const DeviceExec &exec, T *data, int64_t n, T value) {
  Kokkos::parallel_for(
      "equi:fill", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) { data[k] = value; });
}
template <class T>
void device_zero(const DeviceExec &exec, T *data, int64_t n) {
  device_fill(exec, data, n, T(0));
}

template <class T>
void device_copy(const DeviceExec &exec, T *to, const T *from, int64_t n) {
  Kokkos::parallel_for(
      "equi:copy", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) { to[k] = from[k]; });
}

template <class T>
void device_add(const DeviceExec &exec, T *to, const T *from, int64_t n) {
  Kokkos::parallel_for(
      "equi:add", DeviceRange(exec, 0, n), KOKKOS_LAMBDA(int64_t k) { to[k] += from[k]; });
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION Dual<T> from_lane_xor(Dual<T> number, int mask) {
  return {from_lane_xor(number.value, mask), from_lane_xor(number.tangent, mask)};
}

// The sum of a number over the lanes, in each lane.
template <int LANES>
struct SumOfLanes {
  template <class D>
  KOKKOS_FUNCTION D operator()(D sum) const {
    for (int offset = LANES / 2; offset > 0; offset /= 2) sum += from_lane_xor(sum, offset);
    return sum;
  }
};
template <>
struct SumOfLanes<1> {
  template <class D>
  KOKKOS_FUNCTION D operator()(D sum) const {
    return sum;
  }
};

// Each exchange halves the number of sums in a lane: 8 sums need 9 exchanges instead of 40. This is a template per
// step and not a loop, because arrays with an index that the compiler does not know would not be in registers.
template <int HALF, int OFFSET, int P, class T>
KOKKOS_FORCEINLINE_FUNCTION void exchange_halves(T (&s)[P], int lane) {
  if constexpr (HALF > 0) {
    const bool upper = lane & OFFSET;
    EQUI_UNROLL for (int k = 0; k < HALF; k++) {
      const T sent = upper ? s[k] : s[k + HALF];
      s[k] = (upper ? s[k + HALF] : s[k]) + from_lane_xor(sent, OFFSET);
    }
    exchange_halves<HALF / 2, OFFSET / 2>(s, lane);
  } else if constexpr (OFFSET > 0) {
    s[0] += from_lane_xor(s[0], OFFSET);
    exchange_halves<0, OFFSET / 2>(s, lane);
  }
}

// The exchanges for `num` sums over 32 lanes by halves of `carried` numbers, a power of two that is at least `num`.
KOKKOS_INLINE_FUNCTION constexpr int power_of_two(int num) {
  return num <= 1 ? 1 : 2 * power_of_two((num + 1) / 2);
}
KOKKOS_INLINE_FUNCTION constexpr int num_exchanges(int carried) {
  int exchanges = carried - 1;
  for (int lanes = 32 / carried; lanes > 1; lanes /= 2) exchanges++;
  return exchanges;
}
// How many of `num` sums to add first: all, or half of the power of two if the rest needs few exchanges. As 8 and 1,
// 9 sums need 14 exchanges, and together 16. As 16 and 1, 17 sums need 21, and together 31.
KOKKOS_INLINE_FUNCTION constexpr int num_sums_at_first(int num) {
  const int all = power_of_two(num), half = all / 2;
  if (half == 0 || num_exchanges(half) + num_exchanges(power_of_two(num - half)) >= num_exchanges(all)) return num;
  return half;
}

// to[k] (+)= sum of v[FIRST + k] over the lanes, FIRST + k < N; each sum has the same order in every run. All lanes
// call it together. P: a pointer to T, or Pointer<T>.
template <int LANES, int FIRST = 0, int N, class T, class P>
KOKKOS_FORCEINLINE_FUNCTION void store_lane_sums(const T (&v)[N], int lane, P to, bool add) {
  if constexpr (LANES == 1) {
    for (int k = 0; k < N; k++) put(to, k, add ? to[k] + v[k] : v[k]);
  } else {
    constexpr int NUM = num_sums_at_first(N - FIRST), M = power_of_two(NUM);
    static_assert(LANES == 32 && M <= LANES, "more sums than lanes");
    T s[M];
    EQUI_UNROLL for (int k = 0; k < M; k++) s[k] = k < NUM ? v[k < NUM ? FIRST + k : 0] : T(0);
    exchange_halves<M / 2, LANES / 2>(s, lane);
    // The index is the bits of the lane above those of the last exchanges.
    constexpr int REST = LANES / M;
    const int k = lane / REST;
    if (lane % REST == 0 && k < NUM) put(to, k, add ? to[k] + s[0] : s[0]);
    if constexpr (FIRST + NUM < N) store_lane_sums<LANES, FIRST + NUM>(v, lane, to + NUM, add);
  }
}

}    // namespace equi

#endif
