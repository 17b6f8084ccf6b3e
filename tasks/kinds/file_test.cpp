// Sequences of somebody's files, ids or real numbers: read as they stand, shuffled by epoch, told by content, refused by place.
// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "tasks/file_data.h"
#include "tasks/kinds/files_fixture.h"

namespace crosstalk::testing::file_test {

[[maybe_unused]] const bool pinned = pin("file", {{"example", {}, 0x1c434c9117a9c2cdu, 0x1e52ed97f1d1f92cu}});

class File : public FilesTest<FileData, ExampleFiles, example_files> {};

// Which of a file's rows sequence n is, by its tokens.
class Rows {
 public:
  Rows(const Task& task, Split split) : buffer_(task, split, 0, false) {}
  std::vector<std::int32_t> draw(std::uint64_t seed, std::uint64_t n) {
    const SequenceView s = buffer_.draw(seed, n);
    return {s.tokens, s.tokens + s.shape.T * s.shape.C};
  }

 private:
  SequenceBuffer buffer_;
};

TEST_F(File, AnEpochHasEachSequenceOnceInAnOrderOfItsOwn) {
  for (const std::int64_t N : {1, 2, 3, 20, 96, 257}) {
    ExampleFiles files = example_files(3, N, 8);
    for (std::int64_t n = 0; n < N; ++n)
      files.tokens.data[static_cast<std::size_t>(n) * 24] = 6 + n;  // a name of its own
    put("train", files);
    const auto task = make_task("file", {{"folder", folder_.path()}});
    EXPECT_EQ(task->sequences(Split::train), N);
    Rows rows(*task, Split::train);
    std::set<std::vector<std::int32_t>> orders;
    for (const std::uint64_t seed : {1, 2})
      for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 33}) {
        std::vector<std::int32_t> order;
        for (std::int64_t i = 0; i < N; ++i)
          order.push_back(
              rows.draw(seed, epoch * static_cast<std::uint64_t>(N) + static_cast<std::uint64_t>(i))[0] - 6);
        orders.insert(order);
        std::sort(order.begin(), order.end());
        for (std::int64_t i = 0; i < N; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i) << N;
      }
    if (N >= 20) {
      EXPECT_EQ(orders.size(), 6u) << N;
    }
  }
}

TEST_F(File, EveryPlaceOfAnEpochIsEquallyLikely) {
  for (const std::uint32_t N : {5u, 16u, 50u}) {
    std::vector<int> first(N, 0), pairs(std::size_t{N} * N, 0);
    for (std::uint32_t epoch = 0; epoch < 40000; ++epoch) {
      const RandomStream stream(9, RandomDomain::task_train, epoch);
      const std::uint32_t a = shuffled_place(stream, 0, N), b = shuffled_place(stream, N - 1, N);
      ++first[a];
      ++pairs[std::size_t{a} * N + b];
    }
    EXPECT_LT(uniformity_score(first), 4) << N;
    std::erase(pairs, 0);
    if (N < 50) {
      EXPECT_EQ(pairs.size(), std::size_t{N} * (N - 1)) << N;
      EXPECT_LT(uniformity_score(pairs), 4) << N;
    }
  }
}

TEST_F(File, ValidationAndTestStandAsInTheirFiles) {
  put("test", example_files(8, 30, 9));
  const auto task = make_task("file", {{"folder", folder_.path()}});
  for (const auto& [split, files] :
       {std::pair{Split::eval, example_files(7, 20, 8)}, std::pair{Split::test, example_files(8, 30, 9)}}) {
    const std::int64_t N = files.tokens.shape[0], size = files.tokens.shape[1] * 3;
    Rows rows(*task, split);
    for (std::int64_t n = 0; n < 2 * N; ++n) {  // beyond the end it begins again
      const auto row = rows.draw(n % 3 == 0 ? 4 : 5, static_cast<std::uint64_t>(n));
      ASSERT_TRUE(std::equal(row.begin(), row.end(), files.tokens.data.begin() + n % N * size)) << n;
    }
  }
}

