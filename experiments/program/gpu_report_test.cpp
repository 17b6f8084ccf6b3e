// What `crosstalk doctor` says of GPUs, of made-up ones.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/gpu_report.h"

#include <gtest/gtest.h>

namespace crosstalk::program {
namespace {

TEST(GpuReport, CodeOfEveryKindOfGpu) {
  Gpu gpu;
  gpu.capability = 75;
  EXPECT_EQ(code_text(gpu), "compute capability 7.5, for which this crosstalk has no code");
  gpu.capability = 86, gpu.code = 80;
  EXPECT_EQ(code_text(gpu),
            "compute capability 8.6 with code for 8.0: products by mma.sync, no clusters of blocks");
  gpu.capability = gpu.code = 90, gpu.wgmma = gpu.clusters = true;
  EXPECT_EQ(code_text(gpu),
            "compute capability 9.0 with code of its own: products by wgmma, clusters of blocks");
  gpu.capability = 121, gpu.wgmma = false, gpu.by_driver = true;
  EXPECT_EQ(
      code_text(gpu),
      "compute capability 12.1, code for 9.0 that the driver compiles when it is first used: products by mma.sync, clusters of blocks");
}

TEST(GpuReport, FusedFormsFollowSharedMemory) {
  EXPECT_EQ(
      fused_forms_text(227 * 1024),
      "227 KiB of shared memory a block (bf16, width 64: 8 maps joined, attention in whole heads to 256 tokens; width 128: 4 maps joined, "
      "attention in whole heads to 256 tokens)");
  EXPECT_EQ(
      fused_forms_text(99 * 1024),
      "99 KiB of shared memory a block (bf16, width 64: 5 maps joined, attention in whole heads to 192 tokens; width 128: 1 map joined, "
      "attention in whole heads to 32 tokens)");
}

}  // namespace
}  // namespace crosstalk::program
