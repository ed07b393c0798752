// SPDX-License-Identifier: MIT
// The process-wide Kokkos of a host program that has none of its own.
#include "kokkos/runtime/host_exec.h"
#include "src/base/host_resources.h"
#include "src/evaluation/native_evaluators.h"

#include <algorithm>
#include <cstdlib>

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

namespace equi {

int num_devices() {
  return std::max(0, Kokkos::num_devices());
}

int kokkos_device() {
  return num_devices() > 0 ? Kokkos::device_id() : -1;
}

namespace {

#if defined(KOKKOS_ENABLE_OPENMP)
// Kokkos's OpenMP keeps what it needs of its threads in an array of this length and does not look whether it suffices.
constexpr int MAX_THREADS = 512;
#if KOKKOS_VERSION < 50000
static_assert(MAX_THREADS == Kokkos::Impl::OpenMPTraits::MAX_THREAD_COUNT);
#endif

// The number of threads of parallel regions that ask for this number. Kokkos divides its work by the number that it
// asked for: the share of a thread that OpenMP does not give would never be done.
int threads_of_regions(int num_threads) {
  omp_set_dynamic(0);    // else OpenMP gives fewer to a busy machine
  if (omp_get_max_active_levels() < 1) omp_set_max_active_levels(1);
  if (num_threads <= 0) num_threads = omp_get_max_threads();
  num_threads = std::clamp(num_threads, 1, std::min(MAX_THREADS, omp_get_thread_limit()));
  omp_set_num_threads(num_threads);    // also for Kokkos's own count of the threads
  int given = 0;
#pragma omp parallel num_threads(num_threads)
  {
#pragma omp atomic
    given++;
  }
  omp_set_num_threads(given);
  return given;
}

// Kokkos enlarges the scratch of its threads by giving back all of it first, and what follows a failure is undefined:
// so all that the kernels need is taken now. Readouts are what needs most, three numbers of eight bytes per neuron,
// twice as many with duals.
void reserve_team_scratch() {
  constexpr int BYTES = 1 << 16;
  Kokkos::TeamPolicy<HostExec> policy(1, 1, 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(BYTES));
  Kokkos::parallel_for("equi:scratch", policy, [](const Kokkos::TeamPolicy<HostExec>::member_type &) {});
}
#endif

}    // namespace

int start_kokkos(int num_threads, int number) {
  if (Kokkos::is_initialized() || Kokkos::is_finalized()) return 0;
  Kokkos::InitializationSettings settings;
  settings.set_disable_warnings(true);    // about thread binding, which is the user's or the MPI launcher's choice
#if defined(KOKKOS_ENABLE_OPENMP)
  num_threads = threads_of_regions(num_threads);
#endif
  if (num_threads > 0) settings.set_num_threads(num_threads);
  if (num_devices() > 0) settings.set_device_id(number % num_devices());
  Kokkos::initialize(settings);
  // Views of evaluations that outlive main() would be freed after Kokkos; the pair style's destructor runs before.
  std::atexit([] {
    if (Kokkos::is_initialized() && !Kokkos::is_finalized()) Kokkos::finalize();
  });
#if defined(KOKKOS_ENABLE_OPENMP)
  reserve_team_scratch();
#endif
  return HostExec().concurrency();
}

double memory_available(int sharing) {
#if defined(KOKKOS_ENABLE_CUDA)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && cudaMemGetInfo(&unused, &all) == cudaSuccess) return static_cast<double>(unused) / sharing;
#elif defined(KOKKOS_ENABLE_HIP)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && hipMemGetInfo(&unused, &all) == hipSuccess) return static_cast<double>(unused) / sharing;
#endif
  return std::max(1.0, std::min(shared_memory_limit() / sharing, own_memory_left()));
}

std::string kokkos_backend() {
  const int threads = HostExec().concurrency();
  return std::string(Kokkos::DefaultExecutionSpace::name()) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}    // namespace equi
