// Tables read back as records.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/import.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "results/export.h"
#include "results/numbers/select.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;
using testing::spill;
using testing::TemporaryFolder;

/// What is read of a table of somebody's own.
LabelledRecords read_own(const std::string& text) {
  const TemporaryFolder folder;
  spill(folder.path() / "own.csv", text);
  return read_export(folder.path() / "own.csv");
}

TEST(Import, AnExportReadBackGivesTheSameExport) {
  std::map<std::string, Record> records;
  for (int n = 0; n < 5; ++n) {
    Record record = testing::make_record(n);
    record.config["eval.protocol"] = "uniform";
    record.config["eval.length_factors"] = "";
    record.config["memory.flag"] = n % 2 == 0;
    if (n == 3) record.status = RunStatus::diverged, record.eval_loss = std::nan("");
    record.label = n == 4 ? "a, \"b\"" : "linear";
    records[record.id] = record;
  }
  std::ostringstream first, curves, second, more;
  export_runs(first, records, ExportFormat::csv, false);
  export_curves(curves, records, ExportFormat::csv);
  const TemporaryFolder folder;
  spill(folder.path() / "runs.csv", first.str());
  spill(folder.path() / "runs.curves.csv", curves.str());
  const LabelledRecords rows = read_export(folder.path() / "runs.csv");
  export_runs(second, rows.rows, ExportFormat::csv, false);
  export_curves(more, rows.rows, ExportFormat::csv);
  EXPECT_EQ(second.str(), first.str());
  EXPECT_EQ(more.str(), curves.str());
}

TEST(Import, OwnResultsNeedLittle) {
  const LabelledRecords rows = read_own(
      "# from my own code\nlabel,seed,task.name,task.associations,eval_loss,my_metric\n"
      "mine,1,recall,40,0.25,3\nmine,2,recall,40,nan,\n");
  ASSERT_EQ(rows.rows.size(), 2U);
  const Record& first = rows.rows.begin()->second;
  EXPECT_EQ(first.config.at("task.associations"), 40);
  EXPECT_EQ(first.metrics.at("my_metric"), 3);
  EXPECT_EQ(std::next(rows.rows.begin())->second.status, RunStatus::diverged);
}

/// What reading these rows says; "" where they are read.
std::string refused(const std::string& text) {
  return refusal_of([&] { read_own(text); });
}

TEST(Import, SizesAreWholeNumbersAboveZero) {
  const std::string head = "label,seed,task.name,task.associations,eval_loss\nmine,1,recall,";
  EXPECT_EQ(refused(head + "8,0.1\n"), "");
  EXPECT_EQ(refused(head + ",0.1\n"), "");
  for (const char* size : {"1k", "1_000", "\"1,024\"", "0x10", "-8", "0", "8.5", "inf", "nan"})
    EXPECT_THAT(refused(head + size + ",0.1\n"), HasSubstr("own.csv:2: column 'task.associations': '"))
        << size;
}

TEST(Import, WordsOfTheColumnsAreKnown) {
  const std::string head = "label,seed,task.associations,eval_loss,verdict\nmine,1,8,0.1,";
  EXPECT_EQ(refused(head + "plateau\n"), "");
  EXPECT_THAT(refused(head + "banana\n"), HasSubstr("column 'verdict': 'banana' is none of solved, plateau"));
  EXPECT_THAT(refused("LABEL,SEED,task.associations,eval_loss\nmine,1,8,0.1\n"),
              HasSubstr("LABEL is in other case: label is meant"));
  EXPECT_THAT(refused("label,seed,seed,task.associations,eval_loss\nmine,1,1,8,0.1\n"),
              HasSubstr("the same name, 'seed'"));
  EXPECT_EQ(refused("label|seed|task.associations|eval_loss\nmine|1|8|0.1\n"), "");
}

TEST(Import, RowsBelowTheColumnsMayBeginWithAHash) {
  EXPECT_EQ(read_own("# a comment\nlabel,seed,task.associations,eval_loss\n#heads=2,1,8,0.1\nmine,1,8,0.2\n")
                .rows.size(),
            2U);
}

TEST(Import, WhatOwnRowsDoNotSayIsNotInvented) {
  std::ostringstream out;
  export_runs(out, read_own("label,seed,task.associations,eval_loss\nmine,1,8,0.1\n").rows, ExportFormat::csv,
              false);
  EXPECT_THAT(out.str(), HasSubstr("steps,verdict,eval_loss"));
  EXPECT_THAT(out.str(), HasSubstr(",0,,,,0.1,"));
}

