// SPDX-License-Identifier: MIT
// In a separate file, because a compiler that sees operator delete call free() warns if it inlines only one of the two.
#include "unittest/support/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> count{0};

// State of FailingAllocation: allocations until the one that fails, below zero after it.
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
  // Not a byte more than requested, which sanitizers would treat as allowed.
  void *p = nullptr;
  if (posix_memalign(&p, alignment, size > 0 ? size : 1) != 0) throw std::bad_alloc();
  return p;
}

void *allocate_or_null(std::size_t size, std::size_t alignment) noexcept {
  try {
    return allocate(size, alignment);
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
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

// The array forms call these. So do the nothrow forms, except those of sanitizers, whose memory only they may free.
void *operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, alignof(std::max_align_t));
}
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, static_cast<std::size_t>(alignment));
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
void operator delete(void *p, const std::nothrow_t &) noexcept {
  std::free(p);
}
void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept {
  std::free(p);
}
