// SPDX-License-Identifier: MIT
// Text of a file reaches a terminal as visible characters of one line, identical in Python and C++.
#include "src/base/printable.h"

#include <gtest/gtest.h>
#include <string>
#include <utility>

using equi::printable;

// The same table is in unittest/tools/files/test_printable.py.
TEST(Printable, what_a_terminal_would_obey_is_written_out) {
  const std::pair<std::string, const char *> cases[] = {
      {"plain text, \\ and \"quotes\"", "plain text, \\ and \"quotes\""},
      {"Ångström, 東京, 😀", "Ångström, 東京, 😀"},
      {"a\nb\r\tc", "a\\nb\\r\\tc"},
      {std::string("\x1b[31mred\x07\0\x7f", 11), "\\x1b[31mred\\x07\\x00\\x7f"},
      {"\u009b2J\u0085", "\\u{9b}2J\\u{85}"},
      {"\u202egnp.\u2066\u200b\u2028\ufeff", "\\u{202e}gnp.\\u{2066}\\u{200b}\\u{2028}\\u{feff}"},
      {"\u061c\u00ad\ue000\U000e0041", "\\u{61c}\\u{ad}\\u{e000}\\u{e0041}"},
      {"\xff\xc0\x80", "\\xff\\xc0\\x80"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
      {"cut \xe6\x9d", "cut \\xe6\\x9d"},
      {"\xe6\x9d!", "\\xe6\\x9d!"}};
  for (const auto &[text, shown] : cases) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(shown), shown);
  }
}

TEST(Printable, long_text_is_cut_between_characters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("abcd\x1b", 6), "abcd...");
  EXPECT_EQ(printable("東京東京", 3), "東京東...");
}
