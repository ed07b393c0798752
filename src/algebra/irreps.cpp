// SPDX-License-Identifier: MIT
// Parses and prints lists of irreps, and computes their sizes.
#include "src/algebra/irreps.h"

#include "src/base/model_limits.h"
#include "src/base/printable.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <stdexcept>

namespace equi {

namespace {

// Texts come from files, so messages show only the beginning of a long one.
constexpr size_t IRREPS_SHOWN = 60;

[[noreturn]] void bad_part(const std::string &text, const std::string &part, const std::string &why) {
  throw std::invalid_argument("irreps \"" + printable(text, IRREPS_SHOWN) + "\": part \"" +
                              printable(part, IRREPS_SHOWN) + "\" " + why);
}

// Digits of `part` from `pos` on; -1 if there is none. A number above the largest allowed one is returned as that
// number plus one.
int64_t parse_digits(const std::string &part, size_t &pos) {
  if (pos >= part.size() || !std::isdigit(static_cast<unsigned char>(part[pos]))) return -1;
  int64_t value = 0;
  for (; pos < part.size() && std::isdigit(static_cast<unsigned char>(part[pos])); ++pos)
    value = std::min(10 * value + (part[pos] - '0'), MAX_COMPONENTS + 1);
  return value;
}

std::string strip(const std::string &s) {
  size_t b = s.find_first_not_of(' ');
  if (b == std::string::npos) return "";
  return s.substr(b, s.find_last_not_of(' ') - b + 1);
}

}    // namespace

Irreps Irreps::parse(const std::string &text) {
  std::vector<IrrepBlock> blocks;
  if (strip(text).empty()) return Irreps();
  int64_t dim = 0;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find('+', begin);
    if (end == std::string::npos) end = text.size();
    const std::string part = strip(text.substr(begin, end - begin));
    begin = end + 1;

    IrrepBlock block;
    size_t pos = 0;
    int64_t number = parse_digits(part, pos);
    if (number < 0) bad_part(text, part, "does not read like 16x1o or 2e");
    if (pos < part.size() && part[pos] == 'x') {
      if (number < 1) bad_part(text, part, "has no channels");
      block.mul = static_cast<int>(number);
      number = parse_digits(part, ++pos);
      if (number < 0) bad_part(text, part, "does not read like 16x1o or 2e");
    } else {
      block.mul = 1;
    }
    if (number > 1000) bad_part(text, part, "has an l that is too large");
    block.irrep.l = static_cast<int>(number);
    if (pos + 1 != part.size() || (part[pos] != 'e' && part[pos] != 'o'))
      bad_part(text, part, "does not end in one parity letter, e or o");
    block.irrep.p = part[pos] == 'e' ? 1 : -1;

    dim += int64_t(block.mul) * block.irrep.dim();
    if (block.mul > MAX_CHANNELS) bad_part(text, part, "has more than " + std::to_string(MAX_CHANNELS) + " channels");
    if (dim > MAX_COMPONENTS)
      bad_part(text, part, "makes the feature larger than " + std::to_string(MAX_COMPONENTS) + " components");
    if (blocks.size() == MAX_BLOCKS)
      bad_part(text, part, "is one of more than " + std::to_string(MAX_BLOCKS) + " blocks");
    blocks.push_back(block);
  }
  return Irreps(std::move(blocks));
}

std::string Irreps::to_string() const {
  std::string text;
  for (const IrrepBlock &b : blocks_) {
    if (!text.empty()) text += '+';
    text += std::to_string(b.mul) + 'x' + std::to_string(b.irrep.l) + (b.irrep.p > 0 ? 'e' : 'o');
  }
  return text;
}

int Irreps::dim() const {
  return offset(size());
}

int Irreps::offset(int block) const {
  int sum = 0;
  for (int i = 0; i < block; ++i) sum += blocks_[i].dim();
  return sum;
}

int Irreps::lmax() const {
  int l = -1;
  for (const IrrepBlock &b : blocks_)
    if (b.irrep.l > l) l = b.irrep.l;
  return l;
}

}    // namespace equi
