// SPDX-License-Identifier: MIT
// main() of the tests that need Kokkos: starts it with two threads before the first test.
//   --child=TASK --threads=N    runs a task of child_process.h instead
#include "src/evaluation/native_evaluators.h"
#include "unittest/support/child_process.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace equi {
namespace testing {

std::map<std::string, std::function<std::string()>> &child_tasks() {
  static std::map<std::string, std::function<std::string()>> tasks;
  return tasks;
}

std::string run_child(const std::string &task, int num_threads) {
  const std::string command = EQUI_TEST_EMULATOR " '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --child=" + task + " --threads=" + std::to_string(num_threads);
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot start " + command);
  std::string output;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return output;
}

}    // namespace testing
}    // namespace equi

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string task;
  int num_threads = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--child=", 0) == 0)
      task = argument.substr(8);
    else if (argument.rfind("--threads=", 0) == 0)
      num_threads = std::atoi(argument.c_str() + 10);
    else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  equi::start_kokkos(num_threads, 0);
  if (task.empty()) return RUN_ALL_TESTS();
  const auto found = equi::testing::child_tasks().find(task);
  if (found == equi::testing::child_tasks().end()) {
    std::fprintf(stderr, "unknown task %s\n", task.c_str());
    return 2;
  }
  const std::string output = found->second();
  std::fwrite(output.data(), 1, output.size(), stdout);
  return 0;
}
