// A store of a hundred thousand runs: its heads are those of its records, soon and in bounded memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

using testing::make_record;
using testing::TemporaryFolder;
using testing::TemporaryStore;

/// Of the processor, by all threads of this program: what else runs on the machine does not count.
double seconds_now() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A record as large as those of the published studies.
Record large_record() {
  Record record = make_record(0);
  for (int key = 0; key < 30; ++key) record.config["section.key_number_" + std::to_string(key)] = 0.1 * key;
  for (const char* curve : {"eval_loss", "eval_accuracy", "eval_exact", "train_loss"})
    for (int point = 1; point <= 20; ++point) {
      record.curves[curve].x.push_back(100. * point);
      record.curves[curve].y.push_back(1. / (3 + point));
    }
  for (int key = 0; key < 18; ++key)
    record.provenance["key_" + std::to_string(key)] = "some words that stand in every record";
  record.provenance["finished"] = "2026-01-01T00:00:00Z";
  return record;
}

/// `runs` records in two shards. Ids differ in their last digits, seeds too.
void make_big_store(const std::filesystem::path& store, int runs) {
  { const StoreWriter made(store); }
  const std::string body = testing::unsealed(to_line(large_record()));
  const std::size_t at = body.find("ct-") + 3;
  for (int shard = 0; shard < 2; ++shard) {
    std::ofstream out(store / "shards" / ("host-1-" + std::to_string(shard) + ".jsonl"), std::ios::binary);
    for (int run = shard; run < runs; run += 2) {
      std::string one = body;
      const std::string digits = std::to_string(10000000 + run);
      one.replace(at, digits.size(), digits);
      out << seal(one) << '\n';
    }
  }
}

TEST(BigStore, AHundredThousandRunsInASecond) {
  const TemporaryFolder folder;
  constexpr int runs = 100000;
  make_big_store(folder.path() / "s", runs);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  double best = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double begin = seconds_now();
    const StoreHeads heads = read_heads(folder.path() / "s");
    best = std::min(best, seconds_now() - begin);
    ASSERT_EQ(heads.contents.records.size(), std::size_t{runs});
  }
  ::getrusage(RUSAGE_SELF, &after);
  const double megabytes = static_cast<double>(after.ru_maxrss - before.ru_maxrss) / 1024;
  std::printf("heads of %d runs: %.2f s, %.0f MB\n", runs, best, megabytes);
  RecordProperty("seconds", std::to_string(best));
  RecordProperty("megabytes", std::to_string(megabytes));
#ifdef __SANITIZE_ADDRESS__
  constexpr double kDearer = 4;  // what is freed is kept a while, and every byte has a shadow
#else
  constexpr double kDearer = 1;
#endif
  EXPECT_LT(best, 3 * kDearer);  // about 0.5 s; cores that are shared are slower
  EXPECT_LT(megabytes, 200 * kDearer);
}

TEST(BigStore, HeadsAreThoseOfTheRecords) {
  const TemporaryStore store;
  StoreWriter one(store), two(store);
  for (int n = 0; n < 20; ++n) {
    Record record = make_record(n);
    record.provenance["finished"] = "2026-01-01T00:00:" + std::to_string(10 + (n * 7) % 20) + "Z";
    if (n % 5 == 1) record.status = RunStatus::failed;
    if (n % 5 == 2) record.status = RunStatus::diverged;
    if (n == 7) record.label = "a \"label\" with \\ and ,\"status\":\"done\"";
    one.append(record);
    if (n % 3 == 0) {  // equal, but elsewhere
      record.provenance["host"] = "there";
      two.append(record);
    }
    if (n == 11) {  // failed before, done now
      record.status = RunStatus::done;
      two.append(record);
    }
    if (n == 15) {
      record.eval_loss *= 2;
      two.append(record);
    }
  }
  std::ofstream(list_shards(store).at(0), std::ios::app) << "nonsense\n"
                                                         << seal("{\"v\":2,\"id\":\"x\"}") << "\ntorn";
  const StoreContents whole = read_store(store);
  const StoreHeads heads = read_heads(store);
  ASSERT_EQ(heads.contents.records.size(), whole.records.size());
  EXPECT_EQ(heads.contents.duplicates, whole.duplicates);
  EXPECT_EQ(heads.contents.conflicts, whole.conflicts);
  EXPECT_EQ(heads.contents.conflicts.size(), 1u);
  EXPECT_EQ(heads.contents.warnings, whole.warnings);
  EXPECT_EQ(heads.contents.bad_lines, 2u);
  EXPECT_EQ(heads.contents.torn_tails, 1u);
  RecordReader reader(heads);
  std::string last;
  for (const auto& [id, record] : whole.records) {
    const Record& head = heads.contents.records.at(id);
    EXPECT_EQ(head.id, record.id);
    EXPECT_EQ(head.study, record.study);
    EXPECT_EQ(head.label, record.label);
    EXPECT_EQ(head.status, record.status);
    EXPECT_EQ(head.seed, record.seed);
    EXPECT_EQ(to_line(reader.record(id)), to_line(record));
    if (last.empty() || record.provenance["finished"] > whole.records.at(last).provenance["finished"])
      last = id;
  }
  EXPECT_EQ(heads.last, last);
}

// Lines longer than what is read at once, and shards that end anywhere.
TEST(BigStore, LinesOfAnyLength) {
  const TemporaryStore store;
  StoreWriter writer(store);
  for (int n = 0; n < 3; ++n) {
    Record record = make_record(n);
    record.provenance["long"] = std::string(n == 1 ? 9'000'000 : 10, 'x');
    writer.append(record);
  }
  const StoreHeads heads = read_heads(store);
  EXPECT_EQ(heads.contents.records.size(), 3u);
  EXPECT_TRUE(heads.contents.warnings.empty());
  RecordReader reader(heads);
  for (int n = 0; n < 3; ++n) EXPECT_EQ(reader.record(make_record(n).id).seed, make_record(n).seed);
}

}  // namespace
}  // namespace crosstalk
