// Labels come from the study that asks.
// SPDX-License-Identifier: Apache-2.0
#include "results/asked.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "results/export.h"
#include "results/store/store.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using testing::make_record;
using testing::refusal_of;
using testing::TemporaryFolder;
using testing::TemporaryStore;

std::map<std::string, Record> records(int n) {
  std::map<std::string, Record> all;
  for (int i = 0; i < n; ++i) {
    const Record record = make_record(i);
    all[record.id] = record;
  }
  return all;
}

std::string id(int n) { return make_record(n).id; }

std::vector<std::string> labels_of(const LabelledRecords& rows) {
  std::vector<std::string> labels;
  for (const auto& [key, record] : rows.rows) labels.push_back(record.id.substr(31) + record.label);
  return labels;
}

TEST(Asked, AStudyNamesItsRunsAndLeavesOthers) {
  std::int64_t others = 0;
  const Asked asked{"new", "", {{"b", "Second", {id(1), id(0)}}, {"a", "", {id(1), id(7)}}}, 0, ""};
  const LabelledRecords rows = asked_rows(records(3), asked, &others);
  EXPECT_EQ(labels_of(rows), (std::vector<std::string>{"1000b", "1001a", "1001b"}));
  EXPECT_EQ(rows.rows.begin()->second.study, "new");
  EXPECT_EQ(others, 1);
  ASSERT_EQ(rows.labels.size(), 2u);
  EXPECT_EQ(rows.labels[0].label, "b");
  EXPECT_EQ(rows.labels[0].title, "Second");
}

TEST(Asked, TheLatestVersionNamesARunAndOlderOnesNameWhatItLeaves) {
  const TemporaryFolder folder;
  { const StoreWriter store(folder.path() / "store"); }
  const auto store = folder.path() / "store";
  const Asked first{"s", "", {{"old", "", {id(0), id(1)}}}, 0, ""};
  const Asked second{"s", "", {{"new", "", {id(1), id(2)}}}, 0, ""};
  keep_asked(store, first);
  keep_asked(store, second);
  const auto rows = [&] { return all_rows(records(4), read_asked(store)); };
  EXPECT_EQ(labels_of(rows()), (std::vector<std::string>{"1000old", "1001new", "1002new", "1003linear"}));
  EXPECT_EQ(rows().rows.begin()->second.version, first.checksum());
  keep_asked(store, first);  // the study as it was, run once more
  EXPECT_EQ(labels_of(rows()), (std::vector<std::string>{"1000old", "1001old", "1002new", "1003linear"}));
  EXPECT_EQ(read_asked(store).size(), 2u);
}

TEST(Asked, KeepingTheLatestVersionAgainWritesNothing) {
  const TemporaryFolder folder;
  const auto store = folder.path() / "store";
  { const StoreWriter writer(store); }
  Asked asked{"s", "", {{"a", "A", {id(0)}}}, 0, ""};
  keep_asked(store, asked);
  const auto file = store / "studies" / ("s@" + asked.checksum() + ".json");
  const auto before = std::filesystem::last_write_time(file);
  keep_asked(store, asked);
  EXPECT_EQ(std::filesystem::last_write_time(file), before);
  asked.labels[0].title = "B";  // a title is no part of the version, and is kept
  keep_asked(store, asked);
  EXPECT_EQ(read_asked(store).at(0).labels.at(0).title, "B");
  testing::spill(store / "studies" / "t@00000000.json", "{\"study\":");
  testing::spill(store / "studies" / "t@00000001.json", std::string(1000000, '['));
  EXPECT_EQ(read_asked(store).size(), 1u);
}

TEST(Asked, TheWorkOfRunsIsKept) {
  const TemporaryStore store;
  StoreWriter{store};
  Asked asked{"s", "", {{"a", "A", {id(0), id(1)}, {1.23e12, 4e9}}, {"b", "", {id(2)}}}, 0, ""};
  keep_asked(store, asked);
  const Asked read = read_asked(store).at(0);
  EXPECT_EQ(read.labels.at(0).work, (std::vector<double>{1.23e12, 4e9}));
  EXPECT_TRUE(read.labels.at(1).work.empty());
}

