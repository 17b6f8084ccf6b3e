// Records as lines: golden bytes, round trips, damage.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "results/readers_fuzz.h"
#include "results/store/crc32c.h"
#include "results/store/record_io.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using testing::check_mutations;
using testing::make_record;
using testing::unsealed;

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

TEST(Crc32c, TablesGiveTheSameAsTheInstruction) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * i + i / 7);
  for (std::size_t size = 0; size <= text.size(); ++size)
    EXPECT_EQ(crc32c(text.substr(0, size), 7), crc32c_by_tables(text.substr(0, size), 7)) << size;
}

TEST(Crc32c, GoesOnFromAnyPoint) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
  }
}

TEST(Record, GoldenLine) {
  Record record;
  record.id = "ct-0123456789abcdef0123456789abcdef";
  record.study = "golden";
  record.label = "dpfp2";
  record.status = RunStatus::diverged;
  record.seed = -3;
  record.config = {{"train.learning_rate", 1e-3},
                   {"task.associations", 20},
                   {"task.name", "recall"},
                   {"model.bias", true}};
  record.d_dot = 256;
  record.state_size = 16384;
  record.steps = 100000;
  record.eval_loss = std::numeric_limits<double>::infinity();
  record.best_eval_loss = 0.1;
  record.eval_accuracy = std::numeric_limits<double>::quiet_NaN();
  record.metrics = {{"rank_bound", 0.0}, {"chance", 1.0 / 3.0}};
  record.curves["eval_loss"] = {{100, 200}, {0.25, std::numeric_limits<double>::quiet_NaN()}};
  record.message = "not finite at step 200: \"loss\" → ∞";
  record.provenance = {{"wall_s", 1.5}, {"host", "node7"}};
  // A change of these bytes makes every store that was written before unreadable or different: a new version.
  EXPECT_EQ(
      to_line(record),
      R"({"v":1,"id":"ct-0123456789abcdef0123456789abcdef","study":"golden","label":"dpfp2",)"
      R"("status":"diverged","seed":-3,"config":{"model.bias":true,"task.associations":20,)"
      R"("task.name":"recall","train.learning_rate":0.001},"d_dot":256,"state_size":16384,"steps":100000,)"
      R"("eval_loss":null,"best_eval_loss":0.1,"eval_accuracy":null,)"
      R"("metrics":{"chance":0.3333333333333333,"rank_bound":0.0},)"
      R"("curves":{"eval_loss":{"x":[100.0,200.0],"y":[0.25,null]}},"profiles":{},)"
      R"("message":"not finite at step 200: \"loss\" → ∞",)"
      R"("provenance":{"host":"node7","wall_s":1.5},"crc":"ca0874df"})");
}

// Any finite double, by its bits.
rc::Gen<double> any_finite() {
  return rc::gen::suchThat(rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                                        [](std::uint64_t bits) { return std::bit_cast<double>(bits); }),
                           [](double value) { return std::isfinite(value); });
}

RC_GTEST_PROP(Record, RoundTrip, ()) {
  const auto text = rc::gen::map(rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)),
                                 [](std::string s) { return s; });
  Record record;
  record.id = "ct-" + *text;
  record.study = *text;
  record.label = *text;
  record.status = *rc::gen::element(RunStatus::done, RunStatus::diverged, RunStatus::failed);
  record.seed = *rc::gen::arbitrary<std::int64_t>();
  record.config = {{*text, *any_finite()}, {"b." + *text, *rc::gen::arbitrary<std::int64_t>()}, {"c", *text}};
  record.d_dot = *rc::gen::arbitrary<std::int64_t>();
  record.state_size = *rc::gen::arbitrary<std::int64_t>();
  record.steps = *rc::gen::arbitrary<std::int64_t>();
  record.eval_loss = *any_finite();
  record.best_eval_loss = *any_finite();
  record.eval_accuracy = *any_finite();
  record.metrics[*text] = *any_finite();
  const auto xs = *rc::gen::container<std::vector<double>>(any_finite());
  const auto ys = *rc::gen::container<std::vector<double>>(xs.size(), any_finite());
  record.curves[*text] = {xs, ys};
  record.profiles[*text] = {ys, xs};
  record.message = *text;
  record.provenance = {{"host", *text}};

  const std::string line = to_line(record);
  RC_ASSERT(line.find('\n') == std::string::npos);
  const ParsedLine parsed = from_line(line);
  RC_ASSERT(parsed.problem.empty());
  const Record& back = *parsed.record;
  RC_ASSERT(back.id == record.id);
  RC_ASSERT(back.study == record.study);
  RC_ASSERT(back.label == record.label);
  RC_ASSERT(back.status == record.status);
  RC_ASSERT(back.seed == record.seed);
  RC_ASSERT(back.config == record.config);
  RC_ASSERT(back.d_dot == record.d_dot);
  RC_ASSERT(back.state_size == record.state_size);
  RC_ASSERT(back.steps == record.steps);
  // By bits: minus zero and the smallest numbers too.
  RC_ASSERT(std::bit_cast<std::uint64_t>(back.eval_loss) == std::bit_cast<std::uint64_t>(record.eval_loss));
  RC_ASSERT(back.best_eval_loss == record.best_eval_loss);
  RC_ASSERT(back.eval_accuracy == record.eval_accuracy);
  RC_ASSERT(back.metrics == record.metrics);
  RC_ASSERT(back.curves.begin()->second.x == xs);
  RC_ASSERT(back.curves.begin()->second.y == ys);
  RC_ASSERT(back.profiles.begin()->second.x == ys);
  RC_ASSERT(back.message == record.message);
  RC_ASSERT(back.provenance == record.provenance);
  RC_ASSERT(same_result(record, back));
  RC_ASSERT(to_line(back) == line);
}

