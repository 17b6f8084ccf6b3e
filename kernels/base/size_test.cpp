// Products of sizes that no int holds are refused, and never another size.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/size.h"

#include <gtest/gtest.h>

#include "kernels/base/buffer.h"

namespace crosstalk {
namespace {

TEST(Size, AProductThatDoesNotFitIsRefused) {
  const Size most(46340), more(46341), none(0);
  EXPECT_EQ(most * most, 2147395600);
  EXPECT_EQ(2 * more * 3, 278046);
  EXPECT_EQ(more * none, 0);
  EXPECT_THROW(more * more, ShapeError);
  EXPECT_THROW(more * 46341, ShapeError);
  EXPECT_THROW(65536 * Size(65536), ShapeError);  // an int has 0
  EXPECT_THROW(Size(std::int64_t{1} << 31), ShapeError);
  EXPECT_THROW(Size(-2) * Size(1 << 30) * 2, ShapeError);
  try {
    static_cast<void>(more * more);
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("46341 x 46341 numbers"), std::string::npos) << error.what();
  }
}

TEST(Size, ATensorMayHaveMoreNumbersThanADimension) {
  EXPECT_EQ(shaped<float>(1, {65536, 65536}).size(), std::int64_t{1} << 32);
  EXPECT_THROW(shaped<float>(1, {2, std::int64_t{1} << 31}), ShapeError);
}

}  // namespace
}  // namespace crosstalk
