// SPDX-License-Identifier: MIT
// Debug builds mark reserved memory that holds no numbers yet. This reveals reads before a write, which releases
// hide.
#ifndef EQUI_UNWRITTEN_MEMORY_H
#define EQUI_UNWRITTEN_MEMORY_H

#include <cstddef>
#include <cstring>

#ifdef EQUI_SANITIZE
#include <sanitizer/asan_interface.h>
#endif

namespace equi {

constexpr int UNWRITTEN = 0xff;    // byte value: NaN as floating point, -1 as integers

// The first `used` of the `bytes` at `data` are in use. Debug builds (EQUI_DEBUG) fill these and the rest of the
// buffer, so a read before a write returns NaN. With sanitizers (EQUI_SANITIZE) the rest must not be accessed. keep:
// content that was written stays.
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
