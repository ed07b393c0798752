// SPDX-License-Identifier: MIT
// The hash of the numbers of a model file. Readers use it to detect damage; it is not a signature.
#ifndef EQUI_DATA_HASH_H
#define EQUI_DATA_HASH_H

#include <cstddef>
#include <string>

namespace equi {

// "xxh3_128:" and 32 hexadecimal digits, those of XXH3 with 128 bits and no seed in its canonical order of bytes.
std::string data_hash(const char *data, size_t num_bytes);

}    // namespace equi

#endif
