// Wrong study files: each message whole, with its place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "results/test_refusal.h"
#include "results/test_said.h"

#include "experiments/study/study.h"
#include "experiments/study/study_fixture.h"

namespace crosstalk {
namespace {

std::string error(const std::string& text) {
  return crosstalk::testing::refusal_of<ConfigError>(
      [&] { parse_study(fixture_schema(), text, "x.toml", {}); }, "accepted");
}

/// Six lines, then `rest` from line 7.
std::string with(const std::string& rest) {
  return "[study]\nname = \"small\"\n[memories.linear]\nname = \"linear_attention\"\n[base]\ntask.name = \"recall\"\n" +
         rest;
}

void expect(const std::string& rest, const std::string& message) {
  EXPECT_EQ(error(with(rest)), "x.toml:" + message) << rest;
}

void expect_whole(const std::string& text, const std::string& message) {
  EXPECT_EQ(error(text), "x.toml:" + message) << text;
}

TEST(StudyErrors, SayWhatIsWrongAndWhere) {
  crosstalk::testing::check_said(
      CROSSTALK_SOURCE_DIR "/experiments/study/study_errors.txt", [](const std::string& text) {
        const std::string whole = "(whole)\n",
                          said = error(text.starts_with(whole) ? text.substr(whole.size()) : with(text));
        return said.substr(said.find(':') + 1);
      });
}

TEST(StudyErrors, OptionsThatSomeCombinationsUseAreDefaultsInTheOthers) {
  const auto ids = [](const std::string& rest) {
    std::vector<std::string> all;
    for (const auto& run : parse_study(fixture_schema(), with(rest), "x.toml", {}).runs)
      all.push_back(run.id);
    return all;
  };
  const std::vector<std::string> both =
      ids("memory.nu = 2\n[[grid]]\nmemory.feature_map = [\"elu1\", \"dpfp\"]\n");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], ids("").at(0));
  EXPECT_EQ(both[1], ids("memory.feature_map = \"dpfp\"\nmemory.nu = 2\n").at(0));
}

std::size_t runs_of(const std::string& text, const StudyOptions& options = {}) {
  return parse_study(fixture_schema(), text, "x.toml", options).runs.size();
}

TEST(StudyErrors, WhatIsLikeAnErrorAndIsNone) {
  EXPECT_EQ(
      runs_of("[study]\nname = \"s\"\nseeds = [1, 2, 3]\n[base]\ntask.name = \"recall\"\ndata_seed = 5\n"
              "[memories.linear]\nname = \"linear_attention\"\n"),
      3u);
  const std::string skip =
      with("[[grid]]\ntask.associations = [10, 20]\n[[grid.skip]]\ntask.associations = 10\n");
  EXPECT_EQ(runs_of(skip), 1u);
  EXPECT_EQ(runs_of(skip, {{"task.associations=20"}}), 1u);  // --set may take away what is left out
}

TEST(StudyErrors, BytesOfFiles) {
  for (const char* empty : {"", " \r\n\t\n"})
    expect_whole(empty, "1:1: the file is empty; a study begins with [study] and name = \"...\"");
  expect_whole("# nothing\n", "1:1: the table [study] is missing; it holds name = \"...\"");
  expect_whole("\xEF\xBB\xBF[study]\n",
               "1:1: the file begins with a byte order mark; save it as UTF-8 without one");
  expect_whole("[study]\nname = \"\xFF\"\n", "2:9: byte 0xFF is not UTF-8; save the file as UTF-8");
}

TEST(StudyErrors, HugeProductsAreRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  expect(
      "[[grid]]\ntrain.batch = { range = [1, 1_000_000] }\ntask.queries = { range = [1, 1_000_000] }\n",
      "7:1: 1 memory x 1000000 batch x 1000000 queries x 1 seed = 1000000000000 runs are more than 100000; make the study smaller or allow more "
      "with --max-runs");
  expect(
      "[[grid]]\ntrain.batch = { range = [1, 9_000_000_000_000_000_000] }\ntask.queries = [1, 2]\n",
      "7:1: 1 memory x 9000000000000000000 batch x 2 queries x 1 seed = more than 10^18 runs are more than 100000; make the study smaller or "
      "allow more with --max-runs");
  expect(
      "[[grid]]\ntrain.learning_rate = { range = [1e-30, 1e30, 1e-30] }\n",
      "7:1: 1 memory x more than 10^18 learning_rate x 1 seed = more than 10^18 runs are more than 100000; make the study smaller or allow more "
      "with --max-runs");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(StudyErrors, FilesThatCannotBeRead) {
  const auto of = [](const std::filesystem::path& path) -> std::string {
    return crosstalk::testing::refusal_of<ConfigError>([&] { read_study_text(path); });
  };
  const std::string directory = ::testing::TempDir();
  EXPECT_EQ(of("/no/such.toml"),
            "/no/such.toml: no such file; a study is a TOML file such as experiments/quickstart.toml");
  EXPECT_EQ(of(directory), directory + ": is a directory; name a study file (*.toml) in it");
  // Opens, but its first page cannot be read.
  EXPECT_EQ(of("/proc/self/mem"), "/proc/self/mem: cannot be read: Input/output error");
}

}  // namespace
}  // namespace crosstalk
