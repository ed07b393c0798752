// SPDX-License-Identifier: MIT
// What the sources of the emulated device share.
#ifndef EQUI_EMULATION_ENGINE_H
#define EQUI_EMULATION_ENGINE_H

#include "unittest/emulation/emulation.h"

#include <mutex>
#include <string>

namespace emulation {

// Held by the thread that calls the device or runs its kernels: ranks that are threads take turns.
std::recursive_mutex &device_mutex();

bool random_bit();    // like random_below(2), for millions of decisions

void note_report(const std::string &text);

// Opens the allocation of device memory around an address, if one exists, for a kernel that touches it.
bool open_memory_at(const void *address);
// Closes all open allocations when kernels have ended.
void close_memory();
// A description of what is at an address; empty if it is not memory of the device.
std::string describe_memory(const void *address);
// Whether a word could be an address of host memory that is in use.
bool is_host_address(std::uintptr_t word);

// Does the queued work of all streams, except those on which only other existing threads have work.
void run_queues_of_thread();

// Runs one node as a kernel. Any fault is reported and ends only this kernel.
void run_kernel(const Node &node);
// Reports invalid accesses from here on; those of kernels end only these. For each thread.
void catch_signals();
[[noreturn]] void abandon_launch(const std::string &text);

}    // namespace emulation

#endif
