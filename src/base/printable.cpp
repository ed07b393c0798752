// SPDX-License-Identifier: MIT
// Escapes the characters of a text that a terminal would obey or not show.
#include "src/base/printable.h"

#include <cstdint>
#include <cstdio>

namespace equi {

namespace {

// Code points that a terminal obeys or does not show: controls, joiners and other invisible ones, and separators of
// lines. Further kinds reverse the direction of writing, are for private use, or are not characters.
struct CodeRange {
  uint32_t first, last;
};
constexpr CodeRange HIDDEN[] = {{0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},     {0x61C, 0x61C},
                                {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E}, {0x2060, 0x206F},
                                {0xD800, 0xF8FF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFF},
                                {0x1D173, 0x1D17A}, {0xE0000, 0x10FFFF}};

bool is_hidden(uint32_t code) {
  for (const CodeRange &range : HIDDEN)
    if (code >= range.first && code <= range.last) return true;
  return false;
}

// Length of the UTF-8 sequence at text[at] and its code point; 0 if there is none.
size_t decode(const std::string &text, size_t at, uint32_t &code) {
  const auto byte = [&](size_t k) { return at + k < text.size() ? static_cast<unsigned char>(text[at + k]) : 0u; };
  const uint32_t first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const size_t length = first >= 0xC2 && first < 0xE0   ? 2
                        : (first & 0xF0) == 0xE0        ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  if (length == 0) return 0;
  code = first & (0x7Fu >> length);
  for (size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(k) & 0x3F);
  }
  constexpr uint32_t SMALLEST[] = {0, 0, 0x80, 0x800, 0x10000};    // longer sequences than necessary are invalid
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < SMALLEST[length] || code > 0x10FFFF || is_surrogate ? 0 : length;
}

}    // namespace

std::string printable(const std::string &text, size_t limit) {
  std::string shown;
  size_t length = 0;    // in characters
  for (size_t at = 0; at < text.size();) {
    uint32_t code = 0;
    const size_t bytes = decode(text, at, code);
    std::string piece;
    char escaped[16];
    if (bytes == 0 || (code < 0x80 && is_hidden(code))) {
      if (text[at] == '\n' || text[at] == '\r' || text[at] == '\t')
        std::snprintf(escaped, sizeof escaped, "\\%c", text[at] == '\n' ? 'n' : text[at] == '\r' ? 'r' : 't');
      else
        std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(text[at])));
      piece = escaped;
    } else if (is_hidden(code)) {
      std::snprintf(escaped, sizeof escaped, "\\u{%x}", static_cast<unsigned>(code));
      piece = escaped;
    } else {
      piece = text.substr(at, bytes);
    }
    length += piece[0] == '\\' ? piece.size() : 1;
    if (length > limit) return shown + "...";
    shown += piece;
    at += bytes == 0 ? 1 : bytes;
  }
  return shown;
}

}    // namespace equi
