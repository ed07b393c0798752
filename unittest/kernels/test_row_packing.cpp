// SPDX-License-Identifier: MIT
// Rows of features into messages and back by threads of the default execution space, against loops over atoms in order.
#include "kokkos/lammps/row_packing.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

using namespace equi;

// A feature of odd pieces, rows 0..4 owned, 5..11 remote; images of owned atoms and copies of remote ones among the
// atoms, and atoms without a row.
template <class T>
class Problem {
 public:
  static constexpr int ROWS = 12, OWNED = 5;
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
  int stride() const { return row_size_ + 1; }    // as where floats fill whole doubles
  T *buffer() { return buffer_.data(); }
  // f(rows, buffer, rows of atoms) with all of it in the memory of the execution space.
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
    rows.num_owned = OWNED;
    rows.stride = stride();
    rows.row_of_atom = row.data();
    f(rows, buffer.data(), row.data());
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

const std::vector<int> LIST = {16, 0, 2, 8, 5, 6, 0, 14};    // an atom twice, one without a row, images
const std::vector<int> RANGE = {5, 6, 7, 8, 9, 10, 11, 12, 13};
constexpr int NUM_LISTED = 8, NUM_IN_RANGE = 9;

TYPED_TEST(RowPacking, forward_sends_rows_and_fills_remote_ones) {
  using T = TypeParam;
  DeviceBuffer<int> list;
  assign(DeviceExec(), list, LIST);
  Problem<T> a(1), b(1);
  a.on_device([&](const auto &rows, T *buffer, const int *) {
    pack_forward_rows(DeviceExec(), NUM_LISTED, list.data(), rows, buffer);
  });
  b.for_each(LIST, [](int row, T *x, T *buffer) { *buffer = row < 0 ? T(0) : *x; });
  EXPECT_TRUE(a == b);
  // Copies of an atom receive the same numbers.
  Problem<T> c(2), d(2);
  for (Problem<T> *p : {&c, &d})
    p->for_each(RANGE, [&](int row, T *x, T *buffer) { *buffer = row < 0 ? T(0) : 2 * *x; });
  c.on_device([&](const auto &rows, T *buffer, const int *) {
    unpack_forward_rows(DeviceExec(), NUM_IN_RANGE, RANGE[0], rows, buffer);
  });
  const Problem<T> before = d;
  d.for_each(RANGE, [](int row, T *x, T *buffer) {
    if (row >= Problem<T>::OWNED) *x = *buffer;
  });
  EXPECT_TRUE(c == d);
  EXPECT_FALSE(c == before);
}

TYPED_TEST(RowPacking, reverse_takes_each_sum_once_and_adds_in_order) {
  using T = TypeParam;
  DeviceBuffer<int> list;
  assign(DeviceExec(), list, LIST);
  Problem<T> a(3), b(3);
  a.on_device([&](const auto &rows, T *buffer, const int *row_of_atom) {
    const RowGroups<DeviceExec> groups(DeviceExec(), NUM_IN_RANGE, nullptr, RANGE[0], row_of_atom);
    pack_reverse_rows(DeviceExec(), NUM_IN_RANGE, RANGE[0], groups, rows, buffer);
    DeviceExec().fence("test: messages are packed");
  });
  b.for_each(RANGE, [](int row, T *x, T *buffer) {
    *buffer = row >= Problem<T>::OWNED ? *x : T(0);
    if (row >= Problem<T>::OWNED) *x = T(0);
  });
  EXPECT_TRUE(a == b);
  Problem<T> c(4), d(4);
  c.on_device([&](const auto &rows, T *buffer, const int *row_of_atom) {
    const RowGroups<DeviceExec> groups(DeviceExec(), NUM_LISTED, list.data(), 0, row_of_atom);
    unpack_reverse_rows(DeviceExec(), list.data(), groups, rows, buffer);
    DeviceExec().fence("test: messages are unpacked");
  });
  d.for_each(LIST, [](int row, T *x, T *buffer) {
    if (row >= 0) *x += *buffer;
  });
  EXPECT_TRUE(c == d);
}

TYPED_TEST(RowPacking, an_empty_message_changes_nothing) {
  using T = TypeParam;
  Problem<T> a(5), b(5);
  const DeviceExec exec;
  a.on_device([&](const auto &rows, T *buffer, const int *row_of_atom) {
    const RowGroups<DeviceExec> groups(exec, 0, nullptr, 5, row_of_atom), of_list(exec, 0, row_of_atom, 0, row_of_atom);
    pack_forward_rows(exec, 0, row_of_atom, rows, buffer);
    unpack_forward_rows(exec, 0, 5, rows, buffer);
    pack_reverse_rows(exec, 0, 5, groups, rows, buffer);
    unpack_reverse_rows(exec, row_of_atom, of_list, rows, buffer);
  });
  EXPECT_TRUE(a == b);
}

}    // namespace
