// SPDX-License-Identifier: MIT
// A constant matrix in the layout that the host's dense products read.
#ifndef EQUI_PACKED_MATRIX_H
#define EQUI_PACKED_MATRIX_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/runtime/buffer.h"
#include "src/numbers/matrix.h"

#include <cstddef>
#include <vector>

namespace equi {

// Number of columns with the zeros.
inline int packed_columns(int out, int panel) {
  const int lanes = panel / PANEL_REGISTERS;
  return (out + lanes - 1) / lanes * lanes;
}

// Writes the entries, entry(row, column), to in * packed_columns(out, panel) numbers.
template <class R, class F>
void pack_matrix(int in, int out, int panel, const F &entry, R *to) {
  const int columns = packed_columns(out, panel);
  for (int first = 0; first < columns; first += panel)
    for (int i = 0; i < in; i++)
      for (int j = first; j < first + panel && j < columns; j++) *to++ = j < out ? static_cast<R>(entry(i, j)) : R(0);
}

// The same for a matrix.
template <class R>
AlignedVector<R> packed(const Matrix &m, int panel) {
  AlignedVector<R> numbers(static_cast<std::size_t>(m.rows) * packed_columns(m.cols, panel));
  pack_matrix(
      m.rows, m.cols, panel, [&](int i, int j) { return m(i, j); }, numbers.data());
  return numbers;
}

// R: float or double.
template <class R>
class PackedMatrix {
 public:
  PackedMatrix(const Matrix &m, InstructionSet set)
      : kernels_(&host_kernels<R>(set)), in_(m.rows), out_(m.cols), numbers_(packed<R>(m, kernels_->product_panel)) {}

  // c = a m, or c += a m if `add`, for `rows` rows of a [in] and c [out]; the strides are their distances (0:
  // contiguous). Any thread may call it. With add = false the content of c is not read.
  void multiply(int64_t rows, const R *a, R *c, bool add = false, int64_t a_stride = 0, int64_t c_stride = 0) const {
    kernels_->product(
        {rows, in_, out_, numbers_.data(), a, c, a_stride > 0 ? a_stride : in_, c_stride > 0 ? c_stride : out_, add});
  }

  int in() const { return in_; }
  int out() const { return out_; }
  std::size_t bytes() const { return numbers_.size() * sizeof(R); }
  // [in][out], the layout for devices.
  std::vector<R> row_by_row() const {
    std::vector<R> rows(static_cast<std::size_t>(in_) * out_);
    const int panel = kernels_->product_panel, columns = packed_columns(out_, panel);
    for (int j = 0; j < out_; j++) {
      const int first = j / panel * panel, width = first + panel < columns ? panel : columns - first;
      for (int i = 0; i < in_; i++)
        rows[static_cast<std::size_t>(i) * out_ + j] =
            numbers_[static_cast<std::size_t>(first) * in_ + static_cast<std::size_t>(i) * width + (j - first)];
    }
    return rows;
  }

 private:
  const HostKernels<R> *kernels_;
  int in_, out_;
  AlignedVector<R> numbers_;
};

}    // namespace equi

#endif
