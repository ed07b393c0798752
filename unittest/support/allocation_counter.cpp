// SPDX-License-Identifier: MIT
// In a separate file, because a compiler that sees operator delete call free() warns if it inlines only one of the two.
#include "unittest/support/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace {

using Allocation = equi::testing::RecordedAllocations::Allocation;

std::atomic<long> count{0};

// State of FailingAllocation: allocations until the one that fails, below zero after it.
std::atomic<bool> is_failing{false};
std::atomic<long> before_failure{0};
bool all_later_fail = false;
std::size_t least_size_that_fails = 0;

// State of RecordedAllocations, which the replaced operators must not allocate.
template <class T>
struct FromMalloc {
  using value_type = T;
  FromMalloc() = default;
  template <class U>
  FromMalloc(const FromMalloc<U> &) {}
  T *allocate(std::size_t n) {
    if (void *p = std::malloc(n * sizeof(T))) return static_cast<T *>(p);
    throw std::bad_alloc();
  }
  void deallocate(T *p, std::size_t) { std::free(p); }
  template <class U>
  bool operator==(const FromMalloc<U> &) const {
    return true;
  }
  template <class U>
  bool operator!=(const FromMalloc<U> &) const {
    return false;
  }
};
std::atomic<bool> is_recording{false};
std::mutex of_recorded;
std::map<const void *, Allocation, std::less<>, FromMalloc<std::pair<const void *const, Allocation>>> recorded;

bool fails(std::size_t size) {
  if (!is_failing || size < least_size_that_fails) return false;
  const long before = before_failure--;
  return before == 0 || (before < 0 && all_later_fail);
}

void *allocate(std::size_t size, std::size_t alignment) {
  const long number = count++;
  if (fails(size)) throw std::bad_alloc();
  // Not a byte more than requested, which sanitizers would treat as allowed.
  void *p = nullptr;
  if (posix_memalign(&p, alignment, size > 0 ? size : 1) != 0) throw std::bad_alloc();
  if (is_recording) {
    const std::lock_guard<std::mutex> lock(of_recorded);
    recorded[p] = {size, alignment, number};
  }
  return p;
}

void release(void *p) {
  if (is_recording) {
    const std::lock_guard<std::mutex> lock(of_recorded);
    recorded.erase(p);
  }
  std::free(p);
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

equi::testing::RecordedAllocations::RecordedAllocations() {
  is_recording = true;
}

equi::testing::RecordedAllocations::~RecordedAllocations() {
  is_recording = false;
  recorded.clear();
}

std::map<const void *, Allocation> equi::testing::RecordedAllocations::take() {
  is_recording = false;
  return {recorded.begin(), recorded.end()};
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
  release(p);
}
void operator delete(void *p, std::size_t) noexcept {
  release(p);
}
void operator delete(void *p, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void *p, std::size_t, std::align_val_t) noexcept {
  release(p);
}
void operator delete(void *p, const std::nothrow_t &) noexcept {
  release(p);
}
void operator delete(void *p, std::align_val_t, const std::nothrow_t &) noexcept {
  release(p);
}
