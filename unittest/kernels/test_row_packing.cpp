// SPDX-License-Identifier: MIT
// Rows of features packed into messages and unpacked by threads of the default execution space, compared with loops
// over atoms in order.
#include "kokkos/lammps/row_packing.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

using namespace equi;

// A feature of odd pieces; images of owned atoms (rows 0..4) and copies of remote ones (5..11) among the atoms, and
// atoms without a row.
template <class T>
class Problem {
 public:
  static constexpr int ROWS = 12;
  const std::vector<int> width = {5, 33, 39, 1, 64};
  const std::vector<int> row_of_atom = {0, 3, -1, 4, 1, 2, 5, 7, 0, 6, 7, 5, -1, 11, 3, 9, 5};

  explicit Problem(int seed) : data_(width.size()) {
    std::mt19937 random(seed);
    std::normal_distribution<T> normal;
    for (size_t p = 0; p < width.size(); p++) {
      data_[p].resize(ROWS * width[p]);
      for (T &x : data_[p]) x = normal(random);
    }
    for (int w : width) row_size_ += w;
    buffer_.resize(row_of_atom.size() * stride());
    for (T &x : buffer_) x = normal(random);
  }
  int stride() const { return row_size_ + 1; }    // as if floats filled whole doubles
  T *buffer() { return buffer_.data(); }
  // f(rows, buffer) with all of it in the memory of the execution space.
  template <class F>
  void on_device(const F &f) {
    const DeviceExec exec;
    std::vector<DeviceBuffer<T>> data(width.size());
    DeviceBuffer<T> buffer;
    DeviceBuffer<int> row;
    PackedRows<T> rows;
    for (size_t p = 0; p < width.size(); p++) {
      assign(exec, data[p], data_[p]);
      rows.add({data[p].data(), width[p]});
    }
    assign(exec, buffer, buffer_);
    assign(exec, row, row_of_atom);
    rows.stride = stride();
    rows.row_of_atom = row.data();
    f(rows, buffer.data());
    for (size_t p = 0; p < width.size(); p++)
      copy_to_host(exec, data_[p].data(), data[p].data(), static_cast<int64_t>(data_[p].size()));
    copy_to_host(exec, buffer_.data(), buffer.data(), static_cast<int64_t>(buffer_.size()));
  }
  // f(row or -1, number of the row, number of the buffer) for the columns of the k-th of some atoms.
  template <class F>
  void for_each(const std::vector<int> &atoms, const F &f) {
    for (size_t k = 0; k < atoms.size(); k++) {
      T *b = buffer() + k * stride();
      const int row = row_of_atom[atoms[k]];
      for (size_t p = 0; p < width.size(); p++)
        for (int c = 0; c < width[p]; c++, b++) f(row, row < 0 ? nullptr : &data_[p][row * width[p] + c], b);
    }
  }
  bool operator==(const Problem &other) const { return data_ == other.data_ && buffer_ == other.buffer_; }

 private:
  std::vector<std::vector<T>> data_;
  std::vector<T> buffer_;
  int row_size_ = 0;
};

template <class T>
class RowPacking : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(RowPacking, Types);

const std::vector<int> ATOMS = {16, 0, 2, 13, 5, 9, 14, 4, 12};    // two without a row

// The effect of a function of messages on a feature and a buffer equals that of f on each number, and is not empty.
template <class T, class Pack, class F>
void expect_as(int seed, const Pack &pack, const F &f) {
  DeviceBuffer<int> atoms;
  assign(DeviceExec(), atoms, ATOMS);
  Problem<T> a(seed), b(seed);
  const Problem<T> before = a;
  a.on_device([&](const auto &rows, T *buffer) {
    pack(DeviceExec(), static_cast<int>(ATOMS.size()), atoms.data(), rows, buffer);
    DeviceExec().fence("test: the message is done");
  });
  b.for_each(ATOMS, f);
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == before);
}

TYPED_TEST(RowPacking, forward_sends_rows_and_fills_them) {
  using T = TypeParam;
  expect_as<T>(
      1, [](auto... a) { pack_forward_rows(a...); }, [](int row, T *x, T *buffer) { *buffer = row < 0 ? T(0) : *x; });
  expect_as<T>(
      2, [](auto... a) { unpack_forward_rows(a...); },
      [](int row, T *x, T *buffer) {
        if (row >= 0) *x = *buffer;
      });
}

TYPED_TEST(RowPacking, reverse_takes_sums_and_adds_them) {
  using T = TypeParam;
  expect_as<T>(
      3, [](auto... a) { pack_reverse_rows(a...); },
      [](int row, T *x, T *buffer) {
        *buffer = row < 0 ? T(0) : *x;
        if (row >= 0) *x = T(0);
      });
  expect_as<T>(
      4, [](auto... a) { unpack_reverse_rows(a...); },
      [](int row, T *x, T *buffer) {
        if (row >= 0) *x += *buffer;
      });
}

TYPED_TEST(RowPacking, an_empty_message_changes_nothing) {
  using T = TypeParam;
  Problem<T> a(5), b(5);
  const DeviceExec exec;
  a.on_device([&](const auto &rows, T *buffer) {
    pack_forward_rows(exec, 0, rows.row_of_atom, rows, buffer);
    unpack_forward_rows(exec, 0, rows.row_of_atom, rows, buffer);
    pack_reverse_rows(exec, 0, rows.row_of_atom, rows, buffer);
    unpack_reverse_rows(exec, 0, rows.row_of_atom, rows, buffer);
  });
  EXPECT_TRUE(a == b);
}

}    // namespace
