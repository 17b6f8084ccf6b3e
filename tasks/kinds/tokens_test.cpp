// Arrays of single tokens: read as they stand in either layout, told by content, segments, refused by place.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/kinds/files_fixture.h"
#include "tasks/token_data.h"

namespace crosstalk::testing::tokens_test {

[[maybe_unused]] const bool pinned =
    pin("tokens", {{"example", {}, 0xf5f6c075a4b8e570u, 0x6939196d0334bb53u}});

constexpr const char* splits[] = {"train", "eval", "test"};

class Tokens : public FilesTest<TokenData, ExampleTokens, example_tokens> {
 protected:
  std::unique_ptr<Task> task(Settings settings = {}) const {
    settings["folder"] = folder_.path();
    return make_task("tokens", settings);
  }
};

/// Arrays as `sample --out` writes them, of any task of single tokens.
void write_sampled(const std::string& folder, const std::string& split_name, const Task& task, Split split,
                   int N) {
  SequenceBuffer buffer(task, split, 0, false);
  const SequenceShape shape = task.shape(split);
  NpyArray<std::int64_t> tokens{{N, shape.T}, {}}, positions{{N, shape.Q}, {}}, targets{{N, shape.Q}, {}};
  for (int n = 0; n < N; ++n) {
    const SequenceView s = buffer.draw(4, static_cast<std::uint64_t>(n));
    tokens.data.insert(tokens.data.end(), s.tokens, s.tokens + shape.T);
    for (int q = 0; q < shape.Q; ++q) positions.data.push_back(s.query_position[q] - 1);
    targets.data.insert(targets.data.end(), s.target, s.target + shape.Q);
  }
  std::filesystem::create_directories(folder + "/" + split_name);
  write_npy(folder + "/" + split_name + "/tokens.npy", tokens);
  write_npy(folder + "/" + split_name + "/positions.npy", positions);
  write_npy(folder + "/" + split_name + "/targets.npy", targets);
}

TEST(TokensOfTasks, EveryTaskOfSingleTokensIsDrawnFromItsSampleAsByItsGenerator) {
  int tasks = 0;
  for (const TaskKind& kind : task_kinds()) {
    const auto generator = make_task(kind.name);
    if (generator->vocabulary().tokens == 0 || kind.name == "tokens") continue;
    SCOPED_TRACE(kind.name);
    ++tasks;
    const ExampleFolder folder;
    for (const Split split : {Split::train, Split::eval, Split::test})
      write_sampled(folder.path(), splits[static_cast<int>(split)], *generator, split, 12);
    const Vocabulary vocabulary = generator->vocabulary();
    const auto file = make_task("tokens", {{"folder", folder.path()},
                                           {"order", "file"},
                                           {"vocabulary", vocabulary.tokens},
                                           {"answers", vocabulary.values}});
    EXPECT_EQ(file->vocabulary().tokens, vocabulary.tokens);
    EXPECT_EQ(file->vocabulary().values, vocabulary.values);
    for (const Split split : {Split::train, Split::eval, Split::test}) {
      SequenceBuffer a(*generator, split, 0, false), b(*file, split, 0, false);
      for (std::uint64_t n = 0; n < 12; ++n) {
        const SequenceView x = a.draw(4, n), y = b.draw(9, n);
        ASSERT_EQ(x.shape.T, y.shape.T);
        ASSERT_TRUE(std::equal(x.tokens, x.tokens + x.shape.T, y.tokens));
        for (int q = 0; q < x.shape.Q; ++q) {
          if (x.target[q] < 0) continue;
          ASSERT_LT(q, y.shape.Q);
          ASSERT_EQ(x.target[q], y.target[q]);
          ASSERT_EQ(x.query_position[q], y.query_position[q]);
          ASSERT_EQ(x.query[q], y.query[q]);
        }
      }
    }
  }
  EXPECT_GE(tasks, 3);
}

TEST_F(Tokens, ASequenceIsARowOfTheFileWithAnAnswerAtEachLabel) {
  const auto files = example_tokens(7, 20, 8);
  const auto given = task({{"order", "file"}});
  for (const Split split : {Split::train, Split::eval}) {
    SequenceBuffer buffer(*given, split);
    for (std::uint64_t n = 0; n < 40; ++n) {
      const SequenceView s = buffer.draw(5, n);
      const auto row = static_cast<std::size_t>(n % 20 * 8);
      std::size_t q = 0;
      for (std::size_t t = 0; t < 8; ++t) {
        ASSERT_EQ(s.tokens[t], files.inputs.data[row + t]);
        const std::int64_t label = files.labels.data[row + t];
        EXPECT_EQ(s.role[t], static_cast<int>(label >= 0 ? Role::ask : Role::pad));
        if (label < 0) continue;
        ASSERT_EQ(s.target[q], label);
        ASSERT_EQ(s.query_position[q], static_cast<int>(t) + 1);
        ++q;
      }
      ASSERT_TRUE(q == 7 || q == 3);
      for (; q < 7; ++q) ASSERT_EQ(s.target[q], -1);
    }
  }
}

TEST_F(Tokens, AnEpochHasEachSequenceOnceInAnOrderOfItsOwn) {
  ExampleTokens files = example_tokens(3, 50, 8);
  for (std::size_t n = 0; n < 50; ++n)
    files.inputs.data[n * 8] = static_cast<std::int64_t>(n);  // a name of its own
  put("train", files);
  const auto given = task();
  EXPECT_EQ(given->sequences(Split::train), 50);
  SequenceBuffer buffer(*given, Split::train, 0, false);
  std::set<std::vector<int>> orders;
  for (const std::uint64_t seed : {1, 2})
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int> order;
      for (std::uint64_t i = 0; i < 50; ++i) order.push_back(buffer.draw(seed, epoch * 50 + i).tokens[0]);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (int i = 0; i < 50; ++i) ASSERT_EQ(order[static_cast<std::size_t>(i)], i);
    }
  EXPECT_EQ(orders.size(), 6u);
}