TEST(Record, NotFiniteComesBackAsNan) {
  Record record = make_record(1);
  record.eval_loss = -std::numeric_limits<double>::infinity();
  record.metrics["floor"] = std::numeric_limits<double>::quiet_NaN();
  const ParsedLine parsed = from_line(to_line(record));
  ASSERT_TRUE(parsed.record) << parsed.problem;
  EXPECT_TRUE(std::isnan(parsed.record->eval_loss));
  EXPECT_TRUE(std::isnan(parsed.record->metrics.at("floor")));
  EXPECT_TRUE(same_result(record, *parsed.record));
}

TEST(Record, MessageThatIsNotUtf8IsKeptReadable) {
  Record record = make_record(1);
  record.message = "bad \xFF byte";
  const ParsedLine parsed = from_line(to_line(record));
  ASSERT_TRUE(parsed.record) << parsed.problem;
  EXPECT_EQ(parsed.record->message, "bad \xEF\xBF\xBD byte");
}

TEST(Record, SameResultLooksAtResultsOnly) {
  const Record record = make_record(1);
  Record other = record;
  other.provenance = {{"host", "there"}};
  other.study = "another";
  other.label = "renamed";
  EXPECT_TRUE(same_result(record, other));
  other = record;
  other.eval_loss = std::nextafter(other.eval_loss, 1.0);
  EXPECT_FALSE(same_result(record, other));
  other = record;
  other.curves["eval_loss"].y[0] += 1e-9;
  EXPECT_FALSE(same_result(record, other));
  other = record;
  other.status = RunStatus::diverged;
  EXPECT_FALSE(same_result(record, other));
}

TEST(Record, EveryDamagedByteIsNoticed) {
  const std::string line = to_line(make_record(3));
  for (std::size_t at = 0; at < line.size(); ++at) {
    for (const int mask : {0x01, 0x20, 0x80, 0xFF}) {
      std::string damaged = line;
      damaged[at] = static_cast<char>(damaged[at] ^ mask);
      EXPECT_FALSE(from_line(damaged).record) << "byte " << at << " xor " << mask;
    }
    EXPECT_FALSE(from_line(line.substr(0, at)).record) << "cut at " << at;
  }
}

// What a line with a good checksum can still have wrong, and what is said of it.
TEST(Record, ProblemsAreNamed) {
  const std::string line = to_line(make_record(3));
  const std::string object = unsealed(line);
  ASSERT_EQ(seal(object), line);
  const auto problem = [&](const std::string& from, const std::string& to) {
    std::string changed = object;
    changed.replace(changed.find(from), from.size(), to);
    const ParsedLine parsed = from_line(seal(changed));
    EXPECT_FALSE(parsed.record) << changed;
    return parsed.problem;
  };
  EXPECT_EQ(problem("\"seed\":3,", ""), "field 'seed' is missing");
  EXPECT_EQ(problem("\"seed\":3,", "\"seed\":3.5,"), "field 'seed' must be a 64-bit integer, but is number");
  EXPECT_EQ(problem("\"seed\":3,", "\"seed\":9223372036854775808,"),
            "field 'seed' must be a 64-bit integer, but is number");
  EXPECT_EQ(problem("\"v\":1", "\"v\":2"), "record of version 2; this program reads version 1");
  EXPECT_EQ(problem("\"done\"", "\"fine\""), "status 'fine' is none of done, diverged, failed");
  EXPECT_EQ(problem("[100.0,200.0]", "[100.0]"), "'eval_loss' of 'curves' has 1 x and 2 y values");
  EXPECT_EQ(problem("\"chance\":0.05", "\"chance\":\"x\""),
            "field 'metrics' must be a number or null, but is string");
  EXPECT_NE(problem("\"seed\":3,", "\"seed\":,").find("not JSON"), std::string::npos);
}

