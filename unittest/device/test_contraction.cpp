// SPDX-License-Identifier: MIT
// Symmetric contractions on a device, with generated kernels and with the generic one, compared with the double loops
// of ContractionProduct.
#include "kokkos/layers/contraction/device_contraction.h"
#include "unittest/support/contraction_problem.h"

#include <gtest/gtest.h>

namespace {

using namespace equi;
using namespace equi::testing;

template <class T>
class DeviceContractionTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DeviceContractionTest, Types);

// Rows in device memory: values come from PackedRows and return to it.
template <class T>
class DeviceRows {
 public:
  DeviceRows(const DeviceExec &exec, PackedRows<T> &host)
      : exec_(exec), host_(host), size_(host.rows().rows * host.layout().row_size()) {
    copy_to_device(exec_, data_.reserve(size_), host_.rows().data, size_);
  }
  FeatureRows<T> rows() { return {data_.data(), host_.rows().rows, host_.rows().first}; }
  void fetch() { copy_to_host(exec_, host_.rows().data, data_.data(), size_); }

 private:
  const DeviceExec &exec_;
  PackedRows<T> &host_;
  int64_t size_;
  DeviceBuffer<T> data_;
};

// f(contraction, species of rows, what), generic and generated.
template <class T, class F>
void for_kernels(const DeviceExec &exec, const ContractionCase &c, const F &f) {
  DeviceBuffer<int> numbers;
  assign(exec, numbers, std::vector<int>(std::begin(SPECIES), std::end(SPECIES)));
  const SpeciesOrder species{nullptr, nullptr, numbers.data(), NUM_ROWS};
  const ContractionConstants<T> constants(c.product, {FeatureLayout(c.product.irreps_in)},
                                          FeatureLayout(c.product.irreps_out), NUM_SPECIES, c.form);
  using Contraction = DeviceContraction<T>;
  const auto none = [](const std::string &) -> const DeviceContractionKernel<T> * { return nullptr; };
  f(Contraction(exec, constants, none), species, c.name + ", generic");
  const Contraction generated(exec, constants);
  ASSERT_EQ(generated.is_generic(), !c.in_build) << c.name;
  if (!generated.is_generic()) f(generated, species, c.name + ", generated");
}

TYPED_TEST(DeviceContractionTest, forward_equals_plain_loops) {
  using T = TypeParam;
  const DeviceExec exec;
  for (const ContractionCase &c : contraction_cases()) {
    const Rows expected = c.forward();
    for_kernels<T>(exec, c, [&](const auto &contraction, const SpeciesOrder &species, const std::string &what) {
      PackedRows<T> x(c.product.irreps_in, c.x), y(c.product.irreps_out, size_t(NUM_ROWS));
      DeviceRows<T> dx(exec, x), dy(exec, y);
      contraction.forward(exec, {dx.rows()}, dy.rows(), species, nullptr, 0);
      dx.fetch();
      dy.fetch();
      expect_near(y.values(), expected, 30 * ROUNDING<T>, what);
      EXPECT_EQ(y.padding(), 0.0) << what;
      expect_near(x.values(), PackedRows<T>(c.product.irreps_in, c.x).values(), 0.0, what + ", input");
    });
  }
}

TYPED_TEST(DeviceContractionTest, backward_equals_plain_loops) {
  using T = TypeParam;
  const DeviceExec exec;
  for (const ContractionCase &c : contraction_cases()) {
    const Rows expected = c.backward();
    for_kernels<T>(exec, c, [&](const auto &contraction, const SpeciesOrder &species, const std::string &what) {
      PackedRows<T> x(c.product.irreps_in, c.x), g(c.product.irreps_out, c.g);
      DeviceRows<T> dx(exec, x), dg(exec, g);
      contraction.backward(exec, {dx.rows()}, dg.rows(), species, nullptr, 0);
      dx.fetch();
      expect_near(x.values(), expected, 100 * ROUNDING<T>, what);
      EXPECT_EQ(x.padding(), 0.0) << what;
    });
  }
}

// The first block from one feature, the others from another.
TYPED_TEST(DeviceContractionTest, reads_two_features_as_one) {
  using T = TypeParam;
  const DeviceExec exec;
  DeviceBuffer<int> numbers;
  assign(exec, numbers, std::vector<int>(std::begin(SPECIES), std::end(SPECIES)));
  const SpeciesOrder species{nullptr, nullptr, numbers.data(), NUM_ROWS};
  using Contraction = DeviceContraction<T>;
  const auto none = [](const std::string &) -> const DeviceContractionKernel<T> * { return nullptr; };
  for (const ContractionCase &c : contraction_cases()) {
    if (c.product.irreps_in.size() == 1) continue;
    const TwoFeatures x(c.product.irreps_in, c.x), expected(c.product.irreps_in, c.backward());
    const ContractionConstants<T> constants(c.product, {FeatureLayout(x.irreps[0]), FeatureLayout(x.irreps[1])},
                                            FeatureLayout(c.product.irreps_out), NUM_SPECIES, c.form);
    for (const Contraction &contraction : {Contraction(exec, constants, none), Contraction(exec, constants)}) {
      PackedRows<T> first(x.irreps[0], x.rows[0]), second(x.irreps[1], x.rows[1]);
      PackedRows<T> y(c.product.irreps_out, size_t(NUM_ROWS)), g(c.product.irreps_out, c.g);
      DeviceRows<T> d_first(exec, first), d_second(exec, second), dy(exec, y), dg(exec, g);
      contraction.forward(exec, {d_first.rows(), d_second.rows()}, dy.rows(), species, nullptr, 0);
      dy.fetch();
      expect_near(y.values(), c.forward(), 30 * ROUNDING<T>, c.name);
      contraction.backward(exec, {d_first.rows(), d_second.rows()}, dg.rows(), species, nullptr, 0);
      d_first.fetch();
      d_second.fetch();
      expect_near(first.values(), expected.rows[0], 100 * ROUNDING<T>, c.name);
      expect_near(second.values(), expected.rows[1], 100 * ROUNDING<T>, c.name);
    }
  }
}

}    // namespace