TEST_F(File, SizesAndVocabularyFollowFromTheFiles) {
  const TaskKind& kind = *find_task("file");
  const Options options = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_EQ(options.get_int("task.keys"), 6);
  EXPECT_EQ(options.get_int("task.values"), 5);
  EXPECT_EQ(options.get_int("task.associations"), 8);
  EXPECT_EQ(options.get_string("task.content").size(), 32u);
  const auto task = kind.make(options);
  EXPECT_EQ(task->shape(Split::train), (SequenceShape{8, 3, 3}));
  EXPECT_TRUE(task->vocabulary().second_key);
  ExampleFiles pairs = example_files(7, 20, 8);
  for (const char* split : {"train", "eval", "test"}) {
    ExampleFiles two{{{20, 8, 2}, {}}, pairs.query, pairs.position, pairs.target};
    for (std::size_t i = 0; i < pairs.tokens.data.size(); i += 3)
      two.tokens.data.insert(two.tokens.data.end(), {pairs.tokens.data[i], pairs.tokens.data[i + 1]});
    put(split, two);
  }
  const auto fused = make_task("file", {{"folder", folder_.path()}, {"values", 9}});
  EXPECT_EQ(fused->shape(Split::train).C, 2);
  EXPECT_EQ(fused->vocabulary().values, 9);
  EXPECT_FALSE(fused->vocabulary().second_key);
  EXPECT_THROW(make_task("file", {{"folder", folder_.path()}, {"values", 4}}), OptionError);
}

TEST_F(File, TheContentIsWhatTheNumbersAreNotHowOrWhereTheyLie) {
  const std::string content = FileData(folder_.path()).content();
  const ExampleFolder other;
  for (const char* split : {"train", "eval", "test"})
    write_example(other.path(), split, example_files(7, 20, 8));
  const ExampleFiles files = example_files(7, 20, 8);
  write_npy<std::int32_t>(other.path() + "/train_query.npy",
                          {files.query.shape, {files.query.data.begin(), files.query.data.end()}});
  EXPECT_EQ(FileData(other.path()).content(), content);
  std::set<std::string> contents = {content};
  for (const char* split : {"train", "eval", "test"}) {
    for (auto array :
         {&ExampleFiles::tokens, &ExampleFiles::query, &ExampleFiles::position, &ExampleFiles::target}) {
      ExampleFiles changed = files;
      auto& number = (changed.*array).data[0];
      number += number == 1 ? 1 : -1 + 2 * (number == 0);
      put(split, changed);
      EXPECT_TRUE(contents.insert(FileData(folder_.path()).content()).second) << split;
    }
    put(split, files);
  }
  EXPECT_EQ(FileData(folder_.path()).content(), content);
}

TEST_F(File, ChangedFilesAreSeenByTheSameProcess) {
  const TaskKind& kind = *find_task("file");
  const Options before = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_EQ(files_in<FileData>(folder_.path()), files_in<FileData>(folder_.path()));  // read once
  put("test", example_files(8, 30, 8));
  const Options after = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_NE(before.get_string("task.content"), after.get_string("task.content"));
  EXPECT_NO_THROW(kind.make(after));
  EXPECT_EQ(checks::refused([&] { kind.make(before); }).key, "task.content") << "other data than its run's";
}

TEST_F(File, QueriesMayStandInAnyOrder) {
  ExampleFiles files = example_files(7, 20, 8);
  const std::string content = FileData(folder_.path()).content();
  for (std::size_t row = 0; row < 60; row += 3)
    for (auto* array : {&files.query, &files.position, &files.target})
      std::reverse(array->data.begin() + static_cast<std::ptrdiff_t>(row),
                   array->data.begin() + static_cast<std::ptrdiff_t>(row) + 3);
  put("eval", files);
  const auto task = make_task("file", {{"folder", folder_.path()}});
  SequenceBuffer buffer(*task, Split::eval);
  for (std::uint64_t n = 0; n < 20; ++n) {
    const SequenceView s = buffer.draw(0, n);
    for (int q = 0; q < 3 && s.target[q] >= 0; ++q)
      EXPECT_EQ(s.target[q], task->reference_answer(s, s.query[q], s.query_position[q]));
    EXPECT_EQ(s.target[2] < 0, n % 2 == 1);
  }
}

