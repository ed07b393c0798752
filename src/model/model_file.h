// SPDX-License-Identifier: MIT
// Reader of .equi files (doc/model_file.rst).
#ifndef EQUI_MODEL_FILE_H
#define EQUI_MODEL_FILE_H

#include "src/document/model_file_error.h"
#include "src/model/model.h"

#include <string>

namespace equi {

// The largest format_version that this reader knows.
constexpr int MODEL_FORMAT_VERSION = 3;
// Files with an earlier version have no hash of their data.
constexpr int FIRST_VERSION_WITH_HASH = 3;

// The forces to use if a file offers both: derivatives of the energy, or features of atoms (layer direct_forces).
enum class ForcesOf { energy, features };

// Reads and validates a file, or its bytes (rank 0 reads, the others receive the bytes). Refuses truncated files, other
// formats, newer versions, unknown or repeated keys, and missing or superfluous tensors. Also refuses wrong shapes,
// numbers that are not finite, data that do not match their hash, and sizes beyond model_limits.h. Throws only
// ModelFileError. system: the system that the model is made for, if the file is for all systems; other files accept
// none. Forces from features are refused if the file has none.
std::string read_file_bytes(const std::string &path);
Model parse_model(const std::string &bytes, const std::string &path, const AtomicSystem &system = {},
                  ForcesOf forces = ForcesOf::energy);
inline Model read_model(const std::string &path, const AtomicSystem &system = {}, ForcesOf forces = ForcesOf::energy) {
  return parse_model(read_file_bytes(path), path, system, forces);
}
// The same with all layers of the file, including those that lead to direct forces.
Model read_all_layers(const std::string &path);

}    // namespace equi

#endif
