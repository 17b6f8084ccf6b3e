// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/sample.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/base/text/npy.h"
#include "results/test_records.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::slurp;
using testing::whole;

class Sample : public ::testing::Test {
 protected:
  void write(const std::string& directory, const std::string& name, const testing::Settings& settings = {},
             Split split = Split::eval, int count = 3) const {
    const TaskKind& kind = *find_task(name);
    const Options options = testing::resolved_options(kind, settings);
    write_sample(directory, *kind.make(options), {name, options, split, 42, count});
  }

  std::string refusal(const std::string& directory) const {
    return crosstalk::testing::refusal_of<std::runtime_error>([&] { write(directory, "recall"); }, "written");
  }

  testing::TemporaryFolder made_;
  const fs::path folder_ = made_.path();
};

TEST_F(Sample, FilesHoldTheSequencesOfEveryTask) {
  for (const TaskKind& kind : task_kinds()) {
    const fs::path out = folder_ / kind.name;
    const auto task = testing::make_task(kind.name);
    if (task->vocabulary().tokens > 0 || task->vocabulary().numbers > 0) continue;
    write(out.string(), kind.name);
    const SequenceShape shape = task->shape(Split::eval);
    const auto load = [&](const char* name) { return read_npy<std::int64_t>((out / name).string()); };
    const auto keys = load("keys.npy"), values = load("values.npy"), operations = load("operations.npy");
    const auto query = load("query.npy"), position = load("query_position.npy"), answer = load("answer.npy");
    const std::vector<std::int64_t> per_token{3, shape.T}, per_query{3, shape.Q};
    for (const auto* array : {&keys, &values, &operations}) EXPECT_EQ(array->shape, per_token);
    for (const auto* array : {&query, &position, &answer}) EXPECT_EQ(array->shape, per_query);
    EXPECT_EQ(fs::exists(out / "second_keys.npy"), shape.C == 3);
    SequenceBuffer buffer(*task, Split::eval);
    for (int n = 0; n < 3; ++n) {
      const SequenceView s = buffer.draw(42, static_cast<std::uint64_t>(n));
      for (int t = 0; t < shape.T; ++t) {
        const auto i = static_cast<std::size_t>(n * shape.T + t);
        const std::int32_t* token = s.tokens + t * shape.C;
        ASSERT_EQ(keys.data[i], token[channel_key]);
        ASSERT_EQ(values.data[i], token[channel_value]);
        ASSERT_EQ(operations.data[i], s.role[t]);
        if (shape.C == 3) {
          ASSERT_EQ(load("second_keys.npy").data[i], token[channel_second_key]);
        }
      }
      for (int q = 0; q < shape.Q; ++q) {
        const auto i = static_cast<std::size_t>(n * shape.Q + q);
        ASSERT_EQ(query.data[i], s.query[q]);
        ASSERT_EQ(position.data[i], s.query_position[q]);
        ASSERT_EQ(answer.data[i], s.target[q]);
      }
    }
  }
}

TEST_F(Sample, FilesHoldTheSequencesOfEveryTaskOfSingleTokens) {
  int tasks = 0;
  for (const TaskKind& kind : task_kinds()) {
    const fs::path out = folder_ / kind.name;
    const auto task = testing::make_task(kind.name);
    if (task->vocabulary().tokens == 0) continue;
    ++tasks;
    write(out.string(), kind.name);
    const SequenceShape shape = task->shape(Split::eval);
    const auto load = [&](const char* name) { return read_npy<std::int64_t>((out / name).string()); };
    const auto tokens = load("tokens.npy"), positions = load("positions.npy"), targets = load("targets.npy");
    EXPECT_EQ(tokens.shape, (std::vector<std::int64_t>{3, shape.T}));
    EXPECT_EQ(positions.shape, (std::vector<std::int64_t>{3, shape.Q}));
    EXPECT_EQ(targets.shape, positions.shape);
    EXPECT_FALSE(fs::exists(out / "keys.npy"));
    SequenceBuffer buffer(*task, Split::eval);
    for (int n = 0; n < 3; ++n) {
      const SequenceView s = buffer.draw(42, static_cast<std::uint64_t>(n));
      for (int t = 0; t < shape.T; ++t)
        ASSERT_EQ(tokens.data[static_cast<std::size_t>(n * shape.T + t)], s.tokens[t]);
      for (int q = 0; q < shape.Q; ++q) {
        const auto i = static_cast<std::size_t>(n * shape.Q + q);
        ASSERT_EQ(positions.data[i], s.query_position[q] - 1);
        ASSERT_EQ(targets.data[i], s.target[q]);
      }
    }
  }
  EXPECT_GE(tasks, 3);
}

