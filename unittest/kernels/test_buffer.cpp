// SPDX-License-Identifier: MIT
// Memory that grows and never shrinks and, in debug builds, shows reads before the first write.
#include "kokkos/runtime/buffer.h"
#include "kokkos/runtime/device_exec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace {

using namespace equi;
using HostBuffer = DeviceBuffer<double, Kokkos::DefaultHostExecutionSpace>;

template <class B>
class BufferTest : public ::testing::Test {
 public:
  B buffer;
};
using Buffers = ::testing::Types<Buffer<double>, HostBuffer>;
TYPED_TEST_SUITE(BufferTest, Buffers);

TYPED_TEST(BufferTest, grows_by_what_it_tells_and_never_shrinks) {
  auto &buffer = this->buffer;
  EXPECT_EQ(buffer.bytes(), 0u);
  std::size_t bytes = 0;
  for (int n : {1, 100, 7, 100, 1000}) {
    bytes += buffer.additional_bytes(n);
    const double *numbers = buffer.reserve(n);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_GE(buffer.bytes(), n * sizeof(double));
    EXPECT_EQ(buffer.data(), numbers);
    EXPECT_EQ(buffer.additional_bytes(n), 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers) % alignof(double), 0u);
  }
}

#ifdef EQUI_DEBUG

TYPED_TEST(BufferTest, is_nan_whenever_it_is_handed_out) {
  for (int n : {10, 1000, 10}) {
    double *numbers = this->buffer.reserve(n);
    for (int k = 0; k < n; k++) {
      EXPECT_TRUE(std::isnan(numbers[k])) << "number " << k << " of " << n;
      numbers[k] = 1.0;
    }
  }
}

TEST(DeviceBuffer, keeps_its_numbers_while_launches_are_recorded) {
  HostBuffer buffer;
  buffer.reserve(10)[9] = 1.0;
  const RecordingLaunches recording;
  EXPECT_EQ(buffer.reserve(10)[9], 1.0);
}

#endif
#ifdef EQUI_SANITIZE

TYPED_TEST(BufferTest, spares_nothing_that_may_be_touched) {
  for (int n : {1000, 10, 500}) {
    const double *numbers = this->buffer.reserve(n);
    EXPECT_FALSE(__asan_address_is_poisoned(numbers + n - 1));
    if (this->buffer.bytes() > n * sizeof(double)) {
      EXPECT_TRUE(__asan_address_is_poisoned(numbers + n)) << n;
    }
  }
}

TEST(DeviceBuffer, hands_out_what_it_has_to_spare_while_launches_are_recorded) {
  HostBuffer buffer;
  buffer.reserve(100);
  buffer.reserve(10);
  const RecordingLaunches recording;
  const double *numbers = buffer.reserve(20);
  EXPECT_FALSE(__asan_address_is_poisoned(numbers + 19));
  EXPECT_TRUE(__asan_address_is_poisoned(numbers + 20));
}

#endif

}    // namespace