TEST_F(Tokens, FortranOrderIsReadAsItIs) {
  const std::string content = TokenData(folder_.path()).content();
  const ExampleTokens files = example_tokens(7, 20, 8);
  for (const char* split : splits) {
    NpyArray<std::int64_t> turned{{8, 20}, {}};
    for (std::size_t t = 0; t < 8; ++t)
      for (std::size_t n = 0; n < 20; ++n) turned.data.push_back(files.inputs.data[n * 8 + t]);
    const std::string path = file(std::string(split) + "_inputs.npy");
    std::string bytes = npy_bytes(turned, path);
    bytes.replace(bytes.find("False, "), 7, "True,  ").replace(bytes.find("(8,20)"), 6, "(20,8)");
    std::ofstream(path, std::ios::binary) << bytes;
  }
  for (const std::size_t held : {TokenData::kHeld, std::size_t{0}})
    EXPECT_EQ(TokenData(folder_.path(), held).content(), content);
}

TEST_F(Tokens, BothLayoutsAndAllWidthsAreTheSameContent) {
  const std::string content = TokenData(folder_.path()).content();
  const ExampleTokens files = example_tokens(7, 20, 8);
  const ExampleFolder other;
  for (const char* split : splits) {
    NpyArray<std::int32_t> tokens{{20, 8}, {files.inputs.data.begin(), files.inputs.data.end()}};
    NpyArray<std::int64_t> positions{{20, 9}, {}}, targets{{20, 9}, {}};
    for (std::size_t n = 0; n < 20; ++n)
      for (std::size_t t = 0; t < 9; ++t) {
        const std::int64_t label = t < 8 ? files.labels.data[n * 8 + t] : -1;
        positions.data.push_back(label < 0 ? -1 : static_cast<std::int64_t>(t));
        targets.data.push_back(label < 0 ? -1 : label);
      }
    write_npy(other.path() + "/" + split + "_tokens.npy", tokens);
    write_npy(other.path() + "/" + split + "_positions.npy", positions);
    write_npy(other.path() + "/" + split + "_targets.npy", targets);
  }
  EXPECT_EQ(TokenData(other.path()).content(), content);
  std::set<std::string> contents = {content};
  for (const char* split : splits)
    for (auto array : {&ExampleTokens::inputs, &ExampleTokens::labels}) {
      ExampleTokens changed = files;
      auto& number = (changed.*array).data[9];
      number = number == 1 ? 2 : 1;
      put(split, changed);
      EXPECT_TRUE(contents.insert(TokenData(folder_.path()).content()).second) << split;
      put(split, files);
    }
  write_npy<std::int64_t>(file("eval_segment.npy"), {{20}, std::vector<std::int64_t>(20, 3)});
  write_npy<std::int64_t>(file("test_segment.npy"), {{20}, std::vector<std::int64_t>(20, 3)});
  EXPECT_TRUE(contents.insert(TokenData(folder_.path()).content()).second);
}

