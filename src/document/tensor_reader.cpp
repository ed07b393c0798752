// SPDX-License-Identifier: MIT
// Copies tensors from the container, and checks their shapes and the limits of their sizes.
#include "src/document/tensor_reader.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"
#include "src/document/model_file_error.h"

#include <cmath>
#include <utility>

namespace equi {

TensorReader::TensorReader(const SafetensorsFile &container, int num_species)
    : num_species(num_species),
      container_(container),
      most_read_(TENSOR_BASE + TENSOR_MULTIPLE * static_cast<int64_t>(container.data_bytes / sizeof(float))),
      most_laid_out_(LAYOUT_BASE + LAYOUT_MULTIPLE * static_cast<int64_t>(container.data_bytes / sizeof(float))) {}

std::vector<double> TensorReader::values(const JsonField &field, const std::vector<int64_t> &shape, double scale) {
  const std::string &name = field.text();
  const auto it = container_.tensors.find(name);
  if (it == container_.tensors.end()) field.fail("the name of a tensor in the file", field.describe());
  const StoredTensor &t = it->second;
  bool fits = t.shape.size() == shape.size();
  std::string expected;
  for (size_t d = 0; d < shape.size(); ++d) {
    expected += (d ? ", " : "") + (shape[d] == ANY_LENGTH ? std::string("n") : std::to_string(shape[d]));
    fits = fits && (shape[d] == ANY_LENGTH ? t.shape[d] > 0 : t.shape[d] == shape[d]);
  }
  const std::string shown = printable(name, SHOWN_NAME);
  if (!fits) field.fail("tensor " + shown + " of shape [" + expected + "]", t.shape_text());
  num_read_ += t.size();
  if (num_read_ > most_read_)
    field.fail("tensors that the model reads a few times at most, " + std::to_string(most_read_) + " numbers in all",
               "more");
  used_.insert(name);
  std::vector<double> values = t.values();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] *= scale;
    if (!(std::fabs(values[i]) <= MAX_MAGNITUDE))
      field.fail("finite numbers of magnitudes up to " + text_of(MAX_MAGNITUDE) + " in tensor " + shown,
                 text_of(values[i]) + " at index " + std::to_string(i));
  }
  return values;
}

Matrix TensorReader::matrix(const JsonField &field, int64_t rows, int64_t cols, double scale) {
  std::vector<double> data = values(field, {rows, cols}, scale);
  return Matrix{static_cast<int>(length(field, 0)), static_cast<int>(length(field, 1)), std::move(data)};
}

std::vector<Matrix> TensorReader::matrices(const JsonField &field, bool per_species, int64_t rows, int64_t cols,
                                           double scale) {
  std::vector<Matrix> matrices;
  if (!per_species) {
    matrices.push_back(matrix(field, rows, cols, scale));
    return matrices;
  }
  const std::vector<double> all = values(field, {num_species, rows, cols}, scale);
  const size_t size = all.size() / num_species;
  for (int s = 0; s < num_species; ++s)
    matrices.push_back(Matrix{static_cast<int>(length(field, 1)),
                              static_cast<int>(length(field, 2)),
                              {all.begin() + s * size, all.begin() + (s + 1) * size}});
  return matrices;
}

Matrix TensorReader::pairs_between(const JsonField &field, double lowest, double highest) {
  Matrix m = pairs(field);
  for (double v : m.data)
    if (!(v >= lowest && v <= highest))
      field.fail("numbers from " + text_of(lowest) + " to " + text_of(highest) + " in tensor " +
                     printable(field.text(), SHOWN_NAME),
                 text_of(v));
  return m;
}

void TensorReader::lay_out(const JsonField &field, int64_t numbers) {
  num_laid_out_ += numbers;
  if (num_laid_out_ > most_laid_out_)
    field.fail("a model whose matrices have at most " + std::to_string(most_laid_out_) +
                   " numbers in the layout of the kernels",
               "more");
}

void TensorReader::refuse_unused(const std::string &file) const {
  for (const auto &[name, tensor] : container_.tensors)
    if (!used_.count(name))
      throw ModelFileError(file + ": tensor " + printable(name, SHOWN_NAME) +
                           ": expected only tensors that a layer uses, found this one");
}

}    // namespace equi
