// SPDX-License-Identifier: MIT
// Makes tiny random models. The code of the maker is large, so it is compiled only here and not in each test.
#include "unittest/support/model_builder.h"

namespace equi {
namespace testing {

ModelDocument make_tiny_model(const TinyModelOptions &options) {
  return TinyModelMaker(options).make();
}

}    // namespace testing
}    // namespace equi
