// SPDX-License-Identifier: MIT
#ifndef EQUI_TEST_FUZZ_MODEL_H
#define EQUI_TEST_FUZZ_MODEL_H

#include <string>

namespace equi {
namespace testing {

enum class FuzzOutcome { refused_by_reader, refused_by_plan, accepted };

// Reads the bytes of a model file, plans its evaluation and makes the texts of its kernels. A fault that is not a
// refusal leaves it as an exception or ends the process.
FuzzOutcome fuzz_model(const std::string &bytes);

}    // namespace testing
}    // namespace equi

#endif
