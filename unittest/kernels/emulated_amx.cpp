// SPDX-License-Identifier: MIT
// Products by matrix units on a CPU without any: the text of those of AMX with tiles in plain C++. A program that
// contains it has the instruction set amx, and all matrices are split.
#include "kokkos/host_kernels/host_split_impl.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace equi {
namespace isa_amx {

namespace {

constexpr int TILE_ROWS = 16, TILE_BYTES = 64, NUM_TILES = 8;

class Tiles {
 public:
  static void begin() { is_configured_ = true; }
  static void end() { is_configured_ = false; }
  template <int T>
  static void zero() {
    std::memset(tile<T>(), 0, sizeof tiles_[T]);
  }
  template <int T>
  static void load(const void *from, int64_t stride) {
    for (int row = 0; row < TILE_ROWS; row++)
      std::memcpy(tile<T>()[row], static_cast<const char *>(from) + row * stride, TILE_BYTES);
  }
  template <int T>
  static void store(void *to, int64_t stride) {
    for (int row = 0; row < TILE_ROWS; row++)
      std::memcpy(static_cast<char *>(to) + row * stride, tile<T>()[row], TILE_BYTES);
  }
  // TDPBF16PS of Intel's manual: the products of even and of odd places are summed apart. Subnormal numbers count as
  // zero, and results that are subnormal become zero.
  template <int C, int A, int B>
  static void multiply() {
    for (int m = 0; m < TILE_ROWS; m++) {
      BFloat16 a[TILE_DEPTH];
      std::memcpy(a, tile<A>()[m], sizeof a);
      for (int n = 0; n < TILE_COLUMNS; n++) {
        float sums[2] = {0.0f, 0.0f};
        for (int k = 0; k < TILE_DEPTH; k++) {
          BFloat16 b;
          std::memcpy(&b, tile<B>()[k / 2] + (2 * n + k % 2) * sizeof b, sizeof b);
          float &sum = sums[k % 2];
          sum = normal(std::fma(normal(float_of(a[k])), normal(float_of(b)), sum));
        }
        float c;
        std::memcpy(&c, tile<C>()[m] + n * sizeof c, sizeof c);
        c = normal(c + normal(sums[0] + sums[1]));
        std::memcpy(tile<C>()[m] + n * sizeof c, &c, sizeof c);
      }
    }
  }

 private:
  static float normal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
  template <int T>
  static char (*tile())[TILE_BYTES] {
    static_assert(T < NUM_TILES);
    if (!is_configured_) __builtin_trap();
    return tiles_[T];
  }

  static thread_local bool is_configured_;
  static thread_local char tiles_[NUM_TILES][TILE_ROWS][TILE_BYTES];
};

thread_local bool Tiles::is_configured_ = false;
thread_local char Tiles::tiles_[NUM_TILES][TILE_ROWS][TILE_BYTES];

bool is_available() {
  return true;
}

}    // namespace

extern const SplitKernels SPLIT_KERNELS;
const SplitKernels SPLIT_KERNELS = {is_available, 1, 1, SplitProducts<Tiles>::product,
                                    SplitProducts<Tiles>::so2_product};

}    // namespace isa_amx
}    // namespace equi