/// An .npy file of any type, whose data begin anywhere.
void write_raw(const std::string& path, const std::string& type, const std::string& shape,
               const std::string& data, int padding = 0) {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }" +
                             std::string(static_cast<std::size_t>(padding), ' ') + "\n";
  std::ofstream(path, std::ios::binary)
      << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
      << static_cast<char>(header.size() >> 8) << header << data;
}

/// `numbers` as numpy's astype makes them.
template <class Integer>
std::string bytes_as(const std::vector<std::int64_t>& numbers) {
  const std::vector<Integer> narrow(numbers.begin(), numbers.end());
  return {reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(Integer)};
}

TEST_F(Tokens, IntegersOfEveryWidthAreRead) {
  const auto expect = [&]<class Integer>(const char* type, std::vector<Integer> numbers) {
    for (int padding = 0; padding < 8; ++padding) {  // wherever they begin
      write_raw(file("numbers.npy"), type, std::to_string(numbers.size()) + ",",
                {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Integer)}, padding);
      for (std::size_t held : {std::size_t{1000}, std::size_t{0}}) {
        const IntegerFile array(file("numbers.npy"), held);
        std::vector<std::int64_t> room;
        const TokenNumbers all = array.read(0, array.count(), room);
        for (std::size_t i = 0; i < numbers.size(); ++i)
          EXPECT_EQ(all[static_cast<std::int64_t>(i)], static_cast<std::int64_t>(numbers[i])) << type;
      }
    }
  };
  expect("|i1", std::vector<std::int8_t>{-100, 5, 127});
  expect("|u1", std::vector<std::uint8_t>{0, 200});
  expect("<i2", std::vector<std::int16_t>{-100, 30000});
  expect("<u2", std::vector<std::uint16_t>{60000, 1});
  expect("<i4", std::vector<std::int32_t>{-1, 1 << 30});
  expect("<u4", std::vector<std::uint32_t>{3000000000u, 1});
  expect("<i8", std::vector<std::int64_t>{-1, std::int64_t{1} << 40});
  expect("<u8", std::vector<std::uint64_t>{7, 1});
}

// -100 becomes 156 in uint8: an answer that nobody meant.
TEST_F(Tokens, UnsignedLabelsThatMeantNoneAreRefused) {
  for (const std::int64_t none : {-1, -100}) {
    std::vector<std::int64_t> labels(160, none);
    for (std::size_t row = 0; row < 20; ++row) labels[row * 8 + 7] = 3;
    const auto write = [&](const char* type, const std::string& bytes) {
      write_raw(file("train_labels.npy"), type, "20, 8", bytes);
    };
    const auto text = [&](std::int64_t number, int bits) {
      return fmt::format("holds {} at [0, 0], which {} (none) becomes where it is saved as uint{}; save",
                         number, none, bits);
    };
    write("|u1", bytes_as<std::uint8_t>(labels));
    expect_refused("train_labels.npy", text(256 + none, 8));
    write("<u2", bytes_as<std::uint16_t>(labels));
    expect_refused("train_labels.npy", text(65536 + none, 16));
    write("<u4", bytes_as<std::uint32_t>(labels));
    expect_refused("train_labels.npy", text((std::int64_t{1} << 32) + none, 32));
    write("<u8", bytes_as<std::uint64_t>(labels));
    EXPECT_EQ(refusal(), "read");
    EXPECT_EQ(TokenData(folder_.path()).spec().part[0].Q, 1) << "int64 reads what was meant";
    write("|i1", bytes_as<std::int8_t>(labels));
    EXPECT_EQ(TokenData(folder_.path()).spec().part[0].Q, 1);
  }
}

