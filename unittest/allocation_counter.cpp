// In a file of its own: a compiler that sees operator delete call free() warns wherever it inlines one of the two only.
#include "allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> count{0};

// Of FailingAllocation. Allocations until the one that fails: below zero after it.
std::atomic<bool> is_failing{false};
std::atomic<long> before_failure{0};
bool all_later_fail = false;
std::size_t least_size_that_fails = 0;

bool fails(std::size_t size) {
  if (!is_failing || size < least_size_that_fails) return false;
  const long before = before_failure--;
  return before == 0 || (before < 0 && all_later_fail);
}

void *allocate(std::size_t size, std::size_t alignment) {
  ++count;
  if (fails(size)) throw std::bad_alloc();
  // A multiple of the alignment, and not zero.
  void *p = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (!p) throw std::bad_alloc();
  return p;
}

}    // namespace

long equi::testing::num_allocations() {
  return count;
}

equi::testing::FailingAllocation::FailingAllocation(long n, bool and_all_later, std::size_t least_size) {
  before_failure = n;
  all_later_fail = and_all_later;
  least_size_that_fails = least_size;
  is_failing = true;
}

equi::testing::FailingAllocation::~FailingAllocation() {
  is_failing = false;
}

bool equi::testing::FailingAllocation::has_failed() const {
  return before_failure < 0;
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
