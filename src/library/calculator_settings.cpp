// SPDX-License-Identifier: MIT
// The table of the keywords of libequi.so, and the reader of their values.
#include "src/library/calculator_settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <locale>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace equi {

namespace {

std::optional<int> whole_number(const std::string &word) {
  int number = 0;
  const char *first = word.data() + (word.size() > 1 && word[0] == '+' ? 1 : 0), *last = word.data() + word.size();
  const auto [end, fault] = std::from_chars(first, last, number);
  return fault == std::errc() && end == last ? std::optional<int>(number) : std::nullopt;
}

// In the notation of C, whatever the locale of the process.
std::optional<double> real_number(const std::string &word) {
  std::istringstream text(word);
  text.imbue(std::locale::classic());
  double number = 0.0;
  text >> number;
  return !text.fail() && text.peek() == std::istringstream::traits_type::eof() ? std::optional<double>(number)
                                                                               : std::nullopt;
}

// The value of a keyword that is being read: words, of which `word` is the present one.
struct Value {
  std::string keyword, choices, word;
  std::vector<std::string> words;

  [[noreturn]] void refuse() const {
    throw std::invalid_argument("keyword " + keyword + " must be " + choices + ", not " + word);
  }
  int integer() const {
    const std::optional<int> number = whole_number(word);
    if (!number) refuse();
    return *number;
  }
  double finite() const {
    const std::optional<double> number = real_number(word);
    if (!number || !std::isfinite(*number)) refuse();
    return *number;
  }
  double positive(double scale) const {
    const double number = finite();
    if (!(number > 0.0)) refuse();
    return scale * number;
  }
  bool is_first_of_two(const char *first, const char *second) const {
    if (word != first && word != second) refuse();
    return word == first;
  }
};

struct Keyword {
  const char *name, *choices;
  void (*read)(const Value &value, CalculatorSettings &settings);
  int num_words = 1;
};

void read_precision(const Value &value, CalculatorSettings &settings) {
  settings.options.precision = value.is_first_of_two("double", "mixed") ? Precision::double_ : Precision::mixed;
}

void read_radial(const Value &value, CalculatorSettings &settings) {
  settings.options.radial_exact = value.word == "exact";
  settings.options.radial_tolerance = settings.options.radial_exact ? 0.0 : value.positive(1.0);
  if (settings.options.radial_tolerance >= 1.0) value.refuse();
}

void read_memory(const Value &value, CalculatorSettings &settings) {
  settings.options.lean = value.word == "lean";
  if (value.word == "auto" || value.word == "lean" || value.word == "unlimited")
    settings.memory_limit = value.word == "unlimited" ? 0.0 : -1.0;
  else
    settings.memory_limit = value.positive(1e9);
}

void read_kernels(const Value &value, CalculatorSettings &settings) {
  using Kernels = CalculatorSettings::Kernels;
  if (value.word == "auto")
    settings.kernels = Kernels::automatic;
  else
    settings.kernels = value.is_first_of_two("host", "device") ? Kernels::host : Kernels::device;
}

void read_system(const Value &value, CalculatorSettings &settings) {
  const std::string &name = value.words.front();
  if (!settings.system.inputs.emplace(name, value.finite()).second)
    throw std::invalid_argument("keyword system sets " + name + " twice");
}

void read_field(const Value &value, CalculatorSettings &settings) {
  Value component = value;
  for (std::size_t k = 0; k < settings.field.size(); ++k) {
    component.word = value.words[k];
    settings.field[k] = component.finite();
  }
}

// In the order of the error that lists them. doc/c_interface.rst has them, too, and a test compares the two.
const Keyword KEYWORDS[] = {
    {"precision", "mixed or double", read_precision},
    {"radial", "table TOLERANCE, TOLERANCE between 0 and 1, or exact", read_radial},
    {"memory", "GB, auto, lean or unlimited", read_memory},
    {"deterministic", "yes or no",
     [](const Value &value, CalculatorSettings &settings) {
       settings.options.deterministic = value.is_first_of_two("yes", "no");
     }},
    {"kernels", "auto, device or host", read_kernels},
    {"forces", "energy or direct",
     [](const Value &value, CalculatorSettings &settings) {
       settings.forces_of = value.is_first_of_two("energy", "direct") ? ForcesOf::energy : ForcesOf::features;
     }},
    {"open", "framework or exact",
     [](const Value &value, CalculatorSettings &settings) {
       settings.options.open = value.is_first_of_two("framework", "exact") ? OpenSum::framework : OpenSum::exact;
     }},
    {"task", "the name of a data set",
     [](const Value &value, CalculatorSettings &settings) { settings.system.task = value.word; }},
    {"charge", "a whole number",
     [](const Value &value, CalculatorSettings &settings) { settings.system.charge = value.integer(); }},
    {"spin", "a whole number",
     [](const Value &value, CalculatorSettings &settings) { settings.system.spin = value.integer(); }},
    {"system", "the name of an input and a number", read_system, 2},
    {"field", "three numbers, V/Angstrom", read_field, 3},
    {"threads", "a whole number above 0",
     [](const Value &value, CalculatorSettings &settings) {
       settings.num_threads = value.integer();
       if (settings.num_threads < 1) value.refuse();
     }},
};

// Keywords of the pair style that belong to LAMMPS's runs.
const char *const OF_PAIR_STYLE[] = {"reference", "check", "batch", "exchange", "graphs", "overlap"};

}    // namespace

CalculatorSettings read_calculator_settings(const std::string &keywords) {
  std::istringstream text(keywords);
  const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  CalculatorSettings settings;
  for (std::size_t w = 0; w < words.size(); ++w) {
    const std::string &word = words[w];
    const auto *known = std::find_if(std::begin(KEYWORDS), std::end(KEYWORDS),
                                     [&](const Keyword &keyword) { return word == keyword.name; });
    if (known == std::end(KEYWORDS)) {
      if (std::find(std::begin(OF_PAIR_STYLE), std::end(OF_PAIR_STYLE), word) != std::end(OF_PAIR_STYLE))
        throw std::invalid_argument("keyword " + word + " belongs to runs of LAMMPS: use pair_style equi");
      std::string names;
      for (const Keyword &keyword : KEYWORDS) names += (names.empty() ? "" : ", ") + std::string(keyword.name);
      throw std::invalid_argument("unknown keyword " + word + "; known are " + names);
    }
    Value value{word, known->choices, "", {}};
    if (word == "radial" && w + 1 < words.size() && words[w + 1] == "table") ++w;
    for (int n = 0; n < known->num_words; ++n) {
      if (++w == words.size()) throw std::invalid_argument("keyword " + word + " needs a value: " + known->choices);
      value.words.push_back(words[w]);
    }
    value.word = value.words.back();
    known->read(value, settings);
  }
  if (settings.has_field() && settings.forces_of == ForcesOf::features)
    throw std::invalid_argument("a field acts on forces that are derivatives of the energy: leave out forces direct");
  return settings;
}

}    // namespace equi