TEST_F(File, ATokenMayStoreNothing) {
  ExampleFiles files = example_files(7, 20, 8);
  files.tokens.data[1] = files.tokens.data[2] = -1;
  files.position.data[0] = 1;  // read before anything is stored
  put("eval", files);
  const auto task = make_task("file", {{"folder", folder_.path()}});
  SequenceBuffer buffer(*task, Split::eval);
  const SequenceView s = buffer.draw(0, 0);
  EXPECT_EQ(s.role[0], static_cast<int>(Role::pad));
  EXPECT_EQ(task->reference_answer(s, s.query[0], 1), -1);
  EXPECT_NE(task->to_text(s).find("1: k"), std::string::npos);
  for (const auto& [name, value] : task->baselines()) EXPECT_TRUE(value >= 0 && value <= 1) << name;
}

TEST_F(File, WhatIsWrongIsNamedWithItsFileAndPlace) {
  const ExampleFiles good = example_files(7, 20, 8);
  std::filesystem::remove(file("eval_position.npy"));
  expect_refused("eval_position.npy",
                 "cannot be read (No such file or directory); task file needs whole numbers of shape [N,Q]");
  write_npy<double>(file("train_target.npy"), {{20, 3}, std::vector<double>(60, 1)});
  expect_refused("train_target.npy", "'<f8', not whole numbers; save array.astype('int64')");
  std::ofstream(file("train_target.npy")) << "no array";
  expect_refused("train_target.npy", "is not an .npy file");
  std::filesystem::remove(file("test_query.npy"));
  ASSERT_EQ(mkfifo(file("test_query.npy").c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("is no regular file"));
  std::filesystem::remove(file("test_query.npy"));

  ExampleFiles bad = good;
  bad.tokens.shape = {20, 24};
  put("train", bad);
  expect_refused(
      "train_tokens.npy",
      "has the shape [20, 24]; it must be [N,T,C] (N sequences of T tokens of C numbers each: key and value");
  bad = good, bad.tokens.shape = {20, 2, 12};
  put("train", bad);
  expect_refused("train_tokens.npy", "so the last size must be 2 or 3");
  bad = good, bad.query = {{0, 3}, {}};
  put("eval", bad);
  expect_refused(
      "eval_query.npy",
      "has the shape [0, 3]; each size of [N,Q] (N sequences of Q queries each) must lie in 1 .. 16777216");
  put("eval", {good.tokens, {{10, 3}, std::vector<std::int64_t>(30, 1)}, good.position, good.target});
  expect_refused("eval_query.npy",
                 "there are 20 sequences in " + file("eval_tokens.npy") + ", so it must be [20, Q]");
  bad = good, bad.position.shape = {15, 4};
  put("eval", bad);
  expect_refused("eval_position.npy",
                 "has the shape [15, 4]; it must be that of " + file("eval_query.npy") + ", [20, 3]");

  bad = good, bad.tokens.data[24 + 3] = -1;
  put("test", bad);
  expect_refused("test_tokens.npy", "holds -1 at [1, 1, 0]; a key must lie in 0 .. 16777215");
  bad = good, bad.tokens.data[24 + 4] = 1 << 24;
  put("test", bad);
  expect_refused(
      "test_tokens.npy",
      "holds 16777216 at [1, 1, 1]; a value or a second key (-1: none) must lie in -1 .. 16777215");
  bad = good, bad.query.data[3] = -1;
  put("test", bad);
  expect_refused("test_query.npy", "holds -1 at [1, 0]; a key must lie in 0 .. 16777215");
  for (const std::int64_t position : {0, 9}) {
    bad = good, bad.position.data[4] = position;
    put("test", bad);
    expect_refused("test_position.npy",
                   "holds " + std::to_string(position) +
                       " at [1, 1]; the number of tokens that a read sees must lie in 1 .. 8");
  }
  bad = good, bad.target.data[6] = bad.target.data[7] = bad.target.data[8] = -1;
  put("train", bad);
  expect_refused("train_target.npy", "sequence 2 asks nothing");
  ExampleFiles two = {
      {{20, 8, 2}, std::vector<std::int64_t>(320, 1)}, good.query, good.position, good.target};
  put("test", two);
  expect_refused("test_tokens.npy",
                 "its tokens have 2 numbers, those of " + file("train_tokens.npy") + " have 3");
}

// -1, nothing written and an unused slot, becomes 255 in uint8: a value that nobody meant. Keys are always there.
TEST_F(File, UnsignedArraysInWhichNoneBecameANumberAreRefused) {
  const auto write = [&](const char* name, const std::string& shape,
                         const std::vector<std::int64_t>& numbers) {
    const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }\n";
    const std::vector<std::uint8_t> bytes(numbers.begin(), numbers.end());
    std::ofstream(file(name), std::ios::binary)
        << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header
        << std::string(bytes.begin(), bytes.end());
  };
  ExampleFiles files = example_files(7, 20, 8);
  files.target.data[5] = -1;
  write("train_target.npy", "20, 3", files.target.data);
  expect_refused("train_target.npy",
                 "holds 255 at [1, 2], which -1 (none) becomes where it is saved as uint8; save");
  std::fill(files.tokens.data.begin(), files.tokens.data.end(), 2);
  files.tokens.data[24 + 3] = 255;
  write("train_tokens.npy", "20, 8, 3", files.tokens.data);
  EXPECT_EQ(refusal(), "read") << "a key";
  files.tokens.data[24 + 4] = 255;
  write("train_tokens.npy", "20, 8, 3", files.tokens.data);
  expect_refused("train_tokens.npy", "holds 255 at [1, 1, 1], which -1 (none)");
}

