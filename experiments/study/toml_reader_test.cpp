// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/toml_reader.h"

#include <gtest/gtest.h>

namespace crosstalk {
namespace {

TomlError error_of(const std::string& text) {
  try {
    parse_toml(text);
  } catch (const TomlError& error) {
    return error;
  }
  ADD_FAILURE() << "parsed: " << text.substr(0, 200);
  return {{}, ""};
}

void expect_error(const std::string& text, int line, int column, const std::string& part) {
  const TomlError error = error_of(text);
  EXPECT_EQ(error.at.line, line) << text.substr(0, 200) << "\n" << error.what();
  EXPECT_EQ(error.at.column, column) << text.substr(0, 200) << "\n" << error.what();
  EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
}

TEST(TomlReader, KeepsOrderAndPlaces) {
  const TomlNode root = parse_toml("[zebra]\n  b.x = 1\n  a = [true, 2.5]\n[ant]\ns = 'q'\n");
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(root.entries[0].key, "zebra");
  EXPECT_EQ(root.entries[1].key, "ant");
  const TomlNode& zebra = root.entries[0].node;
  ASSERT_EQ(zebra.entries.size(), 2u);
  EXPECT_EQ(zebra.entries[0].key, "b");
  const TomlEntry* x = zebra.entries[0].node.find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->at, (Position{2, 3}));  // the dotted key begins at b
  EXPECT_EQ(x->node.at, (Position{2, 9}));
  EXPECT_EQ(x->node.value, OptionValue(std::int64_t{1}));
  const TomlNode& list = zebra.entries[1].node;
  ASSERT_EQ(list.kind, TomlNode::Kind::array);
  EXPECT_EQ(list.items[0].value, OptionValue(true));
  EXPECT_EQ(list.items[1].value, OptionValue(2.5));
  EXPECT_EQ(list.items[1].at, (Position{3, 14}));
  EXPECT_EQ(root.find("ant")->node.find("s")->node.value, OptionValue(std::string("q")));
  EXPECT_EQ(root.find("nobody"), nullptr);
}

TEST(TomlReader, KeyPlacesInInlineTables) {
  const TomlNode root = parse_toml("t = { a.b = 1, c . d = 2 }\n");
  const TomlNode& t = root.entries[0].node;
  EXPECT_EQ(t.find("a")->node.find("b")->at, (Position{1, 7}));
  EXPECT_EQ(t.find("c")->node.find("d")->at, (Position{1, 16}));
}

TEST(TomlReader, AcceptsWindowsLineEndsAndForeignLettersWhereTheyAreSafe) {
  const TomlNode root =
      parse_toml("# na\xC3\xAFve \xCE\xBB\r\n[study]\r\n  title = \"S\xC3\xB8rensen \xF0\x9D\x9C\x86\"\r\n");
  EXPECT_EQ(root.find("study")->node.find("title")->node.value,
            OptionValue(std::string("S\xC3\xB8rensen \xF0\x9D\x9C\x86")));
}

TEST(TomlReader, TitlesMayBeFormulasWithForeignLetters) {
  const auto title = [](const std::string& line) {
    return std::get<std::string>(parse_toml(line).find("title")->node.value);
  };
  EXPECT_EQ(title("title = 'DeltaNet, $\\beta \\in (0,2)$'"), "DeltaNet, $\\beta \\in (0,2)$");
  EXPECT_EQ(title("title = 'a \"b\" \\phi \xCE\xBB'  # comment 'x'"), "a \"b\" \\phi \xCE\xBB");
  EXPECT_EQ(title("title = \"$\\\\phi$ \\\"b\\\" \xCE\xBB\"  # comment \"x\""), "$\\phi$ \"b\" \xCE\xBB");
  EXPECT_EQ(title("title = '\\u00e9 \xCE\xBB'"), "\\u00e9 \xCE\xBB");  // no escape in there
}

TEST(TomlReader, RefusesBytesThatAStudyMayNotHold) {
  expect_error("\xEF\xBB\xBF[study]\n", 1, 1, "byte order mark");
  expect_error(std::string("\xFF\xFE[\0", 4), 1, 1, "UTF-16");
  expect_error("a = 1\nb = \"x\xFFy\"\n", 2, 7, "0xFF is not UTF-8");
  expect_error("# \xC0\x80\n", 1, 3, "not UTF-8");          // overlong
  expect_error("# \xED\xA0\x80\n", 1, 3, "not UTF-8");      // a surrogate
  expect_error("# \xF4\x90\x80\x80\n", 1, 3, "not UTF-8");  // above U+10FFFF
  expect_error("# \xE2\x82", 1, 3, "not UTF-8");            // torn
  expect_error("\xCE\xBB = 0.1\n", 1, 1, "U+03BB");         // toml++ 3.3.0: undefined behaviour
  expect_error("a = 1  # \xCE\xBB\n", 1, 10, "comments on a line of their own");
  expect_error("name = \"\xCE\xBB\"\n", 1, 9, "U+03BB");
  expect_error("title = \"a\" # \xCE\xBB\n", 1, 15, "U+03BB");
  expect_error("title = \"a\\\xCE\xBB\"\n", 1, 12, "U+03BB");  // no escape
  expect_error("title = 'a' \xCE\xBB'\n", 1, 13, "U+03BB");    // behind the string
  expect_error(std::string("a = 1\n\tb = \0\n", 13), 2, 6, "U+0000");
  expect_error("a = 1\rb = 2\n", 1, 6, "U+000D");
  expect_error("a = \"\x7F\"\n", 1, 6, "U+007F");
  expect_error(std::string((4 << 20) + 1, '#'), 1, 1, "at most 4194304");
}

// toml++ destroys what it has built recursively, wherever the depth comes from.
TEST(TomlReader, RefusesWhatNestsDeeply) {
  const auto times = [](int n, const std::string& text) {
    std::string all;
    for (int i = 0; i < n; ++i) all += text;
    return all;
  };
  expect_error("a" + std::string(200, '.') + "\n", 1, 102, "nested more than 100");
  expect_error("x." + times(15000, "a.\"=\".") + "a = 1\n", 1, 302, "nested");
  expect_error("x." + times(15000, "a.'\"=\"'.") + "a = 1\n", 1, 402, "nested");
  expect_error("x." + times(15000, "\"\\\",\".") + "a = 1\n", 1, 602, "nested");
  expect_error(times(250, "a" + times(100, ".a") + "={"), 1, 203, "nested");
  expect_error(times(250, "a.a.a={"), 1, 235, "nested");
  expect_error("a = " + std::string(300, '['), 1, 105, "nested");
  expect_error("a = [\n" + times(300, "[\n"), 101, 1, "nested");
  expect_error("a = {\"" + times(60, "\".\"") + "\" = {" + times(60, "b.") + "b = 1}}", 1, 269, "nested");
  expect_error("[x" + times(60, ".x") + "]\ny = 1\ny" + times(60, ".y") + " = 1\n", 3, 80, "nested");
  expect_error("[[x" + times(60, ".x") + "]]\ny" + times(60, ".y") + " = 1\n", 2, 80, "nested");
  // What does not nest is not counted: text, comments, numbers, keys beside each other.
  const std::string dots(5000, '.');
  EXPECT_NO_THROW(
      parse_toml("a = \"" + dots + "\" # " + dots + "\nb = '" + dots + "\"'\n# " + dots + "[[[\n"));
  EXPECT_NO_THROW(parse_toml("a = [" + times(500, "1.5, ") + "]\nb = [" + times(500, "[1], ") + "]\n"));
  EXPECT_NO_THROW(parse_toml("a = {b.c = 1, d.e = {f.g = 2}}\n"));
  EXPECT_NO_THROW(parse_toml("[a" + times(90, ".a") + "]\nb = 1\n[c]\nd.e = \"\" # '\"\n"));
}

TEST(TomlReader, RefusesValuesWithoutMeaning) {
  expect_error("a = 1\nb = nan\n", 2, 5, "nan and inf");
  expect_error("b = [1, -inf]\n", 1, 9, "nan and inf");
  expect_error("b = 1979-05-27\n", 1, 5, "date");
  expect_error("b = \"\"\"x\"\"\"\n", 1, 5, "one line");
  expect_error("b = '''x'''\n", 1, 5, "one line");
  expect_error("b = \"x\\ny\"\n", 1, 5, "control character");
}

TEST(TomlReader, TellsWhereTheTextIsNotToml) {
  expect_error("[base]\ntrain.batch = 1\n  train.batch = 2\n", 3, 3, "duplicate key train.batch");
  expect_error("[m.a]\nx=1\n[m.a]\n", 3, 1, "duplicate key m.a");
  expect_error("a = recall\n", 1, 5, "a string needs quotes");
  expect_error("i=[}", 1, 4, "not valid TOML");     // asserts in toml++ 3.3.0
  expect_error("[[[1]]]", 1, 3, "not valid TOML");  // the same
  expect_error("a = 010\n", 1, 8, "leading zeroes");
  expect_error("a = 99999999999999999999\n", 1, 25, "64 bits");
  expect_error("a = [1,\n", 1, 9, "bracket");
  expect_error("a", 1, 2, "missing");
  // A string without end is shown where it begins.
  expect_error("a = 1\nb = \"x\nc = 2\n", 2, 5,
               "a string begins here and is not closed; add the closing \" in this line");
  expect_error("a = 'x\n", 1, 5, "add the closing '");
  expect_error("a = [\"x\", \"y]\n", 1, 11, "not closed");
  expect_error("a = \"it's \\\" # x\n", 1, 5, "add the closing \"");
  expect_error("a = \"x", 1, 5, "not closed");
  expect_error("a = [1\nb = 2\n", 2, 1, "is the ] of a list missing?");
  expect_error("[base\na = 2\n", 1, 6, "saw the end of the line");
  expect_error("a = 3,5\n", 1, 6, "decimal point");
}

TEST(TomlReader, Scalars) {
  EXPECT_EQ(parse_toml_scalar("64"), OptionValue(std::int64_t{64}));
  EXPECT_EQ(parse_toml_scalar("1_000"), OptionValue(std::int64_t{1000}));
  EXPECT_EQ(parse_toml_scalar("1e-3"), OptionValue(0.001));
  EXPECT_EQ(parse_toml_scalar("true"), OptionValue(true));
  EXPECT_EQ(parse_toml_scalar("\"1 2\""), OptionValue(std::string("1 2")));
  EXPECT_EQ(parse_toml_scalar("dpfp"), std::nullopt);
  EXPECT_EQ(parse_toml_scalar(""), std::nullopt);
  EXPECT_EQ(parse_toml_scalar("1\nb = 2"), std::nullopt);
  EXPECT_EQ(parse_toml_scalar("1 # two"), std::nullopt);
  EXPECT_EQ(parse_toml_scalar("[1]"), std::nullopt);
  EXPECT_EQ(parse_toml_scalar("{ a = 1 }"), std::nullopt);
}

}  // namespace
}  // namespace crosstalk
