// SPDX-License-Identifier: MIT
// The process-wide Kokkos of a host program that has none of its own.
#include "kokkos/runtime/device_blocks.h"
#include "kokkos/runtime/host_exec.h"
#include "src/base/host_resources.h"
#include "src/evaluation/native_evaluators.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

namespace equi {

int num_devices() {
#if defined(KOKKOS_ENABLE_CUDA)
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {    // otherwise Kokkos would end the process
    cudaGetLastError();
    return 0;
  }
#endif
  return std::max(0, Kokkos::num_devices());
}

int kokkos_device() {
  return num_devices() > 0 ? Kokkos::device_id() : -1;
}

DeviceIdentity device_identity() {
  DeviceIdentity identity{};
#if defined(KOKKOS_ENABLE_CUDA)
  cudaDeviceProp properties{};
  if (num_devices() > 0 && cudaGetDeviceProperties(&properties, kokkos_device()) == cudaSuccess)
    std::copy_n(properties.uuid.bytes, identity.size(), identity.begin());
#endif
  return identity;
}

#if defined(KOKKOS_ENABLE_CUDA)
namespace {
// CUDA's numbers are 1000 * major + 10 * minor.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
}    // namespace

void check_devices(int number) {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    throw std::runtime_error(
        std::string("this build needs an NVIDIA GPU: ") +
        (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)) +
        (driver == 0 ? "; no driver is installed" : "; the driver is for CUDA " + version_text(driver) + " and older") +
        ", the build for CUDA " + version_text(runtime));
  }
  cudaDeviceProp properties{};
  const int device = number % count;
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();
    throw std::runtime_error("GPU " + std::to_string(device) + " does not answer");
  }
  const int found = 10 * properties.major + properties.minor;
#ifdef EQUI_CUDA_REAL
  // Machine code runs on the GPUs of one generation.
  constexpr const char *WHICH = " and newer ones of the same ten";
  const bool fits = found >= EQUI_CUDA_ARCHITECTURE && found / 10 == EQUI_CUDA_ARCHITECTURE / 10;
#else
  constexpr const char *WHICH = " and newer ones";
  const bool fits = found >= EQUI_CUDA_ARCHITECTURE;
#endif
  if (!fits)
    throw std::runtime_error("this build is for GPUs of the architecture " + std::to_string(EQUI_CUDA_ARCHITECTURE) +
                             WHICH + " (CMAKE_CUDA_ARCHITECTURES), GPU " + std::to_string(device) + " (" +
                             properties.name + ") has " + std::to_string(found));
}
#else
void check_devices(int /*number*/) {}
#endif

namespace {

#if defined(KOKKOS_ENABLE_OPENMP)
// Kokkos's OpenMP keeps data of its threads in an array of this length and does not check whether it suffices.
constexpr int MAX_THREADS = 512;
#if KOKKOS_VERSION < 50000
static_assert(MAX_THREADS == Kokkos::Impl::OpenMPTraits::MAX_THREAD_COUNT);
#endif

// The number of threads that parallel regions get if they request this number. Kokkos divides its work by the number
// that it requested. If OpenMP starts fewer threads, the share of the missing ones would never be done.
int threads_of_regions(int num_threads) {
  omp_set_dynamic(0);    // otherwise OpenMP starts fewer on a busy machine
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

// Kokkos enlarges the scratch of its threads by freeing all of it first, and the state after a failure is undefined.
// So all scratch that the kernels need is reserved now. Blocks of local networks need most. Readouts need three numbers
// of eight bytes per neuron, twice as many with duals.
void reserve_team_scratch() {
  constexpr int BYTES = HOST_BLOCK_BYTES + (1 << 12);
  Kokkos::TeamPolicy<HostExec> policy(1, 1, 1);
  policy.set_scratch_size(0, Kokkos::PerTeam(BYTES));
  Kokkos::parallel_for("equi:scratch", policy, [](const Kokkos::TeamPolicy<HostExec>::member_type &) {});
}
#endif

}    // namespace

int start_kokkos(int num_threads, int number) {
  if (Kokkos::is_initialized() || Kokkos::is_finalized()) return 0;
  check_devices(number);
  Kokkos::InitializationSettings settings;
  settings.set_disable_warnings(true);    // about thread binding, which the user or the MPI launcher chooses
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

namespace {

// Share of a GPU's free memory. The rest is for what each of the processes allocates later: neighbor lists and atoms of
// LAMMPS, messages, workspaces of cuBLAS, stacks of kernels; and for memory that an estimate does not include.
[[maybe_unused]] double share_of_unused(double unused, int sharing) {
  constexpr double LEFT = 0.05, LEAST_LEFT = 1e9, LEFT_FOR_PROCESS = 4e8;
  return std::max(1.0, (unused - std::max({LEFT * unused, LEAST_LEFT, LEFT_FOR_PROCESS * sharing})) / sharing);
}

}    // namespace

double memory_available(int sharing) {
#if defined(KOKKOS_ENABLE_CUDA)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && cudaMemGetInfo(&unused, &all) == cudaSuccess)
    return share_of_unused(static_cast<double>(unused), sharing);
#elif defined(KOKKOS_ENABLE_HIP)
  std::size_t unused = 0, all = 0;
  if (num_devices() > 0 && hipMemGetInfo(&unused, &all) == hipSuccess)
    return share_of_unused(static_cast<double>(unused), sharing);
#endif
  return std::max(1.0, std::min(shared_memory_limit() / sharing, own_memory_left()));
}

int num_host_threads() {
  return HostExec().concurrency();
}

std::string kokkos_backend() {
  const int threads = num_host_threads();
  return std::string(Kokkos::DefaultExecutionSpace::name()) + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

}    // namespace equi
