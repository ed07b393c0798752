// SPDX-License-Identifier: MIT
// A constant matrix in the layout that the host's dense products read.
#ifndef EQUI_PACKED_MATRIX_H
#define EQUI_PACKED_MATRIX_H

#include "kokkos/host_kernels/host_kernels.h"
#include "kokkos/runtime/buffer.h"
#include "src/numbers/matrix.h"

#include <cstddef>
#include <tuple>
#include <type_traits>
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

// A matrix of float32 in parts, for matrix units (split_matrix.h).
inline AlignedVector<BFloat16> split_matrix(const Matrix &m) {
  AlignedVector<BFloat16> numbers(split_size(m.rows, m.cols), BFloat16{0});
  for (int i = 0; i < m.rows; i++)
    for (int j = 0; j < m.cols; j++) {
      BFloat16 parts[SPLIT_PARTS];
      split(static_cast<float>(m(i, j)), parts);
      for (int part = 0; part < SPLIT_PARTS; part++) numbers[split_place(m.rows, m.cols, part, i, j)] = parts[part];
    }
  return numbers;
}

// R: float or double.
template <class R>
class PackedMatrix {
 public:
  PackedMatrix(const Matrix &m, InstructionSet set) : kernels_(&host_kernels<R>(set)), in_(m.rows), out_(m.cols) {
    const SplitKernels *const split = kernels_->split;
    if (split && in_ >= split->least_in && out_ >= split->least_out)
      parts_ = split_matrix(m);
    else
      numbers_ = packed<R>(m, kernels_->product_panel);
  }

  // c = a m, or c += a m if `add`, for `rows` rows of a [in] and c [out]; the strides are their distances (0:
  // contiguous). Any thread may call it. With add = false the content of c is not read.
  void multiply(int64_t rows, const R *a, R *c, bool add = false, int64_t a_stride = 0, int64_t c_stride = 0) const {
    if (a_stride == 0) a_stride = in_;
    if (c_stride == 0) c_stride = out_;
    if constexpr (std::is_same_v<R, float>)
      if (is_split()) return kernels_->split->product({rows, in_, out_, parts(), a, c, a_stride, c_stride, add});
    kernels_->product({rows, in_, out_, numbers(), a, c, a_stride, c_stride, add});
  }

  int in() const { return in_; }
  int out() const { return out_; }
  // The numbers for the products of HostKernels, or of SplitKernels if is_split().
  bool is_split() const { return !parts_.empty(); }
  const R *numbers() const { return numbers_.data(); }
  const BFloat16 *parts() const { return parts_.data(); }
  auto members() const { return std::tie(numbers_, parts_); }
  // [in][out], the layout for devices.
  std::vector<R> row_by_row() const {
    std::vector<R> rows(static_cast<std::size_t>(in_) * out_);
    for (int i = 0; is_split() && i < in_; i++)
      for (int j = 0; j < out_; j++)
        for (int part = SPLIT_PARTS; part-- > 0;)
          rows[static_cast<std::size_t>(i) * out_ + j] += float_of(parts_[split_place(in_, out_, part, i, j)]);
    if (is_split()) return rows;
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
  AlignedVector<BFloat16> parts_;
};

}    // namespace equi

#endif
