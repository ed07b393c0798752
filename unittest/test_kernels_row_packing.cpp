// Rows of features into messages and back by threads, against loops over atoms in order.
#include "row_packing.h"

#include "host_exec.h"

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
  PackedRows<T> rows() {
    PackedRows<T> rows;
    for (size_t p = 0; p < width.size(); p++) rows.add({data_[p].data(), width[p]});
    rows.num_owned = OWNED;
    rows.stride = stride();
    rows.row_of_atom = row_of_atom.data();
    return rows;
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
RowGroups<HostExec> groups(size_t n, const int *atoms, int first, const Problem<T> &of) {
  return RowGroups<HostExec>(HostExec(), static_cast<int>(n), atoms, first, of.row_of_atom.data());
}

template <class T>
class RowPacking : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(RowPacking, Types);

const std::vector<int> LIST = {16, 0, 2, 8, 5, 6, 0, 14};    // an atom twice, one without a row, images
const std::vector<int> RANGE = {5, 6, 7, 8, 9, 10, 11, 12, 13};

TYPED_TEST(RowPacking, forward_sends_rows_and_fills_remote_ones) {
  using T = TypeParam;
  Problem<T> a(1), b(1);
  pack_forward_rows(HostExec(), static_cast<int>(LIST.size()), LIST.data(), a.rows(), a.buffer());
  b.for_each(LIST, [](int row, T *x, T *buffer) { *buffer = row < 0 ? T(0) : *x; });
  EXPECT_TRUE(a == b);
  // Copies of an atom receive the same numbers.
  Problem<T> c(2), d(2);
  for (Problem<T> *p : {&c, &d})
    p->for_each(RANGE, [&](int row, T *x, T *buffer) { *buffer = row < 0 ? T(0) : 2 * *x; });
  unpack_forward_rows(HostExec(), static_cast<int>(RANGE.size()), RANGE[0], c.rows(), c.buffer());
  const Problem<T> before = d;
  d.for_each(RANGE, [](int row, T *x, T *buffer) {
    if (row >= Problem<T>::OWNED) *x = *buffer;
  });
  EXPECT_TRUE(c == d);
  EXPECT_FALSE(c == before);
}

TYPED_TEST(RowPacking, reverse_takes_each_sum_once_and_adds_in_order) {
  using T = TypeParam;
  Problem<T> a(3), b(3);
  pack_reverse_rows(HostExec(), static_cast<int>(RANGE.size()), RANGE[0], groups(RANGE.size(), nullptr, RANGE[0], a),
                    a.rows(), a.buffer());
  b.for_each(RANGE, [](int row, T *x, T *buffer) {
    *buffer = row >= Problem<T>::OWNED ? *x : T(0);
    if (row >= Problem<T>::OWNED) *x = T(0);
  });
  EXPECT_TRUE(a == b);
  Problem<T> c(4), d(4);
  unpack_reverse_rows(HostExec(), LIST.data(), groups(LIST.size(), LIST.data(), 0, c), c.rows(), c.buffer());
  d.for_each(LIST, [](int row, T *x, T *buffer) {
    if (row >= 0) *x += *buffer;
  });
  EXPECT_TRUE(c == d);
}

TYPED_TEST(RowPacking, an_empty_message_changes_nothing) {
  Problem<TypeParam> a(5), b(5);
  const HostExec exec;
  pack_forward_rows(exec, 0, LIST.data(), a.rows(), a.buffer());
  unpack_forward_rows(exec, 0, 5, a.rows(), a.buffer());
  pack_reverse_rows(exec, 0, 5, groups(0, nullptr, 5, a), a.rows(), a.buffer());
  unpack_reverse_rows(exec, LIST.data(), groups(0, LIST.data(), 0, a), a.rows(), a.buffer());
  EXPECT_TRUE(a == b);
}

}    // namespace
