// A text as it stands: windows, parts, widths of ids, what is refused, and that it is watched.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <fstream>
#include <set>

#include "tasks/golden.h"
#include "tasks/kinds/file_example.h"
#include "tasks/text_data.h"

namespace crosstalk::testing {
namespace {

[[maybe_unused]] const bool pinned =
    pin("text", {{"letters", {}, 0x1eca17ef9b730fc1u, 0x43db8a0101264827u},
                 {"lanes", {{"lanes", 5}}, 0x6f107229d171ad71u, 0x87f5e4ccb5ec1ad6u}});

class TextFiles : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_.path() + "/" + name, std::ios::binary | std::ios::trunc) << bytes;
  }
  void put(const std::string& name, const std::vector<std::uint16_t>& ids) const {
    put(name, std::string(reinterpret_cast<const char*>(ids.data()), 2 * ids.size()));
  }
  std::unique_ptr<Task> task(Settings settings = {}) const {
    settings.emplace("folder", folder_.path());
    settings.emplace("length", 8);
    return make_task("text", settings);
  }
  std::string refusal(const Settings& settings = {}) const {
    return checks::refused([&] { task(settings); }).why;
  }
  void expect_refused(const std::string& why, const Settings& settings = {}) const {
    const std::string message = refusal(settings);
    EXPECT_NE(message.find(why), std::string::npos) << message;
  }
  ExampleFolder folder_;
};

