// SPDX-License-Identifier: MIT
// Dense products on a device compared with sums in float64: shapes for tensor cores and others, transposed, added, of
// planes, and in concurrent branches.
#include "kokkos/device_kernels/device_dense.h"
#include "unittest/support/random_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace equi;
using equi::testing::random_numbers;

// relative, in the mean square
constexpr double BAR_OF_TF32 = 1e-3;
template <class T>
constexpr double BAR = sizeof(T) == sizeof(float) ? 2e-6 : 1e-14;    // relative, in the mean square

template <class T>
std::vector<T> random_vector(int64_t size, unsigned seed) {
  const std::vector<double> numbers = random_numbers(static_cast<int>(size), seed);
  return {numbers.begin(), numbers.end()};
}

template <class T>
std::vector<T> to_host(const DeviceExec &exec, const DeviceBuffer<T> &buffer, int64_t size) {
  std::vector<T> numbers(size);
  copy_to_host(exec, numbers.data(), buffer.data(), size);
  return numbers;
}

// A product of planes that lie in rows of a_stride and c_stride numbers. before: numbers in front of A and of C.
struct Shape {
  int64_t m;
  int n, k;
  DensePlanes planes;
  int before = 0;
  static Shape plain(int64_t m, int n, int k, int before = 0) { return {m, n, k, {1, k, n}, before}; }
  std::string name() const {
    return std::to_string(m) + " x " + std::to_string(k) + " to " + std::to_string(n) + ", planes " +
           std::to_string(planes.count) + ", behind " + std::to_string(before);
  }
};

const std::vector<Shape> SHAPES = {
    Shape::plain(1, 16, 16),    Shape::plain(1, 1, 1),        Shape::plain(37, 5, 13),     Shape::plain(64, 224, 224),
    Shape::plain(300, 32, 352), Shape::plain(3001, 64, 384),  Shape::plain(9000, 128, 64), Shape::plain(3200, 352, 32),
    Shape::plain(129, 33, 5),   Shape::plain(200, 48, 36),    Shape::plain(2000, 64, 20),  Shape::plain(64, 32, 32, 1),
    {50, 16, 32, {3, 128, 64}}, {700, 20, 8, {2, 16, 40}, 4},
};

template <class T>
class DeviceDenseTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(DeviceDenseTest, Types);

TYPED_TEST(DeviceDenseTest, products_are_those_of_float64) {
  using T = TypeParam;
  const DeviceExec exec;
  const DeviceDense dense(exec);
  for (const Shape &s : SHAPES)
    for (const int options : {0, 1, 2, 3}) {
      const bool transpose = options & 1, add = options & 2;
      const std::string what = s.name() + (transpose ? ", transposed" : "") + (add ? ", added" : "");
      const int64_t a_size = s.before + s.m * s.planes.a_stride, c_size = s.before + s.m * s.planes.c_stride;
      const std::vector<T> a = random_vector<T>(a_size, 1), b = random_vector<T>(s.n * s.k, 2),
                           c = random_vector<T>(c_size, 3);
      DeviceBuffer<T> on_a, on_b, on_c, on_again;
      assign(exec, on_a, a);
      assign(exec, on_b, b);
      const bool is_plain = s.planes.count == 1;
      const auto multiply = [&](DeviceBuffer<T> &to) {
        assign(exec, to, c);
        device_gemm(exec, transpose, s.m, s.n, s.k, on_a.data() + s.before, on_b.data(), add, to.data() + s.before,
                    is_plain ? nullptr : &s.planes);
        return to_host(exec, to, c_size);
      };
      const std::vector<T> found = multiply(on_c);
      EXPECT_EQ(found, multiply(on_again)) << what;
      double error = 0.0, size = 0.0;
      std::vector<int64_t> rows{s.m - 1};    // some of them
      for (int64_t r = 0; r < s.m - 1; r += 1 + s.m / 50) rows.push_back(r);
      for (const int64_t r : rows)
        for (int p = 0; p < s.planes.count; ++p)
          for (int j = 0; j < s.n; ++j) {
            const int64_t at = s.before + r * s.planes.c_stride + p * s.n + j;
            double sum = add ? static_cast<double>(c[at]) : 0.0;
            for (int i = 0; i < s.k; ++i)
              sum += static_cast<double>(a[s.before + r * s.planes.a_stride + p * s.k + i]) *
                     static_cast<double>(transpose ? b[j * s.k + i] : b[i * s.n + j]);
            error += std::pow(static_cast<double>(found[at]) - sum, 2);
            size += sum * sum;
          }
      EXPECT_LE(std::sqrt(error), BAR<T> * std::sqrt(size)) << what;
      // Nothing is written before C, or between its planes and the next row.
      for (int64_t at = 0; at < c_size; ++at) {
        const int64_t column = at < s.before ? s.planes.c_stride : (at - s.before) % s.planes.c_stride;
        if (column >= s.planes.count * s.n) {
          ASSERT_EQ(found[at], c[at]) << what << " at " << at;
        }
      }
    }
}

