// Reader of .equi files (doc/model_file.rst).
#ifndef EQUI_MODEL_FILE_H
#define EQUI_MODEL_FILE_H

#include "model.h"

#include <stdexcept>
#include <string>

namespace equi {

// Message: file, field, what was expected, what was found.
class ModelFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The largest format_version this reader knows.
constexpr int MODEL_FORMAT_VERSION = 2;

// Reads and validates a file, or its bytes (rank 0 reads, the others receive the bytes). Refuses truncated files, other
// formats, newer versions, missing or superfluous tensors, wrong shapes, and numbers that are not finite.
std::string read_file_bytes(const std::string &path);
Model parse_model(const std::string &bytes, const std::string &path);
inline Model read_model(const std::string &path) {
  return parse_model(read_file_bytes(path), path);
}

}    // namespace equi

#endif
