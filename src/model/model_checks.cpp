// SPDX-License-Identifier: MIT
// Checks before an evaluation, with the errors that users see.
#include "src/model/model_checks.h"

#include "src/model/model_file.h"

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <system_error>

namespace equi {

namespace {

std::string lower_case(std::string text) {
  for (char &c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

int64_t sum(const std::vector<int64_t> &numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t(0));
}

}    // namespace

std::string read_potential_bytes(const std::string &path) {
  try {
    return read_file_bytes(path);
  } catch (const ModelFileError &fault) {
    const char *variable = std::getenv("LAMMPS_POTENTIALS");
    std::error_code none;    // no folder: an empty name
    throw std::runtime_error(std::string(fault.what()) + "; it was searched for in " +
                             std::filesystem::current_path(none).string() + " and in LAMMPS_POTENTIALS (" +
                             (variable ? variable : "not set") + "); 'equi convert' makes model files");
  }
}

void check_element(const Model &model, const std::string &symbol, const std::string &place) {
  if (model.species(symbol) >= 0) return;
  std::string known, meant;
  for (const std::string &element : model.elements) {
    known += " " + element;
    if (lower_case(element) == lower_case(symbol)) meant = ": did you mean " + element + "?";
  }
  throw std::runtime_error(model.file + " does not know element " + symbol + place + meant +
                           "; its elements are:" + known);
}

void check_task(const Model &model, const AtomicSystem &system) {
  if (!model.mixture || model.mixture->tasks.size() <= 1 || !system.task.empty()) return;
  std::string known;
  for (const std::string &task : model.mixture->tasks) known += " " + task;
  throw std::runtime_error(model.file + " has several tasks: choose one by the keyword task:" + known);
}

std::string composition_fault(const Model &model, const std::map<std::string, int64_t> &atoms) {
  if (model.composition.empty()) return "";
  std::vector<int64_t> numbers(model.composition.size(), 0);
  for (const auto &[symbol, number] : atoms) numbers[model.species(symbol)] = number;
  const int64_t all = sum(numbers), in_formula = sum(model.composition);
  bool is_valid = all == 0 || all == in_formula || !model.mixture || !model.mixture->depends_on_number;
  for (std::size_t s = 0; s < numbers.size(); ++s)
    is_valid = is_valid && numbers[s] * in_formula == model.composition[s] * all;
  if (is_valid) return "";
  return model.file + " holds for the composition " + formula(model.composition, model.elements) +
         " alone, for which its numbers were made, and the atoms are " + formula(numbers, model.elements);
}

}    // namespace equi