// Files that change while runs train on them: what is held goes on being what was read; of what is not, nothing leaves its range.
TEST_F(Tokens, FilesThatChangeAreNoticedAndNeverReadOutOfRange) {
  const ExampleTokens files = example_tokens(7, 20, 8);
  for (const std::size_t most_held : {TokenData::kHeld, std::size_t{0}}) {
    const bool held = most_held > 0;
    SCOPED_TRACE(held);
    put_all();
    const TokenData data(folder_.path(), most_held);
    ASSERT_EQ(data.is_held(), held);
    ASSERT_FALSE(data.changed());
    const auto row = [&](std::int64_t n) {
      std::vector<std::int32_t> tokens(8), role(8), query(7), position(7), target(7);
      const SequenceView out{{8, 1, 7},       tokens.data(), role.data(), query.data(),
                             position.data(), target.data(), nullptr};
      put_tokens(held ? data.spec().part[0] : data.row_of(Split::train, n), held ? n : 0, out);
      for (int t = 0; t < 8; ++t)
        EXPECT_TRUE(tokens[static_cast<std::size_t>(t)] >= 0 && tokens[static_cast<std::size_t>(t)] < 7);
      for (const std::int32_t label : target) EXPECT_TRUE(label >= -1 && label < 5);
      return tokens;
    };
    const std::vector<std::int32_t> before = row(3);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), files.inputs.data.begin() + 24));
    put_all();  // the same numbers, written anew
    const auto touched = data.changed();
    EXPECT_EQ(touched.has_value(), !held) << "what was half written may have been read";
    for (const std::int64_t id : {std::int64_t{1} << 30, -(std::int64_t{1} << 40)}) {
      ExampleTokens other = files;
      std::fill(other.inputs.data.begin(), other.inputs.data.end(), id);
      std::fill(other.labels.data.begin(), other.labels.data.end(), id);
      put("train", other);
      const std::vector<std::int32_t> now = row(3);
      EXPECT_TRUE(!held || now == before);
      ASSERT_TRUE(data.changed());
      EXPECT_THAT(std::string(data.changed()->what()), HasSubstr(file("train_inputs.npy")));
    }
    std::filesystem::resize_file(file("train_inputs.npy"), 200);  // as numpy.save leaves it for a moment
    row(19);
    EXPECT_TRUE(data.changed());
    put_all();
    EXPECT_EQ(data.changed().has_value(), !held);
  }
}

// Whatever asks nothing is as if it were not there, in its segment as well.
TEST_F(Tokens, SequencesWithoutALabelAreLeftOut) {
  ExampleTokens files = example_tokens(7, 20, 8);
  const std::vector<std::int64_t> silent = {0, 5, 6, 19};
  for (const std::int64_t row : silent) std::fill_n(files.labels.data.begin() + row * 8, 8, -100);
  std::vector<std::int64_t> kinds(20);
  for (std::size_t row = 0; row < 20; ++row) kinds[row] = row == 5 ? 2 : static_cast<std::int64_t>(row % 2);
  for (const char* split : splits) {
    put(split, files);
    if (std::string(split) != "train")
      write_npy<std::int64_t>(file(std::string(split) + "_segment.npy"), {{20}, kinds});
  }
  const auto given = task({{"order", "file"}});
  for (const Split split : {Split::train, Split::test}) {
    ASSERT_EQ(given->sequences(split), 16);
    SequenceBuffer buffer(*given, split);
    std::uint64_t n = 0;
    for (std::int64_t row = 0; row < 20; ++row) {
      if (std::find(silent.begin(), silent.end(), row) != silent.end()) continue;
      const SequenceView s = buffer.draw(5, n++);
      EXPECT_TRUE(std::equal(s.tokens, s.tokens + 8, files.inputs.data.begin() + row * 8)) << row;
      EXPECT_GE(s.target[0], 0) << row;
    }
  }
  const auto segments = given->segments(Split::test);
  ASSERT_EQ(segments.size(), 2u);  // all of segment 2 are silent
  EXPECT_EQ(segments[0].sequences, 8);
  EXPECT_EQ(segments[1].sequences, 8);
}