TEST_F(Sample, FilesOfRealNumbersHoldInputsAndOutputs) {
  write(folder_.string(), "regression", {{"inputs", whole(3)}, {"pairs", whole(5)}});
  const auto task = testing::make_task("regression", {{"inputs", whole(3)}, {"pairs", whole(5)}});
  SequenceBuffer buffer(*task, Split::eval);
  const auto load = [&](const char* name) { return read_npy<double>((folder_ / name).string()); };
  const auto x = load("x.npy"), y = load("y.npy"), asked_x = load("asked_x.npy"),
             asked_y = load("asked_y.npy");
  const std::vector<std::int64_t> inputs{3, 5, 3}, outputs{3, 5, 1};
  for (const auto* array : {&x, &asked_x}) ASSERT_EQ(array->shape, inputs);
  for (const auto* array : {&y, &asked_y}) ASSERT_EQ(array->shape, outputs);
  for (std::size_t s = 0; s < 3; ++s) {
    const SequenceView sequence = buffer.draw(42, s);
    for (std::size_t t = 0; t < 5; ++t) {
      const std::int32_t* token = sequence.tokens + 8 * t;
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(x.data[15 * s + 3 * t + i], kNumberUnit * token[i]);
        EXPECT_EQ(asked_x.data[15 * s + 3 * t + i], kNumberUnit * token[4 + i]);
      }
      EXPECT_EQ(y.data[5 * s + t], kNumberUnit * token[3]);
      EXPECT_EQ(asked_y.data[5 * s + t], kNumberUnit * token[7]);
    }
  }
  const std::string readme = slurp(folder_ / "README.txt");
  EXPECT_THAT(readme, HasSubstr("float64"));
  EXPECT_THAT(readme, HasSubstr("[3, 5, 3]"));
}

TEST_F(Sample, AMixtureIsShownSegmentBySegment) {
  const testing::Settings mixture = {{"segments", std::string("16:2:5 32:4:5")}};
  const std::string text = sample_text(*testing::make_task("mqar", mixture), Split::train, 3, 2);
  for (const char* heading : {"train sequence 0 of segment 16:2 (data seed 3)\n",
                              "\ntrain sequence 1 of segment 32:4 (data seed 3)\n"})
    EXPECT_THAT(text, HasSubstr(heading));
  EXPECT_THROW(write((folder_ / "out").string(), "mqar", mixture), std::runtime_error);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(Sample, ReadmeSaysWhatEachFileIs) {
  write((folder_ / "out/").string(), "swap", {{"operations", whole(7)}}, Split::train);
  const std::string text = slurp(folder_ / "out" / "README.txt");
  for (const char* part :
       {"task.name = \"swap\"\n", "task.operations = 7\n", "task.keys = 5\n", "task.query_at = \"every\"\n",
        "data seed: 42\n", "split: train\n", "keys.npy            [3, 12]", "second_keys.npy     [3, 12]",
        "answer.npy          [3, 7]", "1 write", "2 swap", "3 identity", "-1 means absent"})
    EXPECT_THAT(text, HasSubstr(part)) << part << " is missing in\n";
}

TEST_F(Sample, ALaterSampleReplacesAnEarlierOne) {
  const std::string out = (folder_ / "out").string();
  write(out, "swap");
  EXPECT_TRUE(fs::exists(folder_ / "out" / "second_keys.npy"));
  write(out, "recall");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "second_keys.npy"));
  EXPECT_THAT(slurp(folder_ / "out" / "README.txt"), HasSubstr("\"recall\""));
  write(out, "mqar");
  EXPECT_FALSE(fs::exists(folder_ / "out" / "keys.npy"));
  EXPECT_THAT(slurp(folder_ / "out" / "README.txt"),
              HasSubstr("tokens.npy          [3, 64]  token ids, 0 .. 8191"));
}