TEST(Import, AnAccuracySuffices) {
  const LabelledRecords rows = read_own(
      "label,task.name,task.pairs,eval_loss,eval_accuracy,test_accuracy,state_bytes\n"
      "a,mqar,8,,0.75,,4096\nb,mqar,8,,,0.5,\nc,mqar,8,nan,0.25,,\n");
  ASSERT_EQ(rows.rows.size(), 3U);
  std::map<std::string, const Record*> of;
  for (const auto& [key, record] : rows.rows) of[record.label] = &record;
  EXPECT_EQ(of["a"]->status, RunStatus::done);
  EXPECT_TRUE(lacks_loss(*of["a"]));
  EXPECT_EQ(of["a"]->eval_accuracy, 0.75);
  EXPECT_EQ(of["a"]->metrics.at("state_bytes"), 4096);
  EXPECT_EQ(of["b"]->status, RunStatus::done);
  EXPECT_TRUE(lacks_loss(*of["b"]));
  EXPECT_EQ(of["c"]->status, RunStatus::diverged);
  EXPECT_FALSE(lacks_loss(*of["c"]));
}

TEST(Import, SemicolonsTabsAndWholeNumbersWithAPoint) {
  const std::string wanted = "label,seed,task.name,task.associations,eval_loss\nmine,1.0,recall,40.0,0.25\n";
  std::string first;
  for (const char* separator : {",", ";", "\t", ", "}) {
    std::string text;
    for (const char c : wanted)
      text += c == ',' ? std::string(separator) : c == '\n' ? "\r\n" : std::string(1, c);
    const LabelledRecords rows = read_own("\xEF\xBB\xBF" + text);
    ASSERT_EQ(rows.rows.size(), 1U) << separator;
    const Record& record = rows.rows.begin()->second;
    EXPECT_EQ(record.seed, 1) << separator;
    EXPECT_EQ(record.eval_loss, 0.25) << separator;
    EXPECT_EQ(record.config.object().dump(), R"({"task.associations":40,"task.name":"recall"})") << separator;
  }
}

TEST(Import, RowsOfOneSeedCountOnce) {
  const std::string head = "label,seed,task.name,task.associations,eval_loss\n",
                    one = "mine,1,recall,40,0.25\n", two = "mine,2,recall,40,0.5\n";
  const LabelledRecords rows = read_own(head + one + two + one + two + one + two);
  EXPECT_EQ(rows.rows.size(), 2U);
  ASSERT_EQ(rows.notes.size(), 1U);
  EXPECT_THAT(rows.notes[0], HasSubstr("own.csv:4 repeats"));
  EXPECT_THAT(rows.notes[0], HasSubstr("own.csv:2, and 3 more rows"));
  EXPECT_EQ(read_own("id," + head + "a," + one + "a," + one + "b," + two).rows.size(), 2U);
}

TEST(Import, ALossThatIsNoneIsThatOfADivergedRun) {
  const LabelledRecords rows =
      read_own("label,status,task.name,eval_loss,eval_accuracy\nx,done,recall,nan,0.5\n");
  EXPECT_EQ(rows.rows.begin()->second.eval_loss, std::numeric_limits<double>::infinity());
}

TEST(Import, WordsIdentifyTheConfigurationAndAnEmptyLossIsMissing) {
  const LabelledRecords rows = read_own(
      "label,seed,task.name,optimizer,eval_loss,host_s\nm,1,recall,adam,0.1,3\nm,1,recall,sgd,0.9,4\n"
      "m,2,recall,sgd,,\n");
  ASSERT_EQ(rows.rows.size(), 3U);
  EXPECT_EQ(rows.rows.begin()->second.config.at("optimizer"), "adam");
  EXPECT_EQ(rows.rows.begin()->second.metrics.at("host_s"), 3);
  EXPECT_EQ(std::prev(rows.rows.end())->second.status, RunStatus::failed);
  ASSERT_EQ(rows.notes.size(), 1U);
  EXPECT_THAT(rows.notes[0], HasSubstr("own.csv:4: no eval_loss"));
}

