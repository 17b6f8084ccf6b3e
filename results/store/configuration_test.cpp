// A configuration is the object that it was made of, and equal values of two are one.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/configuration.h"

#include <gtest/gtest.h>

#include "results/numbers/select.h"

namespace crosstalk {
namespace {

using nlohmann::json;

TEST(Configuration, IsItsObject) {
  for (
      const char* text :
      {R"({})", R"({"a.b":20,"a.c":"word","b":true,"c":0.001})",
       R"({"list":[1,2.5,"x"],"minus":-0.0,"most":18446744073709551615,"nothing":null,"one":1.0,"zero":0.0})"}) {
    const json object = json::parse(text);
    const Configuration made(object);
    EXPECT_EQ(made.object().dump(), object.dump());
    std::size_t count = 0;
    for (const auto& [key, value] : made) {
      EXPECT_EQ(value, object.at(key));
      ++count;
    }
    EXPECT_EQ(count, object.size());
  }
  EXPECT_TRUE(Configuration(json()).empty());
  EXPECT_THROW(Configuration(json::array()), json::exception);
}

TEST(Configuration, ChangesLikeAnObject) {
  Configuration made = {{"b", 1}, {"a", "x"}};
  json object = {{"b", 1}, {"a", "x"}};
  made["c"] = 2.5, object["c"] = 2.5;
  made["a"] = "y", object["a"] = "y";
  EXPECT_EQ(made.object(), object);
  made.erase("b"), object.erase("b");
  made.erase("none");
  EXPECT_EQ(made.object(), object);
  EXPECT_EQ(made.find("b"), nullptr);
  EXPECT_EQ(*made.find("a"), "y");
  EXPECT_TRUE(made["c"] == 2.5);
  EXPECT_FALSE(made["none"] == 2.5);
  EXPECT_THROW(made.at("none"), std::out_of_range);
}

/// What a program sets and what a store holds: the same values, of whatever type a reader of JSON gives them.
TEST(Configuration, EqualValuesAreOne) {
  const Configuration read(json::parse(R"({"a":20,"b":"20","c":20.0,"d":-3})"));
  Configuration set;
  set["a"] = std::int64_t{20}, set["b"] = "20", set["c"] = 20.0, set["d"] = -3;
  EXPECT_EQ(read, set);
  const auto *whole = read.value_of("a"), *word = read.value_of("b"), *real = read.value_of("c");
  EXPECT_NE(whole, word);
  EXPECT_NE(whole, real);
  EXPECT_EQ(whole->text, word->text);  // as tables say them
  EXPECT_EQ(whole->text, real->text);
}

TEST(Configuration, AKeyVariesWhereValuesDo) {
  Record a, b, c;
  a.config = {{"same", 1}, {"other", 1}, {"some", 1}};
  b.config = {{"same", 1.0}, {"other", 2}, {"late", 3}};
  c.config = {{"same", 1}, {"other", 1}, {"some", 1}};
  const std::map<std::string, bool> want = {{"same", false}, {"other", true}, {"some", true}, {"late", true}};
  EXPECT_EQ(config_keys({&a, &b, &c}), want);
  EXPECT_EQ(config_keys({&b, &a, &c}), want);
}

}  // namespace
}  // namespace crosstalk
