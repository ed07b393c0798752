// SPDX-License-Identifier: MIT
// Reads the tensors that fields of a document name, and limits how many numbers a model reads from its file.
#ifndef EQUI_TENSOR_READER_H
#define EQUI_TENSOR_READER_H

#include "src/document/json_field.h"
#include "src/document/safetensors.h"
#include "src/numbers/matrix.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace equi {

constexpr int64_t ANY_LENGTH = -1;    // any positive length, in the expected shape of a tensor

class TensorReader {
 public:
  // `container` must outlive the reader.
  TensorReader(const SafetensorsFile &container, int num_species);

  const int num_species;

  // The tensor that `field` names, times `scale`. Refuses other shapes, and numbers that float32 cannot hold.
  std::vector<double> values(const JsonField &field, const std::vector<int64_t> &shape, double scale = 1.0);
  Matrix matrix(const JsonField &field, int64_t rows, int64_t cols, double scale = 1.0);
  // One matrix, or one per species.
  std::vector<Matrix> matrices(const JsonField &field, bool per_species, int64_t rows, int64_t cols,
                               double scale = 1.0);
  // [species of the receiver, species of the sender].
  Matrix pairs(const JsonField &field) { return matrix(field, num_species, num_species); }
  Matrix pairs_between(const JsonField &field, double lowest, double highest);
  // A length of a tensor that has been read.
  int64_t length(const JsonField &field, size_t dimension) const {
    return container_.tensors.at(field.text()).shape[dimension];
  }

  // Counts numbers that an evaluation stores for a field in addition to those that are read.
  void lay_out(const JsonField &field, int64_t numbers);
  const std::set<std::string> &used() const { return used_; }    // names of tensors that have been read
  // Throws ModelFileError, which names `file`, if a tensor has not been read.
  void refuse_unused(const std::string &file) const;

 private:
  const SafetensorsFile &container_;
  std::set<std::string> used_;
  // Numbers counted so far, with repetition: numbers of tensors; numbers of matrices in the layout of kernels.
  int64_t num_read_ = 0, num_laid_out_ = 0;
  const int64_t most_read_, most_laid_out_;
};

}    // namespace equi

#endif
