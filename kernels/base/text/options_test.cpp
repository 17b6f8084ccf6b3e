// Options are resolved, and mistakes are named.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/options.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

TEST(Options, TextRoundTrips) {
  EXPECT_EQ(to_text(OptionValue{0.1}), "0.1");
  EXPECT_EQ(to_text(OptionValue{std::int64_t{64}}), "64");
  EXPECT_EQ(to_text(OptionValue{true}), "true");
  EXPECT_EQ(to_text(OptionValue{std::string("a")}), "\"a\"");
}

TEST(Options, CheckConvertsIntegersWhereAFloatIsWanted) {
  const OptionSpec spec{"learning_rate", 1e-3, "step size", 0, 1, {}, true};
  EXPECT_EQ(std::get<double>(check_option(spec, "train", std::int64_t{1})), 1.0);
  EXPECT_THROW(check_option(spec, "train", std::int64_t{0}), OptionError);
  EXPECT_THROW(check_option(spec, "train", std::string("x")), OptionError);
  EXPECT_THROW(check_option(spec, "train", std::nan("")), OptionError);
}

TEST(Options, ChoicesNameTheNearest) {
  const OptionSpec spec{"feature_map", std::string("elu1"), "phi", 0, 0, {"elu1", "dpfp"}};
  try {
    check_option(spec, "memory", std::string("dpfq"));
    FAIL();
  } catch (const OptionError& error) {
    EXPECT_EQ(error.key, "memory.feature_map");
    EXPECT_NE(std::string(error.what()).find("did you mean \"dpfp\""), std::string::npos);
  }
}

TEST(Options, MissingNameIsABug) {
  Options options;
  EXPECT_THROW(options.get_int("task.associations"), std::logic_error);
}

}  // namespace
}  // namespace crosstalk
