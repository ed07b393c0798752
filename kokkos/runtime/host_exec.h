// SPDX-License-Identifier: MIT
// The execution space of the host's kernels. Labels of kernels that run every step have at most 15 characters: Kokkos
// makes strings of them, and longer ones would cost an allocation each.
#ifndef EQUI_HOST_EXEC_H
#define EQUI_HOST_EXEC_H

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>

namespace equi {

using HostExec = Kokkos::DefaultHostExecutionSpace;

// Carries an exception out of a parallel region, which no exception may leave by itself.
class ParallelFault {
 public:
  // f(), number k of the region's pieces of work.
  template <class F>
  void guard(int64_t k, const F &f) noexcept {
    try {
      f();
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (k >= first_) return;
      first_ = k;
      fault_ = std::current_exception();
    }
  }
  // After the region: throws what the piece of the lowest number has thrown, if any has.
  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  std::mutex mutex_;
  int64_t first_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr fault_;
};

// f(k) for each k of a policy of the host, where f may throw.
template <class Policy, class F>
void parallel_with_faults(const char *label, const Policy &policy, const F &f) {
  ParallelFault fault;
  Kokkos::parallel_for(label, policy, [&](int64_t k) { fault.guard(k, [&] { f(k); }); });
  fault.rethrow();
}

}    // namespace equi

#endif