// Documents of lengths 1, 2 and 5 in one row, 3 and 5 in the next, whatever their numbers; held or read row by row.
TEST_F(Tokens, DocumentsOfASequenceAreSequencesOfTheirOwn) {
  ExampleTokens files = example_tokens(7, 20, 8);
  std::fill_n(files.labels.data.begin() + 3 * 8, 3, -100);  // a document that asks nothing
  NpyArray<std::int64_t> document{{20, 8}, {}}, kinds{{20}, {}};
  std::vector<std::pair<std::ptrdiff_t, int>> lie;  // where, and how long
  for (std::int64_t row = 0; row < 20; ++row) {
    const std::vector<int> lengths = row % 2 == 1 ? std::vector<int>{3, 5} : std::vector<int>{1, 2, 5};
    std::ptrdiff_t at = row * 8;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      document.data.insert(document.data.end(), static_cast<std::size_t>(lengths[i]),
                           i == 1 ? 0 : 7 + static_cast<std::int64_t>(i));
      const auto first = files.labels.data.begin() + at;
      if (std::any_of(first, first + lengths[i], [](std::int64_t label) { return label >= 0; }))
        lie.emplace_back(at, lengths[i]);
      at += lengths[i];
    }
    kinds.data.push_back(row % 2);
  }
  for (const std::string split : splits) {
    put(split, files);
    write_npy(file(split + "_document.npy"), document);
    if (split != "train") write_npy(file(split + "_segment.npy"), kinds);
  }
  const TokenData held(folder_.path()), read(folder_.path(), 0);
  EXPECT_EQ(held.content(), read.content());
  ASSERT_EQ(held.unused().size(), 3u);
  EXPECT_THAT(held.unused()[0], HasSubstr(fmt::format("{} of the 50 documents of", 50 - lie.size())));
  const auto given = task({{"order", std::string("file")}});
  ASSERT_EQ(given->sequences(Split::train), std::ssize(lie));
  ASSERT_EQ(given->shape(Split::train).T, 5);
  const SequenceShape shape = given->shape(Split::train);
  SequenceBuffer buffer(*given, Split::train), same(*given, Split::train);
  const TokensSpec spec = held.spec();
  for (std::size_t n = 0; n < lie.size(); ++n) {
    const SequenceView s = buffer.draw(5, n), other = same.draw(5, n + lie.size());
    const TokensPart one = read.row_of(Split::train, tokens_row(spec, 5, Split::test, n));
    put_tokens(one, 0, other);
    const auto [at, length] = lie[n];
    for (int t = 0; t < 5; ++t) {
      EXPECT_EQ(s.tokens[t], t < length ? files.inputs.data[static_cast<std::size_t>(at + t)] : 0);
      EXPECT_EQ(other.tokens[t], s.tokens[t]);
    }
    int q = 0;
    for (int t = 0; t < length; ++t) {
      const std::int64_t label = files.labels.data[static_cast<std::size_t>(at + t)];
      if (label < 0) continue;
      ASSERT_EQ(s.target[q], label);
      ASSERT_EQ(other.target[q], label);
      ASSERT_EQ(s.query_position[q++], t + 1);
    }
    for (; q < shape.Q; ++q) ASSERT_EQ(std::max(s.target[q], other.target[q]), -1);
  }
  const auto segments = given->segments(Split::test);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].sequences + segments[1].sequences, std::ssize(lie));
  EXPECT_LE(segments[1].sequences, 20);
  for (const char* split : splits) {
    std::filesystem::remove(file(std::string(split) + "_document.npy"));
    if (std::string(split) != "train") std::filesystem::remove(file(std::string(split) + "_segment.npy"));
  }
  const auto refused = [&](std::vector<std::int64_t> shape_of, std::int64_t number, const std::string& why) {
    std::int64_t size = shape_of[0] * shape_of[1];
    NpyArray<std::int64_t> wrong{std::move(shape_of),
                                 std::vector<std::int64_t>(static_cast<std::size_t>(size))};
    wrong.data[0] = number;
    wrong.data[4] = number;
    write_npy(file("train_document.npy"), wrong);
    const std::string message = refusal();
    EXPECT_THAT(message, HasSubstr(file("train_document.npy")));
    EXPECT_THAT(message, HasSubstr(why));
  };
  refused({20, 7}, 0, "it must be [20, 8]");
  refused({20, 8}, -1, "holds -1 at [0, 0]; the number of a document is at least 0");
  refused({20, 8}, 3, "holds 3 at [0, 4] again");
}

