// Counts what the whole executable allocates by operator new; linking allocation_counter.cpp replaces the operators.
#ifndef EQUI_TEST_ALLOCATION_COUNTER_H
#define EQUI_TEST_ALLOCATION_COUNTER_H

namespace equi {
namespace testing {

// Calls of operator new so far, by any thread.
long num_allocations();

}    // namespace testing
}    // namespace equi

#endif
