// SPDX-License-Identifier: MIT
// The safetensors container: named tensors and a few metadata strings. Little-endian data; reading executes nothing.
#ifndef EQUI_SAFETENSORS_H
#define EQUI_SAFETENSORS_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace equi {

struct StoredTensor {
  bool is_double = false;    // F64, else F32
  std::vector<int64_t> shape;
  const char *data = nullptr;    // points into the bytes passed to parse_safetensors; may be unaligned

  int64_t size() const;
  std::string shape_text() const;    // "[64, 960]"
  std::vector<double> values() const;
};

struct SafetensorsFile {
  std::map<std::string, std::string> metadata;
  std::map<std::string, StoredTensor> tensors;
  // The section that the tensors fill without gaps.
  const char *data = nullptr;
  size_t data_bytes = 0;
};

// The tensors point into `bytes`, which must outlive the result. Throws ModelFileError (model_file_error.h), which
// names `path` and the field, unless header, offsets, shapes and the length of the file agree exactly.
SafetensorsFile parse_safetensors(const std::string &bytes, const std::string &path);

}    // namespace equi

#endif
