// SPDX-License-Identifier: MIT
// Memory of the emulated device: allocations in separate pages, which the host cannot access.
#include "unittest/emulation/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sys/mman.h>

namespace emulation {

namespace {

constexpr std::size_t PAGE = 4096;
// Addresses are used only once, so freed memory stays inaccessible.
constexpr std::size_t ADDRESSES = std::size_t(1) << 40;
// Alignment of the beginning of memory; vector loads require no more.
constexpr std::size_t ALIGNMENT = 16;
constexpr int POISON = 0xff;

struct Allocation {
  std::size_t bytes;
  char *pages;    // up to the guard page after it
  std::size_t num_page_bytes;
  Space space;
  std::string label;
  int references;
  bool is_filled = false;    // with POISON
};

char *begin_of_addresses() {
  static char *const begin = [] {
    void *const p = mmap(nullptr, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      std::perror("emulated device: cannot reserve addresses");
      std::abort();
    }
    return static_cast<char *>(p);
  }();
  return begin;
}
char *next_address = nullptr;
// First bytes of what kernels have touched since close_memory(): most kernels do not touch most of the memory.
std::vector<std::uintptr_t> &opened() {
  static auto &all = *new std::vector<std::uintptr_t>;
  return all;
}

// By address of the first byte. Never destroyed, because views may outlive main().
std::map<std::uintptr_t, Allocation> &live() {
  static auto &allocations = *new std::map<std::uintptr_t, Allocation>;
  return allocations;
}
std::map<std::uintptr_t, Allocation> &freed() {
  static auto &allocations = *new std::map<std::uintptr_t, Allocation>;
  return allocations;
}

std::uintptr_t number(const void *p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

// The allocation at or before an address, or end.
template <class Map>
auto before(Map &allocations, std::uintptr_t address) {
  auto a = allocations.upper_bound(address);
  return a == allocations.begin() ? allocations.end() : std::prev(a);
}

void protect(const Allocation &a, bool is_open) {
  if (mprotect(a.pages, a.num_page_bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::perror("emulated device: mprotect");
    std::abort();
  }
}

// Fills what is touched for the first time: much of the largest allocations never is.
void open(Allocation &a) {
  protect(a, true);
  if (!a.is_filled) std::memset(a.pages, POISON, a.num_page_bytes);
  a.is_filled = true;
}

// Bytes around an open allocation that have changed.
void check_surroundings(std::uintptr_t data, const Allocation &a) {
  if (!a.is_filled) return;
  const char *begin = reinterpret_cast<const char *>(data), *end = begin + a.bytes, *last = a.pages + a.num_page_bytes;
  const auto is_changed = [](char byte) { return byte != static_cast<char>(POISON); };
  const char *changed = std::find_if(end, last, is_changed);
  if (changed != last)
    report("a write %td bytes behind the end of '%s' (%zu bytes)", changed - end, a.label.c_str(), a.bytes);
  if (std::find_if(static_cast<const char *>(a.pages), begin, is_changed) != begin)
    report("a write before the begin of '%s' (%zu bytes)", a.label.c_str(), a.bytes);
}

}    // namespace

std::recursive_mutex &device_mutex() {
  static auto &mutex = *new std::recursive_mutex;
  return mutex;
}

bool open_memory_at(const void *address) {
  const std::uintptr_t at = number(address), first = number(begin_of_addresses());
  if (at < first || at >= first + ADDRESSES) return false;
  // The first byte may be after the address, on the same page.
  for (auto a : {before(live(), at), live().upper_bound(at)}) {
    if (a == live().end() || a->second.space != Space::device) continue;
    const std::uintptr_t pages = number(a->second.pages);
    if (at < pages || at >= pages + a->second.num_page_bytes) continue;
    open(a->second);
    opened().push_back(a->first);
    return true;
  }
  return false;
}

void close_memory() {
  for (const std::uintptr_t data : opened()) {
    const auto a = live().find(data);
    if (a != live().end()) protect(a->second, false);
  }
  opened().clear();
}

void *allocate(Space space, std::size_t bytes, const std::string &label) {
  if (is_in_kernel()) report("a kernel allocates '%s'", label.c_str());
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  counts().allocations++;
  if (space == Space::host) {
    void *data = std::malloc(std::max<std::size_t>(1, bytes));
    std::memset(data, POISON, bytes);
    live()[number(data)] = {bytes, nullptr, 0, space, label, 1};
    return data;
  }
  if (is_capturing()) report("'%s' is allocated while a stream is captured", label.c_str());
  catch_signals();
  if (!next_address) next_address = begin_of_addresses() + PAGE;
  const std::size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
                    num_page_bytes = std::max(PAGE, (rounded + PAGE - 1) / PAGE * PAGE);
  Allocation a{bytes, next_address, num_page_bytes, space, label, 1};
  next_address += num_page_bytes + PAGE;
  if (next_address + PAGE > begin_of_addresses() + ADDRESSES) {
    std::fprintf(stderr, "emulated device: no addresses are left\n");
    std::abort();
  }
  if (space != Space::device) open(a);
  char *const data = a.pages + num_page_bytes - rounded;
  live().emplace(number(data), std::move(a));
  return data;
}

void retain(const void *data) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  live().at(number(data)).references++;
}

void release(const void *data) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  const auto found = live().find(number(data));
  if (found == live().end()) {
    const std::string what = describe_memory(data);
    report("memory is freed that is none: %s", what.empty() ? "not an address of the device" : what.c_str());
    return;
  }
  if (--found->second.references > 0) return;
  if (found->second.space == Space::host) {
    std::free(const_cast<void *>(data));
    live().erase(found);
    return;
  }
  if (is_capturing()) report("'%s' is freed while a stream is captured", found->second.label.c_str());
  run_queues_of_thread();
  Allocation &a = found->second;
  protect(a, true);
  check_surroundings(number(data), a);
  // Replaces the mapping, so that it is one area with its surroundings again: the number of areas is limited.
  mmap(a.pages, a.num_page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  freed().emplace(number(data), std::move(a));
  live().erase(found);
}

std::string describe_memory(const void *address) {
  const std::uintptr_t at = number(address), first = number(begin_of_addresses());
  if (at < first || at >= first + ADDRESSES) return "";
  char text[300];
  for (const auto *allocations : {&live(), &freed()}) {
    // The page after belongs to that allocation, and so do all pages before its first byte.
    auto a = before(*allocations, at);
    const char *was_freed = allocations == &freed() ? ", which was freed" : "";
    if (a != allocations->end() && at < number(a->second.pages) + a->second.num_page_bytes + PAGE) {
      const std::size_t offset = at - a->first;
      if (offset < a->second.bytes)
        std::snprintf(text, sizeof text, "byte %zu of '%s' (%zu bytes%s)", offset, a->second.label.c_str(),
                      a->second.bytes, was_freed);
      else
        std::snprintf(text, sizeof text, "%zu bytes behind the end of '%s' (%zu bytes%s)", offset - a->second.bytes,
                      a->second.label.c_str(), a->second.bytes, was_freed);
      return text;
    }
    a = allocations->upper_bound(at);
    if (a != allocations->end() && a->second.pages && at >= number(a->second.pages)) {
      std::snprintf(text, sizeof text, "%zu bytes before the begin of '%s' (%zu bytes%s)", a->first - at,
                    a->second.label.c_str(), a->second.bytes, was_freed);
      return text;
    }
  }
  return "device memory that was never allocated";
}

bool is_host_address(std::uintptr_t word) {
  constexpr std::uintptr_t END_OF_USER = std::uintptr_t(1) << 47;
  if (word < 0x10000 || word >= END_OF_USER) return false;
  const std::uintptr_t first = number(begin_of_addresses());
  if (word >= first && word < first + ADDRESSES) return false;
  // msync fails for addresses that are not in use.
  return msync(reinterpret_cast<void *>(word / PAGE * PAGE), PAGE, MS_ASYNC) == 0;
}

bool is_pinned(const void *data) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  const auto a = before(live(), number(data));
  return a != live().end() && a->second.space == Space::pinned && number(data) < a->first + a->second.bytes;
}

bool check_range(const char *label, const void *data, std::size_t bytes, bool is_device) {
  if (bytes == 0) return true;
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  const std::uintptr_t at = number(data), first = number(begin_of_addresses());
  const bool is_reserved = at >= first && at < first + ADDRESSES;
  const auto a = before(live(), at);
  const bool is_inside = a != live().end() && at < a->first + a->second.bytes && a->second.space != Space::host;
  if (is_inside) {
    if (!is_device && a->second.space == Space::device) {
      report("%s: device memory '%s' where host memory is expected", label, a->second.label.c_str());
      return false;
    }
    if (bytes <= a->first + a->second.bytes - at) return true;
    report("%s: %zu bytes from byte %zu of '%s', which has %zu", label, bytes, at - a->first, a->second.label.c_str(),
           a->second.bytes);
    return false;
  }
  if (!is_device && !is_reserved) return true;
  report("%s: %s where %s memory is expected", label, is_reserved ? describe_memory(data).c_str() : "host memory",
         is_device ? "device" : "host");
  return false;
}

void check_memory() {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  for (const auto &a : live()) {
    if (a.second.space == Space::device) protect(a.second, true);
    check_surroundings(a.first, a.second);
    if (a.second.space == Space::device) protect(a.second, false);
  }
}

std::size_t num_allocations() {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  return live().size();
}

bool &is_tracking() {
  thread_local bool is_on = true;
  return is_on;
}

}    // namespace emulation