TEST_F(File, FilesThatChangeAreNoticed) {
  const FileData data(folder_.path());
  put("train", example_files(7, 20, 8));
  EXPECT_FALSE(data.changed()) << "the same numbers, written anew";
  put("train", example_files(8, 20, 8));
  ASSERT_TRUE(data.changed());
  EXPECT_THAT(std::string(data.changed()->what()), HasSubstr(file("train_tokens.npy")));
  put("train", example_files(7, 20, 8));
  EXPECT_FALSE(data.changed());
}

TEST(FileTask, SaysWhatItNeeds) {
  const TaskKind& kind = *find_task("file");
  Options options;
  fill_defaults(options, "task", kind.options);
  const auto resolving = [&] { kind.resolve(options); };
  const auto found = checks::refused(resolving);
  EXPECT_EQ(found.key, "task.folder");
  EXPECT_TRUE(found.says("crosstalk describe file")) << found.why;
  options.set("task.folder", "no/such/folder");
  const auto none = std::filesystem::current_path() / "no/such/folder is no folder";
  EXPECT_TRUE(checks::refused(resolving).says(none.string())) << none;
}

TEST(RealFile, ExamplesStandAsInTheirFiles) {
  const ExampleFolder folder;
  for (const char* split : {"train", "eval", "test"})
    write_examples<double>(folder.path(), split, 6, 5, 3, false);
  const auto task = make_task("file", {{"folder", folder.path()}});
  EXPECT_EQ(task->vocabulary().numbers, 2);
  EXPECT_EQ(task->shape(Split::eval), (SequenceShape{5, 6, 3}));
  const auto x = read_npy<double>(folder.path() + "/eval_x.npy"),
             y = read_npy<double>(folder.path() + "/eval_y.npy"),
             asked_x = read_npy<double>(folder.path() + "/eval_asked_x.npy"),
             asked_y = read_npy<double>(folder.path() + "/eval_asked_y.npy");
  SequenceBuffer buffer(*task, Split::eval, 0);
  double square = 0;
  for (std::size_t n = 0; n < 6; ++n) {
    const SequenceView s = buffer.draw(1, n);
    const auto number = [&](std::size_t t, std::size_t c) { return s.tokens[t * 6 + c] * kNumberUnit; };
    for (std::size_t t = 0; t < 5; ++t) {
      EXPECT_EQ(s.role[t], static_cast<int>(Role::write));
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(number(t, i), x.data[(n * 5 + t) * 2 + i]);
        EXPECT_EQ(number(t, 3 + i), t < 3 ? asked_x.data[(n * 3 + t) * 2 + i] : 0);
      }
      EXPECT_EQ(number(t, 2), y.data[n * 5 + t]);
      EXPECT_EQ(number(t, 5), t < 3 ? asked_y.data[n * 3 + t] : 0);
    }
    for (int q = 0; q < 3; ++q) {
      EXPECT_EQ(s.query[q], q);
      EXPECT_EQ(s.query_position[q], 5);
      EXPECT_EQ(s.target[q], 0);
    }
  }
  for (const double one : asked_y.data) square += one * one;
  EXPECT_NEAR(task->baselines().at("constant_loss"), square / 2 / 18, 1e-12);
  EXPECT_LE(task->baselines().at("least_squares_loss"), 1e3);
}

