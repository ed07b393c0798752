// SPDX-License-Identifier: MIT
// Debug builds mark memory that is handed out and holds nothing yet, so that reads before a write, which releases
// hide, are found.
#ifndef EQUI_UNWRITTEN_MEMORY_H
#define EQUI_UNWRITTEN_MEMORY_H

#include <cstddef>
#include <cstring>

#ifdef EQUI_SANITIZE
#include <sanitizer/asan_interface.h>
#endif

namespace equi {

constexpr int UNWRITTEN = 0xff;    // of bytes: NaN as floating point, -1 as integers

// `used` of the `bytes` at `data` are handed out. Debug builds (EQUI_DEBUG) fill them, and what buffers have to spare:
// a read before a write gives NaN. With sanitizers (EQUI_SANITIZE) the spare bytes are not to be touched. keep: what
// was written stays.
inline void mark_unwritten([[maybe_unused]] void *data, [[maybe_unused]] std::size_t used,
                           [[maybe_unused]] std::size_t bytes, [[maybe_unused]] bool keep = false) {
#ifdef EQUI_SANITIZE
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
#ifdef EQUI_DEBUG
  if (!keep && bytes > 0) std::memset(data, UNWRITTEN, bytes);
#endif
#ifdef EQUI_SANITIZE
  ASAN_POISON_MEMORY_REGION(static_cast<char *>(data) + used, bytes - used);
#endif
}

}    // namespace equi

#endif
