// SPDX-License-Identifier: MIT
// Counts what the whole executable allocates by operator new, and lets it fail; linking allocation_counter.cpp replaces
// the operators.
#ifndef EQUI_TEST_ALLOCATION_COUNTER_H
#define EQUI_TEST_ALLOCATION_COUNTER_H

#include <cstddef>

namespace equi {
namespace testing {

// Calls of operator new so far, by any thread.
long num_allocations();

// While one is there, an allocation finds no memory: number n (from 0), by any thread, of those that ask for
// `least_size` bytes or more. With `and_all_later` these do neither.
class FailingAllocation {
 public:
  explicit FailingAllocation(long n, bool and_all_later = false, std::size_t least_size = 0);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation &) = delete;
  FailingAllocation &operator=(const FailingAllocation &) = delete;
  // Whether there were so many allocations.
  bool has_failed() const;
};

}    // namespace testing
}    // namespace equi

#endif
