// SPDX-License-Identifier: MIT
// Computes the hash of the numbers of a model file with XXH3.
#include "src/base/data_hash.h"

#define XXH_INLINE_ALL    // its functions only in this file: other plugins of a process may have their own
#include <xxhash.h>

namespace equi {

std::string data_hash(const char *data, size_t num_bytes) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits(data, num_bytes));
  std::string text = "xxh3_128:";
  for (unsigned char byte : bytes.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}    // namespace equi
