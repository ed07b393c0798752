// SPDX-License-Identifier: MIT
// What the sources of the emulated device know of each other.
#ifndef EQUI_EMULATION_ENGINE_H
#define EQUI_EMULATION_ENGINE_H

#include "unittest/emulation/emulation.h"

#include <mutex>
#include <string>

namespace emulation {

// Held by the thread that asks something of the device or runs its kernels: ranks that are threads take turns.
std::recursive_mutex &device_mutex();

bool random_bit();    // as random_below(2), for what is decided millions of times

void note_report(const std::string &text);

// Opens the allocation of device memory around an address, if there is one, for a kernel that touches it.
bool open_memory_at(const void *address);
// Closes all that is open, when kernels have ended.
void close_memory();
// What lies at an address, in words; empty if it is not memory of the device.
std::string describe_memory(const void *address);
// Whether a word could be an address of host memory that is in use.
bool is_host_address(std::uintptr_t word);

// The queued work of all streams, but for those on which only other threads that are still there have some.
void run_queues_of_thread();

// Runs one node as a kernel. Whatever goes wrong is reported and ends this kernel alone.
void run_kernel(const Node &node);
// Accesses that go wrong from here on are told in words; those of kernels end these alone. For each thread.
void catch_signals();
[[noreturn]] void abandon_launch(const std::string &text);

}    // namespace emulation

#endif
