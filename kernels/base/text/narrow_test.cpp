// Whole numbers that do not fit a narrower type are errors of the option that holds them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/narrow.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace crosstalk {
namespace {

TEST(Narrow, WhatDoesNotFitIsAnErrorAndNeverAnotherNumber) {
  EXPECT_EQ(narrow<int>(std::int64_t{2147483647}, "n"), 2147483647);
  EXPECT_EQ(narrow<int>(std::int64_t{-2147483648}, "n"), -2147483648);
  EXPECT_EQ(narrow<std::uint32_t>(std::int64_t{4294967295}, "n"), 4294967295u);
  for (const std::int64_t wide :
       {std::int64_t{4294967297}, std::int64_t{4294967296}, std::int64_t{2147483648},
        std::int64_t{-2147483649}, INT64_MAX, INT64_MIN}) {
    try {
      narrow<int>(wide, "train.batch");
      ADD_FAILURE() << wide;
    } catch (const OptionError& error) {
      EXPECT_EQ(error.key, "train.batch");
      EXPECT_NE(std::string(error.what()).find("train.batch = " + std::to_string(wide)), std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW(narrow<std::uint32_t>(-1, "n"), OptionError);
  Options options;
  options.set("task.n", std::int64_t{1} << 40);
  EXPECT_THROW(narrow<int>(options, "task.n"), OptionError);
}

}  // namespace
}  // namespace crosstalk
