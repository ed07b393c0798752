// SPDX-License-Identifier: MIT
// Checks that the reader refuses a file, and its reason.
#ifndef EQUI_TEST_EXPECT_REFUSAL_H
#define EQUI_TEST_EXPECT_REFUSAL_H

#include "src/model/model_file.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace equi {
namespace testing {

// Expects a ModelFileError for the bytes, whose text begins with the file and contains all parts.
inline void expect_refusal(const std::string &bytes, const std::vector<std::string> &parts) {
  try {
    parse_model(bytes, "broken.equi");
    ADD_FAILURE() << "accepted; expected a refusal with " << (parts.empty() ? "" : parts[0]);
  } catch (const ModelFileError &e) {
    const std::string message = e.what();
    EXPECT_EQ(message.find("broken.equi: "), 0u) << message;
    for (const std::string &part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

}    // namespace testing
}    // namespace equi

#endif
