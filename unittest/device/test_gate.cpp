// SPDX-License-Identifier: MIT
// Gates on a device for exponentials that leave the range of float32 and float64, of plain numbers and of duals.
#include "kokkos/layers/gate/device_gate.h"
#include "unittest/support/extreme_rows.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace equi;
using namespace equi::testing;

template <class T>
class DeviceGateTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, Dual<float>, Dual<double>>;
TYPED_TEST_SUITE(DeviceGateTest, Types);

TYPED_TEST(DeviceGateTest, gates_have_their_digits) {
  using T = TypeParam;
  using R = Real<T>;
  const DeviceExec exec;
  for (const Activation a : EXTREME_ACTIVATIONS) {
    const DeviceGate<T> gate(gate_of_scalars<T>(a));
    DeviceBuffer<R> x, y;
    expect_gate_has_its_digits<T>(a, activation_name(a), [&](auto &host_x, auto &host_y, bool is_forward) {
      const auto send = [&](DeviceBuffer<R> &to, const AlignedVector<R> &from) {
        const auto size = static_cast<int64_t>(from.size());
        copy_to_device(exec, to.reserve(size), from.data(), size);
      };
      send(x, host_x);
      send(y, host_y);
      const FeatureRows<R> x_rows{x.data(), 1, 0}, y_rows{y.data(), 1, 0};
      if (is_forward)
        gate.forward(exec, 1, x_rows, y_rows, 0);
      else
        gate.backward(exec, 1, x_rows, y_rows, 0);
      AlignedVector<R> &changed = is_forward ? host_y : host_x;
      copy_to_host(exec, changed.data(), (is_forward ? y : x).data(), static_cast<int64_t>(changed.size()));
    });
  }
}

}    // namespace