// An answer is told apart by what followed its token earlier.
TEST_F(Tokens, WritesAreWhatFollowedAToken) {
  const auto given = task();
  SequenceBuffer buffer(*given, Split::test);
  const SequenceView s = buffer.draw(1, 0);
  const std::vector<KeyWrite> writes = given->writes(s);
  ASSERT_EQ(writes.size(), 7u);
  for (int t = 0; t < 7; ++t) {
    EXPECT_EQ(writes[static_cast<std::size_t>(t)].key, s.tokens[t]);
    EXPECT_EQ(writes[static_cast<std::size_t>(t)].value, s.tokens[t + 1]);
    EXPECT_EQ(writes[static_cast<std::size_t>(t)].position, t + 2);
  }
}

// What goes to a GPU: as few bytes as the numbers need, whatever the file has.
TEST(TokenNumbersOfDevices, TakeAsFewBytesAsTheyNeed) {
  EXPECT_EQ(width_for(127), 1);
  EXPECT_EQ(width_for(128), 2);
  EXPECT_EQ(width_for(32767), 2);
  EXPECT_EQ(width_for(32768), 4);
  for (const std::int64_t largest : {100, 127, 5000, 32767, 70000, 16777215}) {
    const std::vector<std::int64_t> wide = {-100, 0, largest, -1, 1, largest - 1, -2};
    const std::vector<std::int64_t> want = {-1, 0, largest, -1, 1, largest - 1, -1};
    const int width = width_for(largest);
    std::vector<std::int32_t> narrow(wide.size());
    const TokenNumbers file{wide.data(), 8, true};
    EXPECT_TRUE(write_narrow(file, 7, width, -1, largest, narrow.data()));
    const TokenNumbers there{narrow.data(), width, true};
    for (std::int64_t i = 0; i < std::ssize(want); ++i)
      EXPECT_EQ(there[i], want[static_cast<std::size_t>(i)]) << largest << " " << i;
  }
  const std::vector<std::uint16_t> unsigned_file = {65535, 40000, 0};
  std::vector<std::int32_t> narrow(3);
  EXPECT_TRUE(write_narrow({unsigned_file.data(), 2, false}, 3, 4, 0, 65535, narrow.data()));
  EXPECT_EQ(narrow, (std::vector<std::int32_t>{65535, 40000, 0}));
  EXPECT_FALSE(write_narrow({unsigned_file.data(), 2, false}, 3, 4, 0, 50000, narrow.data()));
  EXPECT_EQ(narrow, (std::vector<std::int32_t>{50000, 40000, 0})) << "never out of range";
}

