// SPDX-License-Identifier: MIT
// Describes the system that a model was made for, and compares two systems.
#include "src/model/mixture.h"

#include "src/document/json_field.h"

#include <algorithm>
#include <numeric>

namespace equi {

namespace {

int64_t number_of_atoms(const AtomicSystem &system) {
  return std::accumulate(system.atoms.begin(), system.atoms.end(), int64_t(0),
                         [](int64_t sum, const auto &of_element) { return sum + of_element.second; });
}

bool has_same_fractions(const AtomicSystem &a, const AtomicSystem &b) {
  const int64_t all_a = number_of_atoms(a), all_b = number_of_atoms(b);
  return std::equal(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), [&](const auto &x, const auto &y) {
    return x.first == y.first && x.second * all_b == y.second * all_a;
  });
}

}    // namespace

std::string formula(const std::vector<int64_t> &numbers, const std::vector<std::string> &elements) {
  std::string text;
  for (size_t s = 0; s < numbers.size(); ++s)
    if (numbers[s] > 0) text += elements[s] + (numbers[s] > 1 ? std::to_string(numbers[s]) : "");
  return text;
}

std::string Mixture::describe() const {
  std::string text;
  const auto add = [&](const char *name, const std::string &value) {
    text += std::string(text.empty() ? "" : ", ") + name + " " + value;
  };
  if (!tasks.empty()) add("task", task);
  const auto add_whole = [&](const char *name, bool depends, SystemInput::Meaning meaning, int number) {
    if (const SystemInput *input = find(meaning))
      add(name, text_of(input->value));
    else if (depends)
      add(name, std::to_string(number));
  };
  add_whole("charge", depends_on_charge, SystemInput::Meaning::charge, charge);
  add_whole("spin", depends_on_spin, SystemInput::Meaning::spin, spin);
  for (const SystemInput &input : inputs)
    if (input.meaning == SystemInput::Meaning::other) add(input.name.c_str(), text_of(input.value));
  return text;
}

bool Mixture::is_usual() const {
  return charge == 0 && spin == 1 &&
         std::all_of(inputs.begin(), inputs.end(), [](const SystemInput &input) { return input.value == input.usual; });
}

const SystemInput *Mixture::find(SystemInput::Meaning meaning) const {
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const SystemInput &input) { return input.meaning == meaning; });
  return found == inputs.end() ? nullptr : &*found;
}

bool Mixture::is_same_for(const AtomicSystem &a, const AtomicSystem &b) const {
  if (a.task != b.task || a.charge != b.charge || a.spin != b.spin || a.inputs != b.inputs) return false;
  if (depends_on_number) return a.atoms == b.atoms;
  return !depends_on_composition || has_same_fractions(a, b);
}

}    // namespace equi
