// SPDX-License-Identifier: MIT
// The entry point of fuzzing: the bytes of a model file are processed until an atom would be evaluated. They are read,
// accepted models are planned, and texts are made of kernels that the build does not have. Whatever the bytes are, only
// the error of the reader and the refusals of later steps may be thrown.
#include "unittest/fuzz/fuzz_model.h"

#include "kokkos/plan/evaluation_plan.h"
#include "src/model/model_file.h"
#include "tools/model_kernels.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>

namespace equi {
namespace testing {

// Texts of high orders take a second with sanitizers. A key identifies a text, so each is made once.
constexpr std::size_t MOST_TEXTS = 2;

FuzzOutcome fuzz_model(const std::string &bytes) {
  Model model;
  try {
    model = parse_model(bytes, "fuzz.equi");
  } catch (const ModelFileError &) {
    return FuzzOutcome::refused_by_reader;
  }
  for (const bool deterministic : {false, true})
    for (const bool duals : {false, true}) try {
        make_evaluation_plan(model, deterministic, duals, duals ? 2 : 0);
      } catch (const std::runtime_error &) {
        return FuzzOutcome::refused_by_plan;
      } catch (const std::invalid_argument &) {
        return FuzzOutcome::refused_by_plan;
      }
  static std::set<std::string> made;
  std::size_t count = 0;
  for (const std::string &key : missing_kernels(model)) {
    if (made.count(key) > 0) continue;
    if (count++ == MOST_TEXTS) break;
    made.insert(key);
    for (const char *target : {"avx2", "avx512", "neon"}) kernel_library_of(key, model, kernel_target(target));
  }
  return FuzzOutcome::accepted;
}

}    // namespace testing
}    // namespace equi

// As libFuzzer calls it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  equi::testing::fuzz_model(std::string(reinterpret_cast<const char *>(data), size));
  return 0;
}