// float32 or float64, outputs [N,T] or [N,T,1]: the same runs.
TEST(RealFile, TheContentIsWhatTheNumbersAre) {
  const ExampleFolder a, b;
  for (const char* split : {"train", "eval", "test"}) {
    write_examples<double>(a.path(), split, 6, 5, 3, false);
    write_examples<float>(b.path(), split, 6, 5, 3, true);
  }
  EXPECT_EQ(FileData(a.path()).content(), FileData(b.path()).content());
  write_examples<float>(b.path(), "test", 7, 5, 3, true);
  EXPECT_NE(FileData(a.path()).content(), FileData(b.path()).content());
}

TEST(RealFile, RefusesWhatItCannotHold) {
  const ExampleFolder folder;
  const auto refused = [&](const std::string& file, const std::string& why) {
    const auto found = checks::refused([&] { FileData(folder.path()); });
    EXPECT_TRUE(found.says(folder.path() + "/" + file) && found.says(why)) << found.why;
    std::filesystem::remove(folder.path() + "/" + file);
    for (const char* split : {"train", "eval", "test"})
      write_examples<double>(folder.path(), split, 6, 5, 3, false);
    EXPECT_EQ(FileData(folder.path()).numbers(), 2);
  };
  for (const char* split : {"train", "eval", "test"})
    write_examples<double>(folder.path(), split, 6, 5, 3, false);
  const auto write = [&](const char* name, const std::vector<std::int64_t>& shape, double value) {
    std::size_t size = 1;
    for (const std::int64_t one : shape) size *= static_cast<std::size_t>(one);
    write_npy(folder.path() + "/" + name, NpyArray<double>{shape, std::vector<double>(size, value)});
  };
  write("eval_y.npy", {6, 5}, 3000);
  refused("eval_y.npy", "holds 3000 at [0, 0]; real numbers are kept as whole multiples of 2^-20");
  write("train_y.npy", {6, 5}, 1e-7);  // would be 0
  refused("train_y.npy",
          "numbers of column 0 have a root mean square of 1e-07, and are kept as whole multiples of 2^-20");
  std::filesystem::create_directories(folder.path() + "/eval");
  write("eval/x.npy", {6, 5, 2}, 1);
  refused("eval/x.npy", "say the same of eval");
  write("eval_asked_z.npy", {6, 5, 2}, 1);
  refused("eval_asked_z.npy", "did you mean eval_asked_x.npy?");
  write("train_x.npy", {6, 5, 2}, std::nan(""));
  refused("train_x.npy", "holds nan at [0, 0, 0]");
  write("test_asked_y.npy", {6, 4}, 0);
  refused("test_asked_y.npy", "it must be [6, 3, 1]");
  write_examples<double>(folder.path(), "eval", 6, 2, 3, false);
  refused("eval_asked_x.npy", "asks 3 inputs after 2 examples");
  write("train_x.npy", {6, 5}, 0);
  refused("train_x.npy", "has the shape [6, 5]; it must be [N,T,n]");
  std::filesystem::remove(folder.path() + "/test_asked_x.npy");
  refused("test_asked_x.npy", "task file needs real numbers of shape [N,Q,n] there");
}

}  // namespace crosstalk::testing::file_test
