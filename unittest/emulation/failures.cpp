// SPDX-License-Identifier: MIT
// Reports of the emulated device as failures of the running test.
#include "unittest/emulation/emulation.h"

#include <gtest/gtest.h>

namespace {

class Listener : public ::testing::EmptyTestEventListener {
  void OnTestProgramStart(const ::testing::UnitTest &) override {
    emulation::set_report_handler([](const std::string &text) { ADD_FAILURE() << "emulated device: " << text; });
    std::printf("Random orders follow from EQUI_EMULATION_SEED=%llu\n",
                static_cast<unsigned long long>(emulation::environment_seed()));
  }
  // A test has the same orders alone and together with others.
  void OnTestStart(const ::testing::TestInfo &test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    emulation::set_seed(emulation::environment_seed() ^ std::hash<std::string>()(name));
  }
  void OnTestEnd(const ::testing::TestInfo &) override {
    emulation::check_streams();
    emulation::check_memory();
  }
};

const bool IS_LISTENING = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

}    // namespace