TEST_F(Tokens, SegmentsAreTheRowsOfAKind) {
  NpyArray<std::int64_t> eval{{20}, {}}, test{{20}, {}};
  for (std::int64_t n = 0; n < 20; ++n)
    eval.data.push_back(n % 3 == 0 ? 8 : 64), test.data.push_back(n < 5 ? 64 : 8);
  write_npy(file("eval_segment.npy"), eval);
  write_npy(file("test_segment.npy"), test);
  const auto given = task();
  EXPECT_TRUE(given->segments(Split::train).empty());
  const auto files = example_tokens(7, 20, 8);
  for (const auto& [split, kinds] : {std::pair{Split::eval, &eval}, {Split::test, &test}}) {
    const auto parts = given->segments(split);
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[0].name, "segment=8");
    EXPECT_EQ(parts[1].name, "segment=64");
    for (const TaskSegment& part : parts) {
      const std::int64_t kind = part.name == "segment=8" ? 8 : 64;
      EXPECT_EQ(part.sequences, std::count(kinds->data.begin(), kinds->data.end(), kind));
      SequenceBuffer buffer(*part.task, split);
      std::uint64_t n = 0;
      for (std::size_t row = 0; row < 20; ++row) {
        if (kinds->data[row] != kind) continue;
        const SequenceView s = buffer.draw(0, n++);
        EXPECT_TRUE(std::equal(s.tokens, s.tokens + 8,
                               files.inputs.data.begin() + static_cast<std::ptrdiff_t>(row) * 8));
      }
    }
  }
  test.data.assign(20, 8);
  write_npy(file("test_segment.npy"), test);
  EXPECT_THAT(refusal(), HasSubstr("segment 64 is in eval and not in test; both need every segment"));
}

TEST_F(Tokens, SizesFollowFromTheFilesAndBaselinesAreCounted) {
  const TaskKind& kind = *find_task("tokens");
  const Options options = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_EQ(options.get_int("task.vocabulary"), 7);
  EXPECT_EQ(options.get_int("task.answers"), 7);
  EXPECT_EQ(options.get_int("task.load"), 8);
  EXPECT_EQ(kind.make(options)->shape(Split::train), (SequenceShape{8, 1, 7}));
  EXPECT_EQ(task({{"vocabulary", 30}})->vocabulary().values, 30);
  EXPECT_EQ(task({{"answers", 5}})->vocabulary().values, 5);
  EXPECT_THROW(task({{"answers", 4}}), OptionError);
  EXPECT_THROW(task({{"vocabulary", 6}}), OptionError);
  const auto numbers = task()->baselines();
  EXPECT_DOUBLE_EQ(numbers.at("chance_accuracy"), 1.0 / 5);
  const ExampleTokens files = example_tokens(7, 20, 8);
  Counts counts(5);
  double labels = 0, recent = 0;
  for (std::size_t i = 0; i < files.labels.data.size(); ++i)
    if (const std::int64_t label = files.labels.data[i]; label >= 0)
      ++counts[label], ++labels, recent += label == files.inputs.data[i];
  EXPECT_NEAR(numbers.at("baseline_most_common_accuracy"),
              *std::max_element(counts.begin(), counts.end()) / labels, 1e-12);
  EXPECT_NEAR(numbers.at("baseline_most_recent_accuracy"), recent / labels, 1e-12);
}

TEST_F(Tokens, ChangedFilesAreSeenByTheSameProcess) {
  const TaskKind& kind = *find_task("tokens");
  const Options before = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_EQ(files_in<TokenData>(folder_.path()), files_in<TokenData>(folder_.path()));  // read once
  put("test", example_tokens(8, 30, 8));
  const Options after = resolved_options(kind, {{"folder", folder_.path()}});
  EXPECT_NE(before.get_string("task.content"), after.get_string("task.content"));
  EXPECT_THROW(kind.make(before), OptionError);
}

