// SPDX-License-Identifier: MIT
// Dense products with packed matrices compared with a plain triple loop in float64, on each instruction set of the
// machine.
#include "kokkos/host_kernels/packed_matrix.h"

#include "unittest/support/node_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// Sizes around those of registers and panels, and sizes of models.
constexpr int INNER[] = {0, 1, 3, 8, 13, 64, 129}, COLUMNS[] = {1, 5, 8, 13, 16, 17, 33, 48, 49, 64, 96, 130};
constexpr int ROWS[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 31};
constexpr int MOST_ROWS = 31;

Matrix random_matrix(Random &random, int rows, int cols) {
  Matrix m{rows, cols, {}};
  for (int k = 0; k < rows * cols; k++) m.data.push_back(random());
  return m;
}

// MOST_ROWS rows at this distance; NaN is between them.
template <class R>
std::vector<R> strided_rows(Random &random, int width, int stride) {
  std::vector<R> rows(static_cast<size_t>(MOST_ROWS) * stride, std::numeric_limits<R>::quiet_NaN());
  for (int i = 0; i < MOST_ROWS; i++)
    for (int k = 0; k < width; k++) rows[static_cast<size_t>(i) * stride + k] = static_cast<R>(random());
  return rows;
}

template <class R>
bool same_bits(const R *a, const R *b, size_t n) {
  return std::memcmp(a, b, n * sizeof(R)) == 0;
}

// f(set, matrix, packed, rows of a and their stride)
template <class R, class F>
void for_products(const F &f) {
  Random random(7);
  for (const InstructionSet set : INSTRUCTION_SETS) {
    if (!instruction_set_available(set)) continue;
    for (const int in : INNER)
      for (const int out : COLUMNS)
        for (const int apart : {0, 3}) {
          SCOPED_TRACE(std::string(instruction_set_name(set)) + " " + std::to_string(in) + " x " + std::to_string(out) +
                       ", rows apart " + std::to_string(apart));
          const Matrix m = random_matrix(random, in, out);
          f(m, PackedMatrix<R>(m, set), strided_rows<R>(random, in, in + apart), apart);
        }
  }
}

template <class R>
class ProductTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ProductTest, Types);

TYPED_TEST(ProductTest, equals_a_triple_loop_and_writes_nothing_else) {
  using R = TypeParam;
  Random random(8);
  for_products<R>([&](const Matrix &m, const PackedMatrix<R> &packed, const std::vector<R> &a, int apart) {
    const int a_stride = m.rows + apart, c_stride = m.cols + 2 * apart;
    for (const bool add : {false, true}) {
      const std::vector<R> before = strided_rows<R>(random, m.cols, c_stride);
      for (const int rows : ROWS) {
        std::vector<R> c = before;
        if (!add)    // the output must not be read
          for (int i = 0; i < rows; i++)
            std::fill_n(c.begin() + i * c_stride, m.cols, std::numeric_limits<R>::quiet_NaN());
        packed.multiply(rows, a.data(), c.data(), add, apart > 0 ? a_stride : 0, apart > 0 ? c_stride : 0);
        for (int i = 0; i < rows; i++)
          for (int j = 0; j < m.cols; j++) {
            double sum = add ? static_cast<double>(before[i * c_stride + j]) : 0.0, size = std::abs(sum) + 1.0;
            for (int k = 0; k < m.rows; k++) {
              const double term = static_cast<double>(a[i * a_stride + k]) * m(k, j);
              sum += term;
              size += std::abs(term);
            }
            // Roundings of each term: at most those of its product, its sum and its factor.
            ASSERT_NEAR(static_cast<double>(c[i * c_stride + j]), sum,
                        2 * std::numeric_limits<R>::epsilon() * size * std::sqrt(m.rows + 4.0))
                << rows << " rows, " << i << ", " << j << (add ? ", added" : "");
          }
        for (int i = 0; i < MOST_ROWS; i++)
          for (int j = i < rows ? m.cols : 0; j < c_stride; j++)
            ASSERT_TRUE(same_bits(&c[i * c_stride + j], &before[i * c_stride + j], 1)) << rows << " rows, " << i;
      }
    }
  });
}

TYPED_TEST(ProductTest, a_row_depends_neither_on_the_number_of_rows_nor_on_its_place) {
  using R = TypeParam;
  for_products<R>([](const Matrix &m, const PackedMatrix<R> &packed, const std::vector<R> &a, int apart) {
    const int a_stride = m.rows + apart;
    std::vector<R> all(static_cast<size_t>(MOST_ROWS) * m.cols), one(m.cols), some(all.size());
    packed.multiply(MOST_ROWS, a.data(), all.data(), false, apart > 0 ? a_stride : 0);
    for (int i = 0; i < MOST_ROWS; i++) {
      packed.multiply(1, a.data() + i * a_stride, one.data());
      ASSERT_TRUE(same_bits(one.data(), all.data() + i * m.cols, m.cols)) << i;
      packed.multiply(MOST_ROWS - i, a.data() + i * a_stride, some.data(), false, apart > 0 ? a_stride : 0);
      ASSERT_TRUE(same_bits(some.data(), all.data() + i * m.cols, static_cast<size_t>(MOST_ROWS - i) * m.cols)) << i;
    }
  });
}

TYPED_TEST(ProductTest, a_packed_matrix_can_be_read_again) {
  using R = TypeParam;
  for_products<R>([](const Matrix &m, const PackedMatrix<R> &packed, const std::vector<R> &, int) {
    const std::vector<R> rows = packed.row_by_row(), wanted(m.data.begin(), m.data.end());
    ASSERT_EQ(rows, wanted);
  });
}

}    // namespace
