// SPDX-License-Identifier: MIT
// The execution space of the host's kernels. Labels of kernels that run in every evaluation have at most 15
// characters: Kokkos makes strings of them, and a longer one would cost an allocation.
#ifndef EQUI_HOST_EXEC_H
#define EQUI_HOST_EXEC_H

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>

namespace equi {

using HostExec = Kokkos::DefaultHostExecutionSpace;

// Carries an exception out of a parallel region, which an exception cannot leave by itself.
class ParallelFault {
 public:
  // Calls f() as piece k of the region's work.
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
  // After the region: throws the exception of the piece with the lowest number, if any has thrown.
  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  std::mutex mutex_;
  int64_t first_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr fault_;
};

// Calls f(k) for each k of a host policy; f may throw.
template <class Policy, class F>
void parallel_with_faults(const char *label, const Policy &policy, const F &f) {
  ParallelFault fault;
  Kokkos::parallel_for(label, policy, [&](int64_t k) { fault.guard(k, [&] { f(k); }); });
  fault.rethrow();
}

}    // namespace equi

#endif
