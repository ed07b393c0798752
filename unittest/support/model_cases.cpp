// SPDX-License-Identifier: MIT
// Makes the models of the cases that the laws run on.
#include "unittest/support/model_cases.h"

#include "unittest/support/model_builder.h"

#include <string>

namespace equi {
namespace testing {

Model TinyCase::model() const {
  ModelDocument d = make_tiny_model(options);
  for (auto &layer : d.document["layers"]) {
    if (layer["type"] != "gate") continue;
    for (auto &term : layer["terms"]) {
      if (term["activation"] == "tanh") continue;
      const std::string &a = term.contains("gate_in") ? gate_activation : scalar_activation;
      if (!a.empty()) term["activation"] = a;
    }
  }
  return reads_twice ? with_features_read_twice(d.model()) : d.model();
}

}    // namespace testing
}    // namespace equi
