// SPDX-License-Identifier: MIT
// Fuzzing without libFuzzer: tiny models of all families are the corpus, whose documents and bytes are changed at
// random. Each execution has its own seed, so that it can be repeated alone.
//
//   fuzz_model SECONDS [SEED]           as many executions as fit into the time
//   fuzz_model --only NUMBER [SEED]     one of them, whose bytes are written into the file fuzz.equi
//   fuzz_model --corpus FOLDER          writes the corpus, for libFuzzer
#include "unittest/fuzz/fuzz_model.h"
#include "unittest/support/mixture_builder.h"
#include "unittest/support/model_cases.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace equi;
using namespace equi::testing;

// An input that takes longer makes the reader follow a number of the file.
constexpr double SLOW = 30.0;    // seconds, with sanitizers

class Mutator {
 public:
  explicit Mutator(unsigned seed, unsigned number) {
    std::seed_seq seeds{seed, number};
    random_.seed(seeds);
  }

  std::string mutant(const std::vector<ModelDocument> &corpus) {
    ModelDocument d = corpus[below(corpus.size())];
    // Most executions change little, so some mutants are accepted.
    const int changes = 1 + static_cast<int>(below(3));
    for (int k = 0; k < changes; ++k) change(d.document, corpus);
    std::string bytes;
    if (below(8) == 0) {
      Json header = d.header();
      change(header, corpus);
      bytes = ModelDocument::container(header.dump(-1, ' ', false, Json::error_handler_t::replace), d.data());
    } else {
      bytes = d.bytes();
    }
    if (below(6) == 0) spoil(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  // A value of the document; each level is equally likely.
  Json &place(Json &document) {
    Json *at = &document;
    while (at->is_structured() && !at->empty() && (at == &document || below(5) != 0)) {
      auto next = at->begin();
      std::advance(next, below(at->size()));
      at = &*next;
    }
    return *at;
  }

  void change(Json &document, const std::vector<ModelDocument> &corpus) {
    Json &value = place(document);
    switch (below(7)) {
      case 0:
        value = odd_value();
        break;
      case 1: {    // a value of another model
        Json other = corpus[below(corpus.size())].document;
        value = place(other);
        break;
      }
      case 2: {    // of this one
        const Json other = place(document);
        value = other;
        break;
      }
      case 3:
        if (value.is_structured() && !value.empty()) {
          auto gone = value.begin();
          std::advance(gone, below(value.size()));
          value.erase(gone);
        }
        break;
      case 4:
        if (value.is_array() && !value.empty())
          value.insert(value.begin() + below(value.size()), value[below(value.size())]);
        break;
      case 5:
        change_number(value);
        break;
      default:
        change_text(value);
    }
  }

  Json odd_value() {
    static const std::vector<Json> odd = {nullptr,
                                          true,
                                          -1,
                                          0,
                                          1,
                                          2,
                                          8,
                                          12,
                                          2147483647,
                                          -2147483648LL,
                                          1e308,
                                          -0.5,
                                          1e-320,
                                          18446744073709551615ULL,
                                          "",
                                          "x",
                                          "silu",
                                          "1x0e",
                                          "4x0e+1x1o",
                                          "999999999x8e",
                                          "0x0e",
                                          "1x0e+",
                                          std::string(1000, '+'),
                                          Json::array(),
                                          Json::object(),
                                          Json::array({Json::array()})};
    return odd[below(odd.size())];
  }

  void change_number(Json &value) {
    if (value.is_number_integer()) {
      value = value.get<int64_t>() + (below(2) ? 1 : -1);
    } else if (value.is_number()) {
      static const std::array<double, 5> factors = {-1.0, 0.0, 1e-12, 1e12, 1.5};
      value = value.get<double>() * factors[below(factors.size())];
    } else if (value.is_boolean()) {
      value = !value.get<bool>();
    }
  }

  // Changes irreps and names.
  void change_text(Json &value) {
    if (!value.is_string()) return;
    std::string text = value.get<std::string>();
    static const std::string letters = "0123456789xeo+- a";
    const char letter = letters[below(letters.size())];
    const std::size_t at = below(text.size() + 1);
    if (at < text.size() && below(2))
      text[at] = letter;
    else
      text.insert(at, 1, letter);
    value = text;
  }

  void spoil(std::string &bytes) {
    if (bytes.empty()) return;
    if (below(3) == 0) {
      bytes.resize(below(bytes.size()));
      return;
    }
    for (std::size_t k = 0, times = 1 + below(4); k < times; ++k)
      bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
  }

  std::mt19937_64 random_;
};

std::vector<ModelDocument> make_corpus() {
  std::vector<ModelDocument> corpus;
  for (const TinyCase &c : all_cases()) corpus.push_back(make_tiny_model(c.options));
  corpus.push_back(with_mixture(corpus.front()));
  return corpus;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The fault; empty if there was none.
std::string execute(const std::string &bytes, std::array<long, 3> &outcomes) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    ++outcomes[static_cast<int>(fuzz_model(bytes))];
  } catch (const std::exception &e) {
    return std::string("an exception: ") + e.what();
  }
  return seconds_since(begin) > SLOW ? "it took too long" : "";
}

int run(const std::vector<std::string> &words) {
  const std::vector<ModelDocument> corpus = make_corpus();
  if (words.size() == 2 && words[0] == "--corpus") {
    for (std::size_t k = 0; k < corpus.size(); ++k) corpus[k].write(words[1] + "/" + std::to_string(k) + ".equi");
    return 0;
  }
  const bool one = words.size() > 1 && words[0] == "--only";
  const std::size_t of_seed = one ? 2 : 1;
  const unsigned seed = words.size() > of_seed ? std::atoi(words[of_seed].c_str()) : 1;
  const double seconds = one ? 0.0 : std::atof(words[0].c_str());
  const auto begin = std::chrono::steady_clock::now();
  std::array<long, 3> outcomes = {};
  unsigned number = one ? std::atoi(words[1].c_str()) : 0;
  for (;; ++number) {
    if (!one && seconds_since(begin) > seconds) break;
    // If a sanitizer ends the process, the last number that was written identifies the execution.
    if (FILE *last = std::fopen("fuzz_last", "w")) {
      std::fprintf(last, "%u %u\n", number, seed);
      std::fclose(last);
    }
    const std::string bytes = Mutator(seed, number).mutant(corpus);
    if (one) std::ofstream("fuzz.equi", std::ios::binary) << bytes;
    const std::string fault = execute(bytes, outcomes);
    if (!fault.empty()) {
      std::printf("execution %u of seed %u: %s\n", number, seed, fault.c_str());
      return 1;
    }
    if (one) break;
  }
  std::printf("%ld executions with seed %u: the reader refused %ld, the plan %ld, and %ld were accepted\n",
              outcomes[0] + outcomes[1] + outcomes[2], seed, outcomes[0], outcomes[1], outcomes[2]);
  return 0;
}

}    // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::printf("usage: fuzz_model SECONDS [SEED] | --only NUMBER [SEED] | --corpus FOLDER\n");
    return 2;
  }
  return run({argv + 1, argv + argc});
}
