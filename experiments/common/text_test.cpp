// Tables, durations, quoting.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace crosstalk::program {
namespace {

TEST(Text, JoinsAndCounts) {
  EXPECT_EQ(join({"a", "b", "c"}, ", ", " or "), "a, b or c");
  EXPECT_EQ(join({"a"}, ", ", " or "), "a");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(plural(1, "run"), "1 run");
  EXPECT_EQ(plural(0, "run"), "0 runs");
  EXPECT_EQ(span(3, 3), "3");
  EXPECT_EQ(span(3, 5), "3..5");
}

TEST(Text, NumbersAreFlushRightAndWordsFlushLeft) {
  EXPECT_EQ(table({{"label", "runs", "note"}, {"x", "1234", "ok"}, {"longer", "5", ""}}),
            "label   runs  note\n"
            "x       1234  ok\n"
            "longer     5\n");
}

TEST(Text, TablesCountCharactersNotBytes) {
  EXPECT_EQ(table({{"a", "b"}, {"\u03c6\u03c6", "x"}, {"yyy", "z"}}), "a    b\n\u03c6\u03c6   x\nyyy  z\n");
}

TEST(Text, WrapLeavesEquationsAlone) {
  EXPECT_EQ(wrap("one two three four\n\n  S_t = S_{t-1} + v k^T\nfive", 9, "  "),
            "  one two\n  three\n  four\n\n    S_t = S_{t-1} + v k^T\n  five\n");
}

TEST(Text, TwoColumnsBreakLongHeads) {
  EXPECT_EQ(two_columns({{"a", "help"}, {"abcdefgh", "more\nlines"}}, 6, 40),
            "  a   help\n  abcdefgh\n      more\n      lines\n");
}

TEST(Text, Durations) {
  EXPECT_EQ(duration(0.42), "0.4 s");
  EXPECT_EQ(duration(9.96), "10 s");
  EXPECT_EQ(duration(59.6), "1 min 0 s");
  EXPECT_EQ(duration(3599.6), "1 h 0 min");
  EXPECT_EQ(duration(2 * 3600 + 5 * 60), "2 h 5 min");
  EXPECT_EQ(duration(50 * 3600), "2 d 2 h");
  EXPECT_EQ(duration(std::numeric_limits<double>::quiet_NaN()), "?");
  EXPECT_FALSE(duration(std::numeric_limits<double>::infinity()).empty());
}

TEST(Text, AShellReadsQuotedWordsBack) {
  const std::vector<std::string> words = {"plain",      "two words",   "it's", "$HOME", "`x`",
                                          "",           "a\"b",        "*",    "~",     "\\n",
                                          "task.x=1,2", "line\nbreak", "!",    "#c",    "\u03c6"};
  const std::string command = "printf '%s|' " + shell_quote(words);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  ASSERT_TRUE(pipe);
  std::string read;
  for (int c; (c = std::fgetc(pipe.get())) != EOF;) read += static_cast<char>(c);
  EXPECT_EQ(read, join(words, "|") + "|");
  EXPECT_EQ(shell_quote("runs/a-1.toml"), "runs/a-1.toml");
}

TEST(Text, JsonKeepsTypesAndSurvivesBadBytes) {
  Options options;
  options.set("a.int", std::int64_t{3});
  options.set("a.float", 0.001);
  options.set("a.flag", true);
  options.set("a.word", std::string("x"));
  EXPECT_EQ(to_json(options).dump(), R"({"a.flag":true,"a.float":0.001,"a.int":3,"a.word":"x"})");
  EXPECT_NO_THROW(dump({{"bad", "\xff"}}));
}

}  // namespace
}  // namespace crosstalk::program
