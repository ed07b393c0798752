// SPDX-License-Identifier: MIT
// Counts and records the allocations of the whole executable by operator new, and makes them fail;
// allocation_counter.cpp replaces the operators when it is linked.
#ifndef EQUI_TEST_ALLOCATION_COUNTER_H
#define EQUI_TEST_ALLOCATION_COUNTER_H

#include <cstddef>
#include <map>

namespace equi {
namespace testing {

// Calls of operator new so far, by any thread.
long num_allocations();

// While an object exists, an allocation finds no memory: number n (from 0), by any thread, of those that request at
// least `least_size` bytes. With `and_all_later` later ones fail, too.
class FailingAllocation {
 public:
  explicit FailingAllocation(long n, bool and_all_later = false, std::size_t least_size = 0);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation &) = delete;
  FailingAllocation &operator=(const FailingAllocation &) = delete;
  // Whether there were this many allocations.
  bool has_failed() const;
};

// Records the allocations, by any thread, that are made and not freed in its lifetime. Only one may exist at a time.
class RecordedAllocations {
 public:
  struct Allocation {
    std::size_t bytes, alignment;
    long number;    // num_allocations() before it
  };
  RecordedAllocations();
  ~RecordedAllocations();
  RecordedAllocations(const RecordedAllocations &) = delete;
  RecordedAllocations &operator=(const RecordedAllocations &) = delete;
  // Ends the recording.
  std::map<const void *, Allocation> take();
};

}    // namespace testing
}    // namespace equi

#endif
