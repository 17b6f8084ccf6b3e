// Rows read one at a time give the tables that rows in memory give.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/row_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "experiments/common/stores.h"
#include "results/store/record_io.h"
#include "results/store/record_scan.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/test_records.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

Record record_of(int n) {
  Record record;
  record.id = fmt::format("ct-{:032x}", 1000 + n);
  record.study = "s";
  record.label = n % 2 == 0 ? "linear" : "delta \"ü\" }{";
  record.seed = n;
  record.config = {{"task.name", "recall"}, {"train.batch", n}, {fmt::format("only.{}", n % 3), 0.1 * n}};
  if (n == 4) record.config["a \"key\"\n"] = "curves\":{";
  record.steps = 10 * n + 10;
  record.eval_loss = 1. / (n + 1);
  record.metrics = {{"chance", 0.25}, {fmt::format("metric_{}", n % 2), 1e-3 * n}};
  record.curves["eval_loss"] = {{1, 2, 3}, {0.5, 0.25, 1e-9 * n}};
  record.profiles["by \"quotes\""] = {{1}, {2}};
  record.provenance = {{"host", "h"}, {"curves", {{"nested", n}}}};
  if (n == 5) record.status = RunStatus::failed;
  return record;
}

class RowStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* store : {"a", "b"}) {
      StoreWriter writer(folder_ / store);
      for (int n = store[0] == 'a' ? 0 : 5; n < (store[0] == 'a' ? 7 : 12); ++n) {
        Record record = record_of(n);
        if (n == 5 && store[0] == 'b') record.status = RunStatus::done;  // failed in the other
        writer.append(record);
      }
    }
    std::ofstream(folder_ / "own.csv") << "label,eval_loss,task.associations\nmine,0.5,3\n";
  }

  void compare(const std::vector<std::string>& names, const std::vector<std::string>& where) {
    Arguments arguments;
    for (const std::string& name : names) arguments.positional.push_back((folder_ / name).string());
    if (!where.empty()) arguments.options["where"] = where;
    std::ostringstream out, errors;
    Console console{out, errors, false, false, "crosstalk", {}};
    const LabelledRecords rows = load_rows(arguments.positional, arguments, console);
    RowStream stream(arguments.positional, arguments, console);
    EXPECT_EQ(stream.empty(), rows.rows.empty());
    for (const ExportFormat format : {ExportFormat::csv, ExportFormat::jsonl}) {
      for (const bool provenance : {false, true}) {
        std::ostringstream whole, streamed;
        export_runs(whole, rows.rows, format, provenance);
        stream_runs(
            streamed,
            stream.source(provenance ? RowStream::Part::results_and_provenance : RowStream::Part::results),
            format, provenance);
        EXPECT_EQ(streamed.str(), whole.str());
      }
      std::ostringstream whole, streamed;
      export_curves(whole, rows.rows, format);
      stream_curves(streamed, stream.source(RowStream::Part::all), format);
      EXPECT_EQ(streamed.str(), whole.str());
    }
  }

  crosstalk::testing::TemporaryFolder made_;
  const fs::path folder_ = made_.path();
};

TEST_F(RowStreamTest, GivesTheTablesOfRowsInMemory) {
  compare({"a"}, {});
  compare({"a", "b"}, {});
  compare({"b", "own.csv", "a"}, {});
  compare({"a", "b"}, {"label=linear", "seed=2,4,6,8"});
  compare({"a", "b", "own.csv"}, {"train.batch=2,3,5"});
}

TEST_F(RowStreamTest, LeavesOutARecordThatIsNoneAndSaysSo) {
  std::string body = crosstalk::testing::unsealed(to_line(record_of(20)));
  const std::size_t at = body.find("\"eval_loss\":");
  body.replace(at, 12, "\"eval_lost\":");
  std::ofstream(list_shards(folder_ / "a").at(0), std::ios::app) << seal(body) << '\n';
  Arguments arguments;
  arguments.positional = {(folder_ / "a").string()};
  std::ostringstream out, errors, table;
  Console console{out, errors, false, false, "crosstalk", {}};
  RowStream stream(arguments.positional, arguments, console);
  stream_runs(table, stream.source(RowStream::Part::results), ExportFormat::csv, false);
  EXPECT_EQ(table.str().find(record_of(20).id), std::string::npos);
  EXPECT_NE(table.str().find(record_of(6).id), std::string::npos);
  EXPECT_NE(errors.str().find("eval_loss"), std::string::npos) << errors.str();
}

// Whatever the bytes are, it ends; lines without series are those of records without series.
TEST(RecordScan, LooksIntoAnyLine) {
  for (int n = 0; n < 8; ++n) {
    const std::string line = to_line(record_of(n));
    Record bare = record_of(n);
    bare.curves.clear();
    bare.profiles.clear();
    const std::string wanted = to_line(bare), got = without_series(line);
    EXPECT_EQ(crosstalk::testing::unsealed(got), crosstalk::testing::unsealed(wanted));
    EXPECT_EQ(keys_of_line(line).metrics.size(), 2u);
    EXPECT_EQ(keys_of_line(line).provenance, (std::vector<std::string_view>{"curves", "host"}));
    for (std::size_t size = 0; size < line.size(); ++size) {
      keys_of_line(std::string_view(line).substr(0, size));
      EXPECT_LE(without_series(std::string_view(line).substr(0, size)).size(), size + 4);
    }
  }
}

}  // namespace
}  // namespace crosstalk::program
