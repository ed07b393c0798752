// SPDX-License-Identifier: MIT
#include "src/model/mixture.h"

namespace equi {

std::string formula(const std::vector<int64_t> &numbers, const std::vector<std::string> &elements) {
  std::string text;
  for (size_t s = 0; s < numbers.size(); ++s)
    if (numbers[s] > 0) text += elements[s] + (numbers[s] > 1 ? std::to_string(numbers[s]) : "");
  return text;
}

std::string Mixture::describe() const {
  return "task " + task + ", charge " + std::to_string(charge) + ", spin " + std::to_string(spin);
}

}    // namespace equi