// Labels and ids have a checksum, the study's name stands in the file's.
TEST(Asked, DamagedVersionsArePassedOver) {
  const TemporaryStore store;
  StoreWriter{store};
  Asked asked;
  asked.study = "study";
  asked.labels = {{"linear", "", {"ct-1", "ct-2"}}};
  keep_asked(store, asked);
  ASSERT_EQ(read_asked(store).size(), 1u);
  const auto path = std::filesystem::directory_iterator(store / "studies")->path();
  const std::string good = testing::slurp(path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    testing::spill(path, damaged);
    for (const Asked& version : read_asked(store)) {
      EXPECT_EQ(version.study, "study") << at;
      EXPECT_EQ(version.labels.at(0).label, "linear") << at;
      EXPECT_EQ(version.labels.at(0).runs, asked.labels[0].runs) << at;
    }
  }
}

TEST(Asked, ExportsTellVersionsApartAndOtherwiseHaveNoSuchColumn) {
  const auto csv = [](const LabelledRecords& rows) {
    std::ostringstream out;
    export_runs(out, rows.rows, ExportFormat::csv, false);
    return out.str();
  };
  const Asked first{"s", "", {{"a", "", {id(0)}}}, 1, "11111111"};
  const Asked second{"s", "", {{"a", "", {id(1)}}}, 2, "22222222"};
  EXPECT_EQ(csv(all_rows(records(1), {first})).find("study_version"), std::string::npos);
  const std::string both = csv(all_rows(records(2), {second, first}));
  EXPECT_NE(both.find("seed,study_version,"), std::string::npos) << both;
  EXPECT_NE(both.find(",11111111,"), std::string::npos) << both;
  EXPECT_NE(both.find(",22222222,"), std::string::npos) << both;
}

// A study of ours cannot have such labels; somebody else's store can.
TEST(Asked, LabelsThatWouldBeMisreadAreKeptApart) {
  std::map<std::string, Record> all = records(6);
  const std::vector<std::string> labels = {"=1+1", "NA", "fit: slope", "", " a ", "\x1b[31mred"};
  std::size_t next = 0;
  for (auto& [id, record] : all) record.label = labels[next++];
  all.begin()->second.study = "@SUM(A1)";
  std::multiset<std::string> got;
  for (const auto& [key, row] : all_rows(all, {}).rows) got.insert(row.label);
  EXPECT_EQ(got, (std::multiset<std::string>{"label =1+1", "label NA", "label fit: slope", "label (none)",
                                             "label a", "\\u001b[31mred"}));
  EXPECT_EQ(all_rows(all, {}).rows.begin()->second.study, "label @SUM(A1)");
  const Asked asked{"s", "", {{"null", "N", {all.begin()->first}}}, 1, "11111111"};
  EXPECT_EQ(asked_rows(all, asked).labels.at(0).label, "label null");
  EXPECT_EQ(asked_rows(all, asked).rows.begin()->second.label, "label null");
  LabelledRecords merged;
  LabelledRecords table;
  table.rows["x"] = all.begin()->second;  // as a table gives it
  merged.merge(table);
  EXPECT_EQ(merged.rows.begin()->second.label, "label =1+1");
}

TEST(Asked, MergingJoinsEqualRowsAndRefusesOthersWhateverTheirOrder) {
  LabelledRecords store = all_rows(records(1), {}), table = store;
  const std::string key = store.rows.begin()->first;
  store.places[key] = "run x in runs/x";
  table.places[key] = "b.csv:2";
  store.rows[key].curves["eval_loss"] = {{1, 2}, {1, 0.5}};
  table.rows[key].metrics.clear();
  table.rows[key].curves.clear();
  LabelledRecords joined = table;
  joined.merge(store);
  ASSERT_EQ(joined.rows.size(), 1U);
  EXPECT_EQ(joined.rows[key].curves.count("eval_loss"), 1U);
  table.rows[key].eval_loss += 0.1;
  for (const bool store_first : {true, false}) {
    LabelledRecords first = store_first ? store : table;
    const std::string message = refusal_of([&] { first.merge(store_first ? table : store); });
    EXPECT_NE(message.find("b.csv:2"), std::string::npos) << message;
    EXPECT_NE(message.find("run x in runs/x"), std::string::npos) << message;
  }
}

TEST(Asked, MergingPrefersDoneToFailed) {
  LabelledRecords a = all_rows(records(1), {}), b = a;
  a.rows.begin()->second.status = RunStatus::failed;
  a.merge(b);
  ASSERT_EQ(a.rows.size(), 1u);
  EXPECT_EQ(a.rows.begin()->second.status, RunStatus::done);
}

}  // namespace
}  // namespace crosstalk
