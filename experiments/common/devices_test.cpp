// Which GPU --device takes, of made-up ones.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/devices.h"

#include <gtest/gtest.h>

#include "kernels/base/error.h"

namespace crosstalk::program {
namespace {

TEST(OfferedGpus, CodeRunsOnTheGpusThatItWasCompiledFor) {
  const std::string usual = "80-real, 90a-real, 100-real, 120";
  for (const int capability : {80, 86, 87, 89, 90, 100, 103, 120, 121, 130})
    EXPECT_TRUE(has_code(capability, usual)) << capability;
  for (const int capability : {60, 70, 75}) EXPECT_FALSE(has_code(capability, usual)) << capability;
  EXPECT_FALSE(has_code(110, usual));
  EXPECT_TRUE(has_code(110, "80-real;90a-real;90-virtual"));
  EXPECT_FALSE(has_code(89, "90a-real"));
  EXPECT_FALSE(has_code(100, "90a-real, 90a-virtual"));
  EXPECT_FALSE(has_code(90, "80-real"));
  EXPECT_TRUE(has_code(90, "80"));
  EXPECT_FALSE(has_code(80, "86-real"));
  EXPECT_TRUE(has_code(103, "100f-real"));
  EXPECT_FALSE(has_code(120, "100f-real"));
  EXPECT_TRUE(has_code(75, "native"));
  EXPECT_TRUE(has_code(75, ""));
}

TEST(OfferedGpus, AutoFallsToTheCpuWithASentence) {
  const std::string built = "80-real, 90a-real";
  const OfferedGpu old{"Tesla T4", 75}, newer{"NVIDIA A100", 80};
  TrainingOptions options;
  EXPECT_EQ(choose_device("auto", options, {}, built), "");
  EXPECT_EQ(options.device, Device::cpu);
  EXPECT_EQ(
      choose_device("auto", options, {old}, built),
      "Tesla T4 (compute capability 7.5) runs no code of this crosstalk, which was built for 80-real, 90a-real; using the CPU");
  EXPECT_EQ(options.device, Device::cpu);
  EXPECT_EQ(choose_device("auto", options, {old, newer}, built), "");
  EXPECT_EQ(options.device, Device::cuda);
  EXPECT_EQ(options.cuda_device, 1);
  options = {};
  EXPECT_THROW(choose_device("cuda", options, {old, newer}, built), DeviceError);
  EXPECT_THROW(choose_device("cuda:0", options, {old, newer}, built), DeviceError);
  EXPECT_THROW(choose_device("cuda:2", options, {old, newer}, built), DeviceError);
  EXPECT_EQ(options.device, Device::cpu);
  EXPECT_EQ(choose_device("cuda:1", options, {old, newer}, built), "");
  EXPECT_EQ(options.cuda_device, 1);
}

}  // namespace
}  // namespace crosstalk::program