// Copying, comparing and printing JSON is recursive.
TEST(Record, DepthIsLimited) {
  const std::string line = to_line(make_record(3));
  const std::string object = unsealed(line);
  for (const char* field : {"\"config\":{", "\"provenance\":{"}) {
    const auto with = [&](std::size_t depth) {
      std::string changed = object;
      changed.insert(changed.find(field) + std::string(field).size(),
                     "\"deep\":" + std::string(depth, '[') + std::string(depth, ']') + ",");
      return from_line(seal(changed));
    };
    EXPECT_TRUE(with(20).record);
    for (const std::size_t depth : {70, 1000, 500000}) {
      EXPECT_FALSE(with(depth).record);
      EXPECT_EQ(with(depth).problem, "lists and objects nested more than 64 deep");
    }
  }
  // Brackets in strings are text.
  Record record = make_record(3);
  record.message = std::string(1000, '[') + "\"" + std::string(1000, '{') + "\\";
  EXPECT_EQ(from_line(to_line(record)).record.value().message, record.message);
}

TEST(Mark, FuzzTargetOverMutations) {
  std::string bytes(256, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  check_mutations(mark_text(), bytes, check_mark_reader);
}

// Of numbers and texts of all sorts: what has no head is read as a whole, which takes long.
TEST(Record, WhatIsWrittenHasAHead) {
  for (int n = 0; n < 10; ++n) {
    Record record = make_record(n);
    record.config["odd"] = {"a \"b\" \\ c\td", -0.0, 1e-30, 1e22, true, nullptr, {{"deep", {1, 2}}}};
    record.config["empty"] = nlohmann::json::object();
    record.eval_loss = n == 1 ? std::nan("") : 1e17 / (n + 3);
    record.metrics["small"] = -1.2345678901234567e-12;
    record.curves["none"] = {};
    record.curves["gaps"] = {{1, 2}, {std::nan(""), 0.5}};
    record.message = n == 2 ? "line\nfeed" : "";
    EXPECT_TRUE(head_of(to_line(record))) << to_line(record);
  }
  Record greek = make_record(1);
  greek.message = "\xCE\xB2";
  EXPECT_FALSE(head_of(to_line(greek)));
  EXPECT_TRUE(from_line(to_line(greek)).record);
}

// The fuzz target over a fixed set of mutations, for compilers without a fuzzer.
TEST(Record, FuzzTargetOverMutations) {
  const std::string line = to_line(make_record(3));
  check_record_reader(line);
  check_mutations(unsealed(line), {'\0', '"', '{', '}', '[', ',', '9', '-', '.', '\\', '\x80'},
                  check_record_reader);
}

TEST(SameResult, MetricsOfLaterVersionsAndTheoryDoNotCount) {
  Record old = testing::make_record(1), now = old;
  now.metrics["test_loss"] = 0.1;
  old.metrics["rank_bound"] = 0.2;
  now.metrics["rank_bound"] = 0.3;
  old.metrics["sum_rule_floor_exact"] = old.metrics["sum_rule_floor"] = 0.1;
  now.metrics["sum_rule_floor_exact"] = now.metrics["sum_rule_floor"] = 0.10000000000000002;
  now.curves["gradient_norm_median"] = {{100}, {3}};
  EXPECT_TRUE(same_result(old, now));
  old.curves["gradient_norm_median"] = {{100}, {2}};
  EXPECT_FALSE(same_result(old, now));
  old.curves = now.curves;
  now.metrics["chance"] = 0.06;
  EXPECT_FALSE(same_result(old, now));
}

/// Lines that this program wrote are read without JSON of the whole: the same records, whatever stands in them.
TEST(Record, WrittenLinesAreReadAsJsonIs) {
  for (int n = 0; n < 20; ++n) {
    Record record = make_record(n);
    if (n % 2 == 1) record.label = "a \"label\" with \\ and ,\"status\":\"done\"";
    if (n % 3 == 1)
      record.config["list"] = {1, 2.5, "x]"}, record.config["text"] = "a\nb", record.config["none"] = nullptr;
    if (n % 3 == 2) record.metrics["nan"] = std::nan(""), record.metrics["small"] = -1.5e-8;
    if (n % 5 == 1) record.curves["eval_loss"] = {{}, {}};
    if (n % 5 == 2) record.curves["eval_loss"] = {{100, 200, 300}, {0.5, std::nan(""), 1e-9}};
    if (n % 5 == 3) record.profiles["by_length"] = {{1}, {0.25}}, record.status = RunStatus::failed;
    if (n % 7 == 1) record.config["a\"b"] = 1, record.eval_loss = std::nan("");
    if (n % 7 == 2) record.provenance["x\"y"] = {{"inner", {1, 2}}};
    const std::string line = to_line(record);
    const ParsedLine by_line = from_intact_line(line),
                     by_json = from_intact_line(nlohmann::ordered_json::parse(line).dump(1));
    ASSERT_TRUE(by_line.record && by_json.record) << by_line.problem << by_json.problem;
    EXPECT_EQ(to_line(*by_line.record), line);
    EXPECT_EQ(to_line(*by_json.record), line);
    EXPECT_EQ(by_line.record->config, by_json.record->config);
  }
}

}  // namespace
}  // namespace crosstalk
