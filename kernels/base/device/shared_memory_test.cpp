// $CROSSTALK_SHARED_LIMIT lowers the limit of shared memory, and never raises it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

/// Sets the variable and puts back what was there (scripts/gpu_test.sh sets it for all tests).
class SharedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv(kName)) before_ = value;
    ::unsetenv(kName);
  }
  void TearDown() override { before_ ? ::setenv(kName, before_->c_str(), 1) : ::unsetenv(kName); }
  static constexpr const char* kName = "CROSSTALK_SHARED_LIMIT";

 private:
  std::optional<std::string> before_;
};

TEST_F(SharedMemory, LimitIsTheDevicesOrLower) {
  const std::size_t there = shared_memory_limit();
  EXPECT_GE(there, 99u * 1024);
  if (device_shared_memory() == 0) {
    EXPECT_EQ(there, 227u * 1024);
  }
  for (const char* kib : {"99", "163", "227"}) {
    ::setenv(kName, kib, 1);
    EXPECT_EQ(shared_memory_limit(), std::min<std::size_t>(there, std::stoul(kib) * 1024));
  }
  ::setenv(kName, "1024", 1);
  EXPECT_EQ(shared_memory_limit(), there);
  ::setenv(kName, "", 1);
  EXPECT_EQ(shared_memory_limit(), there);
}

TEST_F(SharedMemory, LimitThatIsNoneIsRefused) {
  for (const char* wrong : {"many", "99 ", "99KiB", "-1", "0", "98", "1025", "1e2"}) {
    ::setenv(kName, wrong, 1);
    EXPECT_THROW(shared_memory_limit(), DeviceError) << wrong;
  }
}

}  // namespace
}  // namespace crosstalk
