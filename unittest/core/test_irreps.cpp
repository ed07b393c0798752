// SPDX-License-Identifier: MIT
// Texts of irreps, and the features that they describe.
#include "src/algebra/irreps.h"

#include <gtest/gtest.h>
#include <stdexcept>

using namespace equi;

TEST(Irreps, parse_and_print_agree) {
  const Irreps irreps = Irreps::parse("128x0e+64x1o + 2e");
  EXPECT_EQ(irreps.to_string(), "128x0e+64x1o+1x2e");
  EXPECT_EQ(Irreps::parse(irreps.to_string()), irreps);
  ASSERT_EQ(irreps.size(), 3);
  EXPECT_EQ(irreps[1], (IrrepBlock{64, {1, -1}}));
}

TEST(Irreps, keep_order_and_do_not_merge) {
  const Irreps irreps = Irreps::parse("2x1e+3x0e+4x1e");
  EXPECT_EQ(irreps.to_string(), "2x1e+3x0e+4x1e");
  EXPECT_NE(irreps, Irreps::parse("3x0e+6x1e"));
}

TEST(Irreps, count_components) {
  const Irreps irreps = Irreps::parse("128x0e+64x1e+32x2e");
  EXPECT_EQ(irreps.dim(), 480);
  EXPECT_EQ(irreps.offset(0), 0);
  EXPECT_EQ(irreps.offset(1), 128);
  EXPECT_EQ(irreps.offset(2), 320);
  EXPECT_EQ(irreps.lmax(), 2);
  EXPECT_EQ(Irreps().dim(), 0);
  EXPECT_EQ(Irreps().lmax(), -1);
  EXPECT_EQ(Irreps::parse("").size(), 0);
}

TEST(Irreps, parse_refuses_with_the_text_and_its_part) {
  for (const char *part : {"3x", "x0e", "3y0e", "0e1", "3x1", "1x1u", "0x1e", "-1x0e", "99999999999999999999x0e",
                           "1x99999999999e", "1.5x0e", "20000000x0e", "e", "3x 1e"}) {
    const std::string text = std::string("2x0e+") + part;
    try {
      Irreps::parse(text);
      FAIL() << text;
    } catch (const std::invalid_argument &e) {
      const std::string message = e.what();
      EXPECT_NE(message.find("\"" + text + "\""), std::string::npos) << message;
      EXPECT_NE(message.find("\"" + std::string(part) + "\""), std::string::npos) << message;
    }
  }
  EXPECT_THROW(Irreps::parse("1x0e+"), std::invalid_argument);
  EXPECT_THROW(Irreps::parse("+1x0e"), std::invalid_argument);
}
