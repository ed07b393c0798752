// Writes convolution kernels as C++.
//
//   equi_generate list                          keys of the units that every build has
//   equi_generate unit TARGET KEY FILE          kernels of one unit
//   equi_generate index TARGET FILE             the list of the build's units
//   equi_generate library TARGET KEY FILE       kernels of one unit as a library of its own (`equi compile`)
//
// TARGET: avx2 or avx512. KEY: l1, then l2 and l3 of each path, as in 1_01_10_11.
#include "kernel_generator.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

using namespace equi;

const KernelTarget &target_of(const std::string &name) {
  for (const KernelTarget *t : {&AVX2_TARGET, &AVX512_TARGET})
    if (name == t->name) return *t;
  throw std::invalid_argument("expected the target avx2 or avx512, found '" + name + "'");
}

UnitShape shape_of(const std::string &key) {
  const auto fail = [&] { throw std::invalid_argument("expected a key like 1_01_10_11, found '" + key + "'"); };
  UnitShape shape;
  std::istringstream parts(key);
  std::string part;
  for (int n = 0; std::getline(parts, part, '_'); ++n) {
    for (char c : part)
      if (!std::isdigit(static_cast<unsigned char>(c))) fail();
    if (part.size() != (n == 0 ? 1u : 2u)) fail();
    if (n == 0)
      shape.l1 = part[0] - '0';
    else
      shape.paths.push_back({part[0] - '0', part[1] - '0'});
  }
  if (shape.key() != key || shape.paths.empty()) fail();
  return shape;
}

// An unchanged file keeps its time, so that nothing is compiled again.
void write(const std::string &file, const std::string &text) {
  std::ifstream old(file);
  std::stringstream content;
  content << old.rdbuf();
  if (old && content.str() == text) return;
  std::ofstream stream(file);
  stream << text;
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file);
}

void run(const std::vector<std::string> &words) {
  const std::string verb = words.empty() ? "" : words[0];
  if (verb == "list" && words.size() == 1) {
    for (const UnitShape &u : common_units()) std::printf("%s\n", u.key().c_str());
  } else if (verb == "unit" && words.size() == 4) {
    const KernelTarget &target = target_of(words[1]);
    write(words[3], generate_unit(make_unit_schedule(shape_of(words[2]), target), target));
  } else if (verb == "index" && words.size() == 3) {
    write(words[2], generate_unit_list(common_units(), target_of(words[1])));
  } else if (verb == "library" && words.size() == 4) {
    write(words[3], generate_unit_library({shape_of(words[2])}, target_of(words[1])));
  } else {
    throw std::invalid_argument(
        "usage: equi_generate list | unit TARGET KEY FILE | index TARGET FILE | library TARGET KEY FILE");
  }
}

}    // namespace

int main(int argc, char **argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception &e) {
    std::fprintf(stderr, "equi_generate: %s\n", e.what());
    return 1;
  }
  return 0;
}
