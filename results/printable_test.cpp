// Somebody else's text made harmless.
// SPDX-License-Identifier: Apache-2.0
#include "results/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace crosstalk {
namespace {

TEST(Printable, WhatActsIsSpelledOut) {
  EXPECT_EQ(printable("plain, text\twith\nlines"), "plain, text\twith\nlines");
  EXPECT_EQ(printable("\xCE\xBB \xC3\xA9 \xF0\x9D\x9C\x86 \xE2\x80\x94"),
            "\xCE\xBB \xC3\xA9 \xF0\x9D\x9C\x86 \xE2\x80\x94");
  EXPECT_EQ(printable("\x1B[31mred"), "\\u001b[31mred");
  EXPECT_EQ(printable(std::string_view("a\0b\r\x7F", 5)), "a\\u0000b\\u000d\\u007f");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // C1 as UTF-8
  EXPECT_EQ(printable("\x9B"
                      "31m"),
            "\\ufffd31m");  // C1 as a byte
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u202eb");  // right to left
  EXPECT_EQ(printable("\xE2\x81\xA6\xEF\xBB\xBF"), "\\u2066\\ufeff");
  EXPECT_EQ(printable("\xF3\xA0\x81\x81"), "\\udb40\\udc41");  // a tag
  EXPECT_EQ(printable("\xC0\x80\xED\xA0\x80\xE2\x82"), "\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd");
  EXPECT_EQ(printable_line("a\nb\tc"), "a\\u000ab\\u0009c");
}

TEST(Printable, JsonStaysTheSameValue) {
  const std::string text = "\x1B\xC2\x9B\xE2\x80\xAE\xF3\xA0\x81\x81\x7F\xCE\xBB";
  const std::string json = nlohmann::json(text).dump();
  ASSERT_NE(printable(json), json);
  EXPECT_EQ(nlohmann::json::parse(printable(json)), text);
}

TEST(Printable, CutCharacters) {
  EXPECT_EQ(cut_character("a"), 0u);
  EXPECT_EQ(cut_character(""), 0u);
  EXPECT_EQ(cut_character("a\xCE"), 1u);
  EXPECT_EQ(cut_character("a\xCE\xBB"), 0u);
  EXPECT_EQ(cut_character("\xF0\x9D\x9C"), 3u);
  EXPECT_EQ(cut_character("\xF0\x9D"), 2u);
  EXPECT_EQ(cut_character("\x80\x80\x80\x80"), 0u);
}

TEST(Printable, LongTextKeepsItsEnds) {
  EXPECT_EQ(shortened("short"), "short");
  const std::string text = shortened(std::string(5000, 'a') + std::string(1000000, 'b') + "end");
  EXPECT_LT(text.size(), 4100u);
  EXPECT_EQ(text.substr(0, 2), "aa");
  EXPECT_EQ(text.substr(text.size() - 3), "end");
  EXPECT_NE(text.find("1001003 bytes left out"), std::string::npos) << text;
  std::string greek;
  for (int i = 0; i < 10000; ++i) greek += "\xCE\xBB";
  EXPECT_EQ(printable(shortened(greek, 4001)).find("ufffd"), std::string::npos);
}

}  // namespace
}  // namespace crosstalk
