// SPDX-License-Identifier: MIT
// Reports of faults, and chance.
#include "unittest/emulation/engine.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

namespace emulation {

namespace {

std::uint64_t first_seed() {
  const char *text = std::getenv("EQUI_EMULATION_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

ReportHandler handler = nullptr;
std::vector<std::string> *collected = nullptr;    // of reports_of()
int num_bits = 0;                                 // bits left for random_bit()
std::mt19937_64 &random_numbers() {
  static std::mt19937_64 numbers(first_seed());
  return numbers;
}

}    // namespace

void note_report(const std::string &text) {
  if (collected)
    collected->push_back(text);
  else if (handler)
    handler(text);
  else
    std::fprintf(stderr, "emulated device: %s\n", text.c_str());
}

void report(const char *format, ...) {
  char text[1000];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (is_in_kernel()) abandon_launch(text);
  note_report(text);
}

void set_report_handler(ReportHandler h) {
  handler = h;
}

std::vector<std::string> reports_of(const std::function<void()> &f) {
  std::vector<std::string> texts;
  collected = &texts;
  try {
    f();
  } catch (...) {
    collected = nullptr;
    throw;
  }
  collected = nullptr;
  return texts;
}

void set_seed(std::uint64_t seed) {
  const std::lock_guard<std::recursive_mutex> lock(device_mutex());
  random_numbers().seed(seed);
  num_bits = 0;
}

int num_lanes() {
  static const char *text = std::getenv("EQUI_EMULATED_LANES");
  return text ? std::atoi(text) : 512;
}

std::uint64_t environment_seed() {
  static const std::uint64_t seed = first_seed();
  return seed;
}

std::int64_t random_below(std::int64_t n) {
  return n < 2 ? 0 : static_cast<std::int64_t>(random_numbers()() % static_cast<std::uint64_t>(n));
}

bool random_bit() {
  static std::uint64_t bits;
  if (num_bits == 0) {
    bits = random_numbers()();
    num_bits = 64;
  }
  return bits >> --num_bits & 1;
}

RandomOrder::RandomOrder(std::int64_t n) : n_(n) {
  if (n < 2) return;
  do factor_ = 1 + random_below(n - 1);
  while (std::gcd(factor_, n) != 1);
  shift_ = random_below(n);
}

}    // namespace emulation