// Products may round their operands to TF32 if they are allowed to, and no others do.
TEST(DeviceDense, tf32_is_only_where_it_is_allowed) {
  constexpr int M = 100, N = 64, K = 96;
  const DeviceExec exec;
  const DeviceDense dense(exec);
  const std::vector<float> a = random_vector<float>(M * K, 4), b = random_vector<float>(K * N, 5);
  DeviceBuffer<float> on_a, on_b, on_c;
  assign(exec, on_a, a);
  assign(exec, on_b, b);
  const auto error = [&](bool tf32) {
    device_gemm(exec, false, M, N, K, on_a.data(), on_b.data(), false, on_c.reserve(M * N), nullptr, 0, tf32);
    const std::vector<float> found = to_host(exec, on_c, M * N);
    double difference = 0.0, square = 0.0;
    for (int i = 0; i < M; ++i)
      for (int j = 0; j < N; ++j) {
        double sum = 0.0;
        for (int l = 0; l < K; ++l) sum += static_cast<double>(a[i * K + l]) * static_cast<double>(b[l * N + j]);
        difference += std::pow(static_cast<double>(found[i * N + j]) - sum, 2);
        square += sum * sum;
      }
    return std::sqrt(difference / square);
  };
  EXPECT_LT(error(false), BAR<float>);
  const double rounded = error(true);
  EXPECT_LT(rounded, BAR_OF_TF32);
  if (!DeviceTraits<>::ON_HOST) {
    EXPECT_GT(rounded, 10.0 * BAR<float>);
  }
  EXPECT_LT(error(false), BAR<float>);
}

// Tensor cores round towards 0.
TYPED_TEST(DeviceDenseTest, products_are_not_too_small) {
  using T = TypeParam;
  constexpr double BAR_OF_MEAN = sizeof(T) == sizeof(float) ? 8e-8 : 1e-15;
  constexpr int ROWS = 256;    // rows that are compared
  // Rows, columns and terms. The numbers of rows are for the blocks of tensor cores.
  constexpr int SIZES[][3] = {{512, 64, 16},  {512, 64, 32},  {512, 64, 64},   {512, 64, 128},
                              {512, 64, 384}, {5000, 64, 64}, {20000, 64, 64}, {40000, 32, 64}};
  const DeviceExec exec;
  const DeviceDense dense(exec);
  for (const auto &[m, n, k] : SIZES) {
    const std::vector<T> a = random_vector<T>(m * k, 6), b = random_vector<T>(k * n, 7);
    DeviceBuffer<T> on_a, on_b, on_c;
    assign(exec, on_a, a);
    assign(exec, on_b, b);
    device_gemm(exec, false, m, n, k, on_a.data(), on_b.data(), false, on_c.reserve(m * n));
    const std::vector<T> found = to_host(exec, on_c, m * n);
    double difference = 0.0, square = 0.0;
    for (int i = 0; i < m; i += m / ROWS)
      for (int j = 0; j < n; ++j) {
        double sum = 0.0;
        for (int l = 0; l < k; ++l) sum += static_cast<double>(a[i * k + l]) * static_cast<double>(b[l * n + j]);
        difference += (static_cast<double>(found[i * n + j]) - sum) * sum;
        square += sum * sum;
      }
    EXPECT_LE(std::fabs(difference), BAR_OF_MEAN * square) << m << " x " << n << " x " << k;
  }
}

TYPED_TEST(DeviceDenseTest, branches_change_nothing) {
  using T = TypeParam;
  constexpr int NUM = 6, M = 500, N = 32, K = 64;
  const DeviceExec exec;
  const DeviceDense dense(exec);
  DeviceBuffer<T> a, b, c;
  assign(exec, a, random_vector<T>(NUM * M * K, 4));
  assign(exec, b, random_vector<T>(NUM * K * N, 5));
  c.reserve(NUM * M * N);
  const auto products = [&] {
    for (const bool add : {false, true})
      for (int p = 0; p < NUM; ++p)
        device_gemm(exec, false, M, N, K, a.data() + p * M * K, b.data() + p * K * N, add, c.data() + p * M * N,
                    nullptr, p);
  };
  products();
  const std::vector<T> expected = to_host(exec, c, NUM * M * N);
  device_zero(exec, c.data(), NUM * M * N);
  {
    const DenseBranches branches(exec);
    products();
  }
  EXPECT_EQ(to_host(exec, c, NUM * M * N), expected);
}

}    // namespace
