// The process-wide Kokkos of a host program that has none of its own.
#include "evaluator.h"

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdlib>

#include <unistd.h>

namespace equi {

int num_devices() {
  return std::max(0, Kokkos::num_devices());
}

int kokkos_device() {
  return num_devices() > 0 ? Kokkos::device_id() : -1;
}

void start_kokkos(int num_threads, int number) {
  if (Kokkos::is_initialized() || Kokkos::is_finalized()) return;
  Kokkos::InitializationSettings settings;
  settings.set_disable_warnings(true);    // about thread binding, which is the user's or the MPI launcher's choice
  if (num_threads > 0) settings.set_num_threads(num_threads);
  if (num_devices() > 0) settings.set_device_id(number % num_devices());
  Kokkos::initialize(settings);
  // Views of evaluations that outlive main() would be freed after Kokkos; the pair style's destructor runs before.
  std::atexit([] {
    if (Kokkos::is_initialized() && !Kokkos::is_finalized()) Kokkos::finalize();
  });
}

double memory_available() {
#if defined(KOKKOS_ENABLE_CUDA)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && cudaMemGetInfo(&unused, &all) == cudaSuccess) return static_cast<double>(unused);
#elif defined(KOKKOS_ENABLE_HIP)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && hipMemGetInfo(&unused, &all) == hipSuccess) return static_cast<double>(unused);
#endif
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string kokkos_backend() {
  const int threads = Kokkos::DefaultHostExecutionSpace().concurrency();
  return std::string(Kokkos::DefaultExecutionSpace::name()) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}    // namespace equi