TEST(Import, WrongFilesAreNamedWithTheirLine) {
  const TemporaryFolder folder;
  const auto problem = [&](const std::string& text) -> std::string {
    spill(folder.path() / "x.csv", text);
    return refusal_of([&] { read_export(folder.path() / "x.csv"); });
  };
  const auto has = [&](const std::string& text, const std::string& part) {
    const std::string message = problem(text);
    EXPECT_THAT(message, HasSubstr(part));
  };
  has("", "holds no rows");
  has("label,task.name\nx,recall\n",
      "x.csv:2: runs need a column 'eval_loss' (or 'eval_accuracy', where that is what is known); there are label, task.name");
  has("label,eval_loss,task.name,state_bytes\nx,1,recall,-4\n", "column 'state_bytes': -4 is no size");
  has("label,task.name,eval_accuracy\na,mqar,95\n", "x.csv:2: column 'eval_accuracy': 95 is more than 1");
  has("label,task.name,test_accuracy\na,mqar,-0.5\n", "column 'test_accuracy': -0.5 is below 0");
  has("label,task.name,eval_loss\na,recall,-5\n", "column 'eval_loss': -5 is below 0");
  has("label,task.name,eval_loss,d_dot\na,recall,1,-3\n", "column 'd_dot': -3 is no size");
  has("label,eval_loss\nx,0.1\n", "at least one column of a configuration");
  has("label,eval_loss,task.name\nx,low,recall\n", "'low' is not a number");
  has("label,eval_loss,task.name,status\nx,1,recall,fine\n", "none of done, diverged, failed");
  has("label,label\nx,y\n", "two columns have the same name");
  has("id,label,eval_loss,task.name\na,x,1,recall\na,x,1,other\n", "x.csv:3: a second row");
  has("label,eval_loss,task.name\nx,1,recall\ny,1,recall\nx,2,recall\n", "x.csv:4 are of one label (\"x\")");
  has("label,seed,eval_loss,task.name\nx,1.5,1,recall\n", "column 'seed': '1.5' is not a whole number");
  has("label;eval_loss;task.name\nx;0,25;recall\n",
      "x.csv:2: column 'eval_loss': '0,25' has a comma; decimals have a point");
  has("label,eval_loss,task.name\nx,\"0,25\",recall\n", "'0,25' is not a number; decimals have a point");
  has("label,eval_loss,task.name\n\"x,1,recall\n", "x.csv:2: a quote opens here that is not closed");
  has("\xFF\xFEl\0", "is UTF-16");
}

TEST(Import, RunsOfWeightsAndBiasesUnderOurNames) {
  const Renaming renaming = {{{"label", "Name"},
                              {"status", "State"},
                              {"task.pairs", "num_kv_pairs"},
                              {"eval_accuracy", "valid/accuracy"}},
                             {{"task.name", "mqar"}}};
  for (const char separator : {',', ';', '\t'}) {
    std::string text =
        "\"Name\",\"State\",\"num_kv_pairs\",\"valid/accuracy\",\"notes\"\n"
        "\"based\",\"finished\",\"16\",\"0.975\",\"-\"\n\"based\",\"running\",\"64\",\"0.2\",\"\"\n"
        "\"mamba\",\"crashed\",\"16\",\"\",\"\"\n";
    std::ranges::replace(text, ',', separator);
    const TemporaryFolder folder;
    spill(folder.path() / "wandb.csv", text);
    const LabelledRecords rows = read_foreign(folder.path() / "wandb.csv", renaming);
    ASSERT_EQ(rows.rows.size(), 2U);
    const Record& first = rows.rows.begin()->second;
    EXPECT_EQ(first.label, "based");
    EXPECT_EQ(first.config.at("task.pairs"), 16);
    EXPECT_EQ(first.config.at("task.name"), "mqar");
    EXPECT_EQ(first.eval_accuracy, 0.975);
    EXPECT_EQ(std::next(rows.rows.begin())->second.status, RunStatus::failed);
    EXPECT_EQ(rows.notes.size(), 1U);  // one that is still going
  }
}

TEST(Import, CurvesOfChartsAndScalars) {
  const TemporaryFolder folder;
  spill(folder.path() / "chart.csv",
        "Step,a - loss,a - loss__MIN,b - loss\n0,1.5,1.5,2\n100,0.5,0.5,\n200,,,0.25\n");
  const Renaming chart = {{{"eval_loss", "loss"}}, {{"task.pairs", "8"}}};
  const LabelledRecords rows = read_foreign(folder.path() / "chart.csv", chart);
  ASSERT_EQ(rows.rows.size(), 2U);
  const Record &a = rows.rows.begin()->second, &b = std::next(rows.rows.begin())->second;
  EXPECT_EQ(a.label, "a");
  EXPECT_EQ(a.eval_loss, 0.5);
  EXPECT_EQ(a.steps, 100);
  EXPECT_EQ(b.curves.at("eval_loss").x, (std::vector<double>{0, 200}));
  spill(folder.path() / "delta.csv", "Wall time,Step,Value\n1,10,0.5\n2,20,0.75\n");
  const Renaming scalar = {{{"eval_accuracy", "Value"}}, {{"task.pairs", "8"}}};
  const Record delta = read_foreign(folder.path() / "delta.csv", scalar).rows.begin()->second;
  EXPECT_EQ(delta.label, "delta");
  EXPECT_EQ(delta.eval_accuracy, 0.75);
}

TEST(Import, AColumnThatIsNotThereIsNamedWithThoseThatAre) {
  const TemporaryFolder folder;
  spill(folder.path() / "wandb.csv", "Name,loss\nx,1\n");
  EXPECT_THAT(refusal_of([&] {
                read_foreign(folder.path() / "wandb.csv",
                             {{{"label", "Name"}, {"eval_loss", "los"}}, {{"task.pairs", "8"}}});
              }),
              HasSubstr("there is no column 'los' for eval_loss; there are Name, loss"));
}

}  // namespace
}  // namespace crosstalk
