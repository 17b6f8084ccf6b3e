// Event files, byte for byte as TensorBoard's own writer (tensorboard 2.21) makes them.
// SPDX-License-Identifier: Apache-2.0
#include "results/tensorboard.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace crosstalk {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(c));
    text += two;
  }
  return text;
}

TEST(TensorBoard, WritesWhatItsOwnWriterWrites) {
  EXPECT_EQ(
      hex(tf_record(scalar_event("eval_loss", 300, 0.25, 1.5))),
      "200000000000000029eda95009000000000000f83f10ac022a120a100a096576616c5f6c6f7373150000803eb2cf7918");
}

TEST(TensorBoard, AddsPointsOnceAndLeavesNoneNumbersOut) {
  const std::filesystem::path folder = testing::TempDir() + "crosstalk_events";
  const auto size = [&] { return std::filesystem::file_size(folder / "events.out.tfevents.0.crosstalk"); };
  EventFile file(folder, 1);
  const auto begin = size();
  file.add({{"eval_loss", {{10, 20}, {1, std::nan("")}}}}, 2);
  const auto one = size() - begin;
  EXPECT_EQ(one, tf_record(scalar_event("eval_loss", 10, 1, 2)).size());
  file.add({{"eval_loss", {{10, 30}, {1, 0.5}}}}, 3);
  EXPECT_EQ(size() - begin, 2 * one);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace crosstalk
