// Studies with a model of the memory `python`: what its text decides, and what the reader refuses.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "experiments/study/study.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/pack.h"
#include "results/test_records.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

class ForeignStudy : public ::testing::Test {
 protected:
  void SetUp() override {
    write("mine.py", "class Mine: pass\n");
    write("layers.py", "SCALE = 1\n");
  }
  void write(const std::string& name, const std::string& text) const { testing::spill(folder_ / name, text); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static Study study(const std::string& lines) {
    return parse_study(
        "[study]\nname = \"own\"\nseeds = [1]\n[base]\ntask.name = \"mqar\"\nmodel.name = \"language\"\n"
        "[memories.mine]\nname = \"python\"\n" +
            lines,
        "own.toml", {});
  }
  std::string id(const std::string& source, const std::string& more = "") const {
    return study(fmt::format("source = \"{}\"\n{}\n", path(source), more)).runs.at(0).id;
  }
  testing::ExampleFolder made_;  // whose path is ASCII, as studies have it
  const fs::path folder_ = made_.path();
};

TEST_F(ForeignStudy, TheTextIsTheIdentityAndItsPlaceIsNot) {
  const std::string first = id("mine.py:Mine");
  EXPECT_EQ(id("mine.py:Mine"), first);
  write("elsewhere/mine.py", "class Mine: pass\n");
  EXPECT_EQ(id("elsewhere/mine.py:Mine"), first);
  EXPECT_NE(id("mine.py:Other"), first);
  EXPECT_NE(id("mine.py:Mine", "arguments = \"gate = true\""), first);
  const std::string with = id("mine.py:Mine", fmt::format("files = \"{}\"", path("layers.py")));
  EXPECT_NE(with, first);
  write("layers.py", "SCALE = 2\n");
  EXPECT_NE(id("mine.py:Mine", fmt::format("files = \"{}\"", path("layers.py"))), with);
  write("mine.py", "class Mine: pass  # changed\n");
  EXPECT_NE(id("mine.py:Mine"), first);
}

TEST_F(ForeignStudy, TextsAreHashedWithTheirLengths) {
  EXPECT_NE(source_digest({"ab", "c"}), source_digest({"a", "bc"}));
  EXPECT_EQ(source_digest({"ab", "c"}).size(), 32u);
}

TEST_F(ForeignStudy, WhatIsMissingIsNamed) {
  const auto message = [&](const std::string& lines) {
    return crosstalk::testing::refusal_of<ConfigError>([&] { study(lines); });
  };
  EXPECT_NE(message(fmt::format("source = \"{}:Mine\"", path("none.py"))).find("none.py"), std::string::npos);
  EXPECT_NE(message(fmt::format("source = \"{}\"", path("mine.py"))).find("must be FILE:CLASS"),
            std::string::npos);
  EXPECT_NE(message("files = \"layers.py\"").find("memory.source, which is missing"), std::string::npos);
  EXPECT_NE(
      message(fmt::format("source = \"{}:Mine\"\ndigest = \"0\"", path("mine.py"))).find("another text"),
      std::string::npos);
}

TEST_F(ForeignStudy, ItIsNoneOfEveryMemoryAndHasAnEstimate) {
  const Study every = parse_study(
      "[study]\nname = \"all\"\nseeds = [1]\nevery_memory = true\n[base]\ntask.name = \"recall\"\n"
      "[memories.rule]\nname = \"rule\"\nlaw = \"S += v k^T; read S q\"\n",
      "all.toml", {});
  EXPECT_TRUE(std::none_of(every.runs.begin(), every.runs.end(),
                           [](const crosstalk::Run& run) { return is_foreign(run.config); }));
  const Study own = study(fmt::format("source = \"{}:Mine\"", path("mine.py")));
  EXPECT_TRUE(is_foreign(own.runs.at(0).config));
  EXPECT_GT(estimated_work(own.runs[0]), 0);
}

}  // namespace
}  // namespace crosstalk
