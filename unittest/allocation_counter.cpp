// In a file of its own: a compiler that sees operator delete call free() warns wherever it inlines one of the two only.
#include "allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> count{0};

void *allocate(std::size_t size, std::size_t alignment) {
  ++count;
  // A multiple of the alignment, and not zero.
  void *p = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}    // namespace

long equi::testing::num_allocations() {
  return count;
}

// The array and nothrow forms call these.
void *operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
void *operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *p) noexcept {
  std::free(p);
}
void operator delete(void *p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void *p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void *p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}
