// SPDX-License-Identifier: MIT
// Matrices of float32 in three parts of bfloat16: parts, places and products on the matrix units of the machine or on
// emulated ones. test_product.cpp and the tests of layers run the products on all instruction sets.
#include "kokkos/host_kernels/packed_matrix.h"
#include "kokkos/host_kernels/split_trial.h"

#include "unittest/support/node_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

constexpr float LARGEST = std::numeric_limits<float>::max(), NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN(),
                INFINITE = std::numeric_limits<float>::infinity();

float sum_of_parts(float x) {
  BFloat16 parts[SPLIT_PARTS];
  split(x, parts);
  return (float_of(parts[2]) + float_of(parts[1])) + float_of(parts[0]);
}

TEST(SplitProducts, parts_add_up_to_a_number) {
  Random random(3);
  for (int k = 0; k < 10000; k++) {
    const float x = static_cast<float>(random() * std::exp2(10 * random()));
    ASSERT_EQ(sum_of_parts(x), x);
  }
  for (const float x : {0.0f, 1.0f, -1.0f, 1.0f + std::numeric_limits<float>::epsilon(), 0.99f * LARGEST, 1e-30f,
                        std::nextafter(2.0f, 1.0f), std::nextafter(-2.0f, -1.0f)})
    EXPECT_EQ(sum_of_parts(x), x);
}

TEST(SplitProducts, a_number_is_rounded_to_the_nearest_and_not_a_number_stays_none) {
  EXPECT_EQ(float_of(bfloat16_of(1.0f + 1.0f / 256)), 1.0f);                  // a tie to even
  EXPECT_EQ(float_of(bfloat16_of(1.0f + 3.0f / 256)), 1.0f + 1.0f / 64);      // the same
  EXPECT_EQ(float_of(bfloat16_of(1.0f + 1.01f / 256)), 1.0f + 1.0f / 128);    // above one
  for (const uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u}) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    EXPECT_TRUE(std::isnan(float_of(bfloat16_of(x)))) << bits;
  }
}

TEST(SplitProducts, each_number_has_a_place_of_its_own) {
  for (const int in : {1, 31, 32, 33, 70})
    for (const int out : {1, 16, 17, 32, 33, 48, 65}) {
      std::set<int64_t> places;
      for (int part = 0; part < SPLIT_PARTS; part++)
        for (int i = 0; i < in; i++)
          for (int j = 0; j < out; j++) {
            const int64_t place = split_place(in, out, part, i, j);
            ASSERT_TRUE(place >= 0 && place < split_size(in, out)) << in << " x " << out;
            ASSERT_TRUE(places.insert(place).second) << in << " x " << out;
          }
    }
}

// The first row of the product of rows, all numbers 1 but for the first one, with a matrix of ones.
float product_with(float first) {
  const int in = 200, out = 70;
  const Matrix ones{in, out, std::vector<double>(in * out, 1.0)};
  std::vector<float> a(3 * in, 1.0f), c(3 * out, NOT_A_NUMBER);
  a[0] = first;
  PackedMatrix<float>(ones, InstructionSet::amx).multiply(3, a.data(), c.data());
  EXPECT_EQ(c[out], in);    // other rows do not see it
  return c[out - 1];
}

TEST(SplitProducts, numbers_that_are_none_spoil_their_row_alone) {
  if (!instruction_set_available(InstructionSet::amx)) GTEST_SKIP() << "this CPU has no matrix units";
  EXPECT_EQ(product_with(2.0f), 201.0f);
  EXPECT_TRUE(std::isnan(product_with(NOT_A_NUMBER)));
  EXPECT_FALSE(std::isfinite(product_with(INFINITE)));
  EXPECT_EQ(product_with(1e-42f), 199.0f);
}

TEST(SplitProducts, a_row_depends_neither_on_the_number_of_rows_nor_on_its_place) {
  if (!instruction_set_available(InstructionSet::amx)) GTEST_SKIP() << "this CPU has no matrix units";
  const int in = 230, out = 81, rows = 37;    // more than one turn along the depth
  Random random(5);
  Matrix m{in, out, {}};
  std::vector<float> a(rows * in), all(rows * out), one(out);
  for (int k = 0; k < in * out; k++) m.data.push_back(random());
  for (float &x : a) x = static_cast<float>(random());
  const PackedMatrix<float> packed(m, InstructionSet::amx);
  ASSERT_TRUE(packed.is_split());
  packed.multiply(rows, a.data(), all.data());
  for (int i = 0; i < rows; i++) {
    packed.multiply(1, a.data() + i * in, one.data());
    ASSERT_EQ(std::memcmp(one.data(), all.data() + i * out, out * sizeof(float)), 0) << i;
  }
}

TEST(SplitProducts, a_trial_finds_them_as_right_as_others) {
  if (!instruction_set_available(InstructionSet::amx)) GTEST_SKIP() << "this CPU has no matrix units";
  const HostKernels<float> &kernels = host_kernels<float>(InstructionSet::amx);
  const SplitTrial trial = try_split_products(*kernels.split, kernels);
  EXPECT_LT(trial.error, trial.plain_error);
  EXPECT_GT(trial.error, 0.0);
  EXPECT_GT(trial.seconds, 0.0);
  SplitKernels wrong = *kernels.split;
  wrong.product = [](const ProductCall<float, BFloat16> &) {};
  EXPECT_FALSE(try_split_products(wrong, kernels).pays());
}

}    // namespace
