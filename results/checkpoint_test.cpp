// SPDX-License-Identifier: Apache-2.0
#include "results/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace crosstalk {
namespace {

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    store_ = std::filesystem::temp_directory_path() / ("checkpoint_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(store_);
  }
  void TearDown() override { std::filesystem::remove_all(store_); }
  std::filesystem::path store_;
};

TEST_F(Checkpoint, ComesBackByteForByteAndCanBeForgotten) {
  const std::string state("a line\n\0binary\xff", 15);
  EXPECT_EQ(load_checkpoint(store_, "ct-1"), "");
  save_checkpoint(store_, "ct-1", "older");
  save_checkpoint(store_, "ct-1", state);
  EXPECT_EQ(load_checkpoint(store_, "ct-1"), state);
  EXPECT_EQ(load_checkpoint(store_, "ct-2"), "");
  drop_checkpoint(store_, "ct-1");
  drop_checkpoint(store_, "ct-1");
  EXPECT_EQ(load_checkpoint(store_, "ct-1"), "");
}

TEST_F(Checkpoint, DamageReadsAsNone) {
  save_checkpoint(store_, "ct-1", "0123456789");
  const auto path = store_ / "checkpoints" / "ct-1.state";
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t n = 0; n < size; ++n) {
    save_checkpoint(store_, "ct-1", "0123456789");
    std::filesystem::resize_file(path, n);
    EXPECT_EQ(load_checkpoint(store_, "ct-1"), "") << "cut at " << n;
  }
  save_checkpoint(store_, "ct-1", "0123456789");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(12).put('x');
  EXPECT_EQ(load_checkpoint(store_, "ct-1"), "");
}

}  // namespace
}  // namespace crosstalk