TEST_F(Sample, RefusesBeforeCreatingAnything) {
  std::ofstream(folder_ / "file") << "mine";
  EXPECT_THAT(refusal((folder_ / "file").string()), HasSubstr("exists and is not a directory"));
  EXPECT_THAT(refusal((folder_ / "file" / "below").string()), HasSubstr("is no directory"));
  EXPECT_THAT(refusal((folder_ / "file" / "far" / "below").string()), HasSubstr("is no directory"));
  EXPECT_THAT(refusal(""), HasSubstr("name is empty"));
  EXPECT_EQ(slurp(folder_ / "file"), "mine");
  EXPECT_THROW(write((folder_ / "none").string(), "recall", {}, Split::eval, 0), std::runtime_error);
  EXPECT_FALSE(fs::exists(folder_ / "none"));

  fs::create_directory(folder_ / "project");
  std::ofstream(folder_ / "project" / "README.txt") << "My thesis\n";
  EXPECT_THAT(refusal((folder_ / "project").string()), HasSubstr("README.txt that is not a sample's"));
  EXPECT_EQ(slurp(folder_ / "project" / "README.txt"), "My thesis\n");
  EXPECT_FALSE(fs::exists(folder_ / "project" / "keys.npy"));

  fs::create_directory(folder_ / "arrays");
  std::ofstream(folder_ / "arrays" / "tokens.npy") << "mine";
  EXPECT_THAT(refusal((folder_ / "arrays").string()), HasSubstr("a tokens.npy that is no sample's"));
  fs::remove(folder_ / "arrays" / "tokens.npy");
  write((folder_ / "arrays").string(), "recall");
  write((folder_ / "arrays").string(), "recall");
  std::ofstream(folder_ / "arrays" / "tokens.npy") << "mine";
  EXPECT_THAT(refusal((folder_ / "arrays").string()), HasSubstr("a tokens.npy that is no sample's"));
  EXPECT_EQ(slurp(folder_ / "arrays" / "tokens.npy"), "mine");
}

TEST_F(Sample, MakesTheFoldersAbove) {
  write((folder_ / "a" / "b" / "c/").string(), "recall");
  EXPECT_TRUE(fs::exists(folder_ / "a" / "b" / "c" / "keys.npy"));
  EXPECT_THROW(write((folder_ / "no" / "such").string(), "recall", {}, Split::eval, 0), std::runtime_error);
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(Sample, RefusesADirectoryWithoutPermission) {
  const auto to_read = fs::perms(0555);
  fs::create_directory(folder_ / "locked");
  fs::permissions(folder_ / "locked", to_read);
  fs::permissions(folder_, to_read);
  const bool root = geteuid() == 0;  // may write everywhere, and is nobody meanwhile
  if (root) {
    ASSERT_EQ(setresuid(65534, 65534, 0), 0);
  }
  EXPECT_THAT(refusal((folder_ / "locked").string()), HasSubstr("may not be written"));
  EXPECT_THAT(refusal((folder_ / "locked" / "new").string()), HasSubstr("may not be written"));
  if (root) {
    ASSERT_EQ(setresuid(0, 0, 0), 0);
  }
  for (const fs::path& folder : {folder_, folder_ / "locked"}) fs::permissions(folder, fs::perms::owner_all);
}

TEST_F(Sample, TextShowsEachSequenceOnceAndTheSameEveryTime) {
  const auto task = testing::make_task("swap");
  const std::string text = sample_text(*task, Split::train, 7, 2);
  EXPECT_EQ(text, sample_text(*task, Split::train, 7, 2));
  EXPECT_EQ(text.find("train sequence 0 (data seed 7)\n"), 0u);
  EXPECT_THAT(text, HasSubstr("\ntrain sequence 1 (data seed 7)\n"));
  EXPECT_THAT(text, HasSubstr("<>"));
  EXPECT_NE(text, sample_text(*task, Split::train, 8, 2));
}

}  // namespace
}  // namespace crosstalk
