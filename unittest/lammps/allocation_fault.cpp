// SPDX-License-Identifier: MIT
// A library for LD_PRELOAD that makes one of the plugin's allocations fail. It replaces operator new, which
// std::vector, std::string, the texts of errors, Kokkos and equi's buffers all use. An allocation is the plugin's if
// the first caller outside the C++ library is the plugin; allocations of LAMMPS are not affected. It counts from when
// the variable EQUI_FAULTS_BEGIN is set, which an input script does by `shell putenv`.
//
//   EQUI_FAULT_AT=N      the allocation of this number, from 0, fails
//   EQUI_FAULT_LATER=1   and so do all that follow
//   EQUI_FAULT_COUNT=F   the number of allocations is written into the file F when the process ends

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool holds(const void *address) const {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    return begin <= a && a < end;
  }
};

struct Libraries {
  Range plugin, standard;
};

Range range_of(const dl_phdr_info &info) {
  Range range;
  for (int k = 0; k < info.dlpi_phnum; ++k) {
    const auto &part = info.dlpi_phdr[k];
    if (part.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info.dlpi_addr + part.p_vaddr;
    if (range.end == 0 || begin < range.begin) range.begin = begin;
    if (begin + part.p_memsz > range.end) range.end = begin + part.p_memsz;
  }
  return range;
}

int find_libraries(dl_phdr_info *info, std::size_t, void *found) {
  Libraries &libraries = *static_cast<Libraries *>(found);
  if (std::strstr(info->dlpi_name, "equiplugin")) libraries.plugin = range_of(*info);
  if (std::strstr(info->dlpi_name, "libstdc++")) libraries.standard = range_of(*info);
  return 0;
}

std::atomic<long> count{0};
thread_local bool is_counting = false;

bool is_of_plugin() {
  static Libraries libraries;
  if (libraries.plugin.end == 0) dl_iterate_phdr(find_libraries, &libraries);
  if (libraries.plugin.end == 0) return false;
  constexpr int MOST = 20;    // frames that are examined
  static Range own;
  if (own.end == 0) {
    Dl_info info;
    if (!dladdr(reinterpret_cast<void *>(&is_of_plugin), &info)) return false;
    own.begin = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    own.end = own.begin + (1 << 16);
  }
  void *frames[MOST];
  const int number = backtrace(frames, MOST);
  for (int k = 0; k < number; ++k) {
    if (own.holds(frames[k]) || libraries.standard.holds(frames[k])) continue;
    return libraries.plugin.holds(frames[k]);
  }
  return false;
}

bool fails() {
  if (is_counting) return false;
  static bool has_begun = false;
  if (!has_begun) has_begun = std::getenv("EQUI_FAULTS_BEGIN") != nullptr;
  if (!has_begun) return false;
  is_counting = true;
  const bool is_counted = is_of_plugin();
  is_counting = false;
  if (!is_counted) return false;
  static const char *const at = std::getenv("EQUI_FAULT_AT");
  static const bool later = std::getenv("EQUI_FAULT_LATER") != nullptr;
  const long number = count++;
  if (!at) return false;
  const long wanted = std::atol(at);
  return number == wanted || (later && number > wanted);
}

void *allocate(std::size_t size, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
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

__attribute__((destructor)) void write_count() {
  const char *file = std::getenv("EQUI_FAULT_COUNT");
  if (!file || count == 0) return;
  if (FILE *stream = std::fopen(file, "w")) {
    std::fprintf(stream, "%ld\n", count.load());
    std::fclose(stream);
  }
}

}    // namespace

void *operator new(std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
void *operator new[](std::size_t size) {
  return allocate(size, alignof(std::max_align_t));
}
void *operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, alignof(std::max_align_t));
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, alignof(std::max_align_t));
}
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate_or_null(size, static_cast<std::size_t>(alignment));
}
// All forms of operator delete of the C++ library call free(), which accepts memory of posix_memalign.
