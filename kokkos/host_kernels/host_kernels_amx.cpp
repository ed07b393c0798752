// SPDX-License-Identifier: MIT
// Products by the matrix units of AMX (tiles and bfloat16).
#include "kokkos/host_kernels/host_split_impl.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace equi {
namespace isa_amx {

namespace {

struct Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Names of tiles are parts of the instructions.
struct Tiles {
  static void begin() {
    alignas(64) Configuration c;
    for (int k = 0; k < 8; k++) {
      c.row_bytes[k] = 64;
      c.rows[k] = 16;
    }
    asm volatile("ldtilecfg %0" ::"m"(c));
  }
  static void end() { asm volatile("tilerelease"); }
  template <int T>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  static void load(const void *from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <int T>
  static void store(void *to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  template <int C, int A, int B>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

bool cpu_has_units() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return false;    // the system enables states of registers
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if (!(d >> 22 & 1) || !(d >> 24 & 1)) return false;    // AMX-BF16, AMX-TILE
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;    // configuration and data of tiles
}

// Linux gives a process the state of tiles when it asks.
bool is_available() {
  static const bool available = [] {
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    return cpu_has_units() && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
  }();
  return available;
}

}    // namespace

extern const SplitKernels SPLIT_KERNELS;
// By count, splitting a number takes as long as what about 64 columns save.
const SplitKernels SPLIT_KERNELS = {is_available, TILE_DEPTH, 64, SplitProducts<Tiles>::product,
                                    SplitProducts<Tiles>::so2_product};

}    // namespace isa_amx
}    // namespace equi