/// Bytes 0 .. 199 and on: where a window begins can be read off its first byte.
std::string counted(int n) {
  std::string bytes;
  for (int i = 0; i < n; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST_F(TextFiles, TheNextByteIsDueAtEachAndPartsDoNotOverlap) {
  put("text", counted(200));
  const auto text = task({{"eval_share", 0.2}, {"test_share", 0.25}});
  const int first[] = {0, 110, 150}, count[] = {110, 40, 50};
  for (const Split split : {Split::train, Split::eval, Split::test}) {
    SequenceBuffer buffer(*text, split);
    const int from = first[static_cast<int>(split)], all = count[static_cast<int>(split)];
    Counts begins(static_cast<std::size_t>(all - 8));
    for (std::uint64_t n = 0; n < 20000; ++n) {
      const SequenceView s = buffer.draw(5, n);
      const int begin = s.tokens[0] - from;
      ASSERT_TRUE(begin >= 0 && begin < all - 8) << begin;
      for (int t = 0; t < 8; ++t) {
        ASSERT_EQ(s.tokens[t], from + begin + t);
        ASSERT_EQ(s.target[t], from + begin + t + 1);
        ASSERT_EQ(s.query_position[t], t + 1);
      }
      ++begins[begin];
      if (split != Split::train) {
        ASSERT_EQ(begin, static_cast<int>(n % static_cast<std::uint64_t>(text->sequences(split))) * 8);
      }
    }
    if (split == Split::train) {
      EXPECT_LT(uniformity_score(begins), 4.5);
    }
  }
  EXPECT_EQ(text->sequences(Split::eval), 4);  // 33 tokens; the 40th is the last answer there could be
  EXPECT_EQ(text->sequences(Split::test), 6);
  EXPECT_EQ(text->lengthened(2)->sequences(Split::test), 3);
}

// Replayed from the words of the option: lanes of equal length, windows that follow one another, gradients aside.
TEST_F(TextFiles, LanesGoOnFromWindowToWindow) {
  put("train", counted(104));  // lanes of 34 tokens: 4 windows of 8, and 2 tokens that fill none
  put("eval", counted(41));
  put("test", counted(60));
  const auto text = task({{"lanes", 3}, {"eval_lanes", 2}});
  ASSERT_EQ(text->sequences(Split::train), 12);
  EXPECT_EQ(text->sequences(Split::eval), 2);
  EXPECT_EQ(text->shape(Split::eval), (SequenceShape{20, 1, 20}));
  EXPECT_EQ(text->shape(Split::test), (SequenceShape{29, 1, 29}));
  SequenceBuffer train(*text, Split::train);
  std::set<int> left_out;
  for (std::uint64_t n = 0; n < 12 * 30; ++n) {
    const int epoch = static_cast<int>(n / 12), lane = static_cast<int>(n % 3),
              window = static_cast<int>(n / 3 % 4);
    const int left = train.draw(5, n - n % 12).tokens[0];  // lane 0 begins at 0
    ASSERT_TRUE(left >= 0 && left <= 2) << epoch;
    left_out.insert(left);
    const SequenceView s = train.draw(5, n);
    for (int t = 0; t < 8; ++t) {
      ASSERT_EQ(s.tokens[t], lane * 34 + left + window * 8 + t) << n;
      ASSERT_EQ(s.target[t], s.tokens[t] + 1);
    }
  }
  EXPECT_EQ(left_out.size(), 3u);
  SequenceBuffer test(*text, Split::test);
  for (const std::uint64_t lane : {0, 1}) {
    const SequenceView s = test.draw(5, lane);
    for (int t = 0; t < 29; ++t) {
      ASSERT_EQ(s.tokens[t], static_cast<int>(lane) * 29 + t);
      ASSERT_EQ(s.target[t], s.tokens[t] + 1);
    }
  }
  EXPECT_EQ(task({{"lanes", 3}})->sequences(Split::test), 3) << "eval_lanes is lanes";
  EXPECT_EQ(task({{"eval_lanes", 1}})->shape(Split::train).T, 8);
  expect_refused("makes lanes of 14 tokens of the 104 of train; give at most 6 lanes", {{"lanes", 7}});
  expect_refused("makes lanes of 8 tokens of the 41 of eval; give at most 4 lanes", {{"eval_lanes", 5}});
  try {
    text->lengthened(2);
    ADD_FAILURE();
  } catch (const OptionError& error) {
    EXPECT_EQ(error.key, "eval.length_factors");
  }
}

TEST_F(TextFiles, BytesIdsAndArraysOfThemAreOneText) {
  const std::string bytes = counted(120) + counted(80);
  put("text.txt", bytes);
  const auto text = task();
  SequenceBuffer of_bytes(*text, Split::train);
  std::vector<std::vector<std::int32_t>> all;
  for (std::uint64_t n = 0; n < 50; ++n) {
    of_bytes.draw(1, n);
    all.push_back(of_bytes.contents());
  }
  std::filesystem::remove(folder_.path() + "/text.txt");
  const auto expect_equal = [&](int vocabulary) {
    const auto other = task();
    EXPECT_EQ(other->vocabulary().tokens, vocabulary);
    SequenceBuffer buffer(*other, Split::train);
    for (std::uint64_t n = 0; n < 50; ++n) {
      buffer.draw(1, n);
      EXPECT_EQ(buffer.contents(), all[n]);
    }
  };
  put("ids.bin", std::vector<std::uint16_t>(bytes.begin(), bytes.end()));
  expect_equal(120);
  std::filesystem::remove(folder_.path() + "/ids.bin");
  write_npy(folder_.path() + "/ids.npy", NpyArray<std::int64_t>{{200}, {bytes.begin(), bytes.end()}});
  expect_equal(120);
}

TEST_F(TextFiles, AFileForEachSplitAndWithoutTestTheSecondHalfOfEval) {
  put("train.txt", counted(100));
  put("val.txt", counted(60));
  const auto two = task();
  EXPECT_EQ(two->sequences(Split::eval), 3);
  SequenceBuffer test(*two, Split::test);
  EXPECT_EQ(test.draw(0, 0).tokens[0], 30);
  put("test.txt", counted(50));
  EXPECT_EQ(task()->sequences(Split::eval), 7);
  EXPECT_EQ(task()->sequences(Split::test), 6);
  expect_refused("a share cuts one file alone", {{"test_share", 0.5}});
  put("eval.txt", counted(60));
  expect_refused("say the same of eval");
}

TEST_F(TextFiles, WhatCannotBeMeantIsRefused) {
  expect_refused("is no folder; it must hold one file of text or ids",
                 {{"folder", folder_.path() + "/none"}});
  expect_refused("needs task.folder, where it finds one file of text or ids", {{"folder", std::string()}});
  expect_refused("holds no file");
  put("a.txt", "");
  expect_refused("train has 0 tokens in");
  put("a.txt", counted(30));
  expect_refused("give shorter windows, or more text");
  expect_refused("a text of bytes has 256 tokens", {{"vocabulary", 128}, {"length", 1}});
  expect_refused("leave nothing to train on", {{"eval_share", 0.5}, {"test_share", 0.5}});
  put("b.txt", counted(30));
  expect_refused("which of them is the text?");
  std::filesystem::remove(folder_.path() + "/b.txt");
  std::filesystem::rename(folder_.path() + "/a.txt", folder_.path() + "/train.txt");
  expect_refused("and no eval");
  std::filesystem::remove(folder_.path() + "/train.txt");
  put("a.bin", "abc");
  expect_refused("an odd number");
  std::filesystem::remove(folder_.path() + "/a.bin");
  const std::string array = folder_.path() + "/a.npy";
  write_npy(array, NpyArray<std::int64_t>{{2, 200}, std::vector<std::int64_t>(400)});
  expect_refused("has the shape [2, 200]; it must be [N]");
  std::vector<std::int64_t> ids(400, 3);
  ids[7] = -1;
  write_npy(array, NpyArray<std::int64_t>{{400}, ids});
  expect_refused("holds -1 at [7]");
  ids[7] = 9;
  write_npy(array, NpyArray<std::int64_t>{{400}, ids});
  EXPECT_EQ(refusal(), "accepted");
  expect_refused("give at least 10", {{"vocabulary", 9}});
  std::ofstream(array) << "no array";
  expect_refused("task text reads");
}

TEST_F(TextFiles, ATextThatIsNotHeldIsReadAlikeAndWatched) {
  std::vector<std::uint16_t> ids;
  for (int i = 0; i < 2000; ++i) ids.push_back(static_cast<std::uint16_t>(i * i % 50000));
  put("ids.bin", ids);
  const TextData held(folder_.path()), left(folder_.path(), 0);
  EXPECT_TRUE(held.is_held());
  EXPECT_FALSE(left.is_held());
  EXPECT_EQ(held.content(), left.content());
  EXPECT_EQ(held.tokens(), left.tokens());
  for (const Split split : {Split::train, Split::eval, Split::test})
    for (const std::int64_t first : {0, 17, 1900}) {
      const TokenNumbers numbers = left.read(split, first, 100);
      for (int i = 0; i < 100; ++i) ASSERT_EQ(numbers[i], ids[static_cast<std::size_t>(first + i)]);
    }
  EXPECT_FALSE(left.changed());
  const std::vector<std::uint16_t> before = ids;
  ids.push_back(7);
  put("ids.bin", ids);
  EXPECT_TRUE(left.changed());
  EXPECT_TRUE(held.changed());
  put("ids.bin", before);
  EXPECT_FALSE(held.changed());  // what it holds is there again
  ids.resize(1000);
  put("ids.bin", ids);
  EXPECT_EQ(left.read(Split::test, 1900, 10)[3], 0);  // there is nothing: known by what follows
  EXPECT_TRUE(left.changed());
  EXPECT_TRUE(held.changed());
}

}  // namespace
}  // namespace crosstalk::testing
