// SPDX-License-Identifier: MIT
// Tasks that a test runs in a second process of its own executable, for settings that are fixed once per process
// (Kokkos's threads).
#ifndef EQUI_TEST_CHILD_PROCESS_H
#define EQUI_TEST_CHILD_PROCESS_H

#include <functional>
#include <map>
#include <string>

namespace equi {
namespace testing {

// By name; the return value of a task is written to standard output.
std::map<std::string, std::function<std::string()>> &child_tasks();

// The output of a task in a process with num_threads threads; the process runs in the emulator if programs are for
// another processor. Throws std::runtime_error if it fails.
std::string run_child(const std::string &task, int num_threads);

}    // namespace testing
}    // namespace equi

#endif