TEST_F(Tokens, WhatIsWrongIsNamedWithItsFileAndPlace) {
  const ExampleTokens good = example_tokens(7, 20, 8);
  std::filesystem::remove(file("eval_inputs.npy"));
  EXPECT_THAT(refusal(), HasSubstr("holds no eval_inputs.npy, eval_tokens.npy or eval/tokens.npy"));
  put_all();
  std::filesystem::remove(file("test_labels.npy"));
  EXPECT_THAT(refusal(), HasSubstr("holds no test_labels.npy"));
  put_all();
  std::filesystem::copy(file("eval_inputs.npy"), file("eval_tokens.npy"));
  EXPECT_THAT(refusal(), HasSubstr("eval_tokens.npy say the same of eval; keep those of one data set"));
  std::filesystem::remove(file("eval_tokens.npy"));
  write_npy<std::int64_t>(file("train_positions.npy"), {{20, 1}, std::vector<std::int64_t>(20, 7)});
  EXPECT_THAT(refusal(), HasSubstr("train_positions.npy is there too"));
  std::filesystem::remove(file("train_positions.npy"));
  write_npy<double>(file("train_labels.npy"), {{20, 8}, std::vector<double>(160, 1)});
  expect_refused("train_labels.npy", "'<f8', not whole numbers; save array.astype('int64')");
  std::ofstream(file("train_labels.npy")) << "no array";
  expect_refused("train_labels.npy", "is not an .npy file");
  ExampleTokens bad = good;
  bad.inputs.shape = {160};
  put("train", bad);
  expect_refused("train_inputs.npy", "has the shape [160]; it must be [N,T] (N sequences of T tokens)");
  bad = good, bad.labels.shape = {16, 10};
  put("eval", bad);
  expect_refused("eval_labels.npy", "has the shape [16, 10]; labels stand beside the tokens");
  bad = good, bad.inputs.data[9] = -1;
  put("eval", bad);
  expect_refused("eval_inputs.npy", "holds -1 at [1, 1]; a token must lie in 0 .. 16777215");
  bad = good, bad.labels.data[10] = -2;
  put("test", bad);
  expect_refused("test_labels.npy",
                 "holds -2 at [1, 2]; an answer must lie in 0 .. 16777215 (-100 or -1: none)");
  bad = good, std::fill(bad.labels.data.begin(), bad.labels.data.end(), -100);
  put("train", bad);
  expect_refused("train_labels.npy", "asks nothing, all its labels are below 0");
  std::filesystem::remove(file("test_inputs.npy"));
  std::ofstream(file("test.npz")) << "PK";
  EXPECT_THAT(
      refusal(),
      HasSubstr(
          "test.npz is brought into .npy files of task tokens or file by the Python package: python -m crosstalk arrays"));
  put_all();
  std::filesystem::remove(file("eval_labels.npy"));
  for (const auto& [second, why] :
       {std::pair<std::int64_t, const char*>{2, "holds 2 at [0, 1] after 2; positions"},
        {8, "holds 8 at [0, 1]; the token at which an answer is due must lie in 0 .. 7"}}) {
    write_npy<std::int64_t>(file("eval_positions.npy"), {{20, 2}, std::vector<std::int64_t>(40, second)});
    std::vector<std::int64_t> positions;
    for (int n = 0; n < 20; ++n) positions.insert(positions.end(), {2, second});
    write_npy<std::int64_t>(file("eval_positions.npy"), {{20, 2}, positions});
    write_npy<std::int64_t>(file("eval_targets.npy"), {{20, 2}, std::vector<std::int64_t>(40, 1)});
    EXPECT_THAT(refusal(), HasSubstr(why));
    std::filesystem::remove(file("eval_positions.npy"));
    std::filesystem::remove(file("eval_targets.npy"));
  }
  put_all();
  EXPECT_EQ(refusal(), "read");
}

TEST_F(Tokens, ArraysThatNobodyReadsAreRefused) {
  std::filesystem::rename(file("test_labels.npy"), file("test_lables.npy"));
  EXPECT_THAT(refusal(), HasSubstr("is no array that this task reads; did you mean test_labels.npy?"));
  std::filesystem::remove(file("test_lables.npy"));
  put_all();
  const NpyArray<std::int64_t> kinds{{20}, std::vector<std::int64_t>(20, 1)};
  for (const auto& [name, why] : {std::pair{"test_segmnet.npy", "did you mean test_segment.npy?"},
                                  {"tset_segment.npy", "did you mean test_segment.npy?"},
                                  {"weights.npy", "reads; move it to another folder"}}) {
    write_npy(file(name), kinds);
    EXPECT_THAT(refusal(), HasSubstr(why));
    std::filesystem::remove(file(name));
  }
  EXPECT_EQ(refusal(), "read");
}

TEST_F(Tokens, ASampleOfAnotherKindSaysWhoReadsIt) {
  std::filesystem::remove(file("train_inputs.npy"));
  std::filesystem::create_directories(file("train"));
  write_npy<std::int64_t>(file("train/keys.npy"), {{1, 1}, {0}});
  EXPECT_THAT(refusal(), HasSubstr("task file reads those"));
}

}  // namespace crosstalk::testing::tokens_test
