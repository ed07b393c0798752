// SPDX-License-Identifier: MIT
// The error that the readers of model files throw.
#ifndef EQUI_MODEL_FILE_ERROR_H
#define EQUI_MODEL_FILE_ERROR_H

#include "src/base/printable.h"

#include <stdexcept>
#include <string>

namespace equi {

// The message has the file, the field, what was expected and what was found. Texts from the file are made printable.
class ModelFileError : public std::runtime_error {
 public:
  explicit ModelFileError(const std::string &message) : std::runtime_error(printable(message)) {}
};

}    // namespace equi

#endif
