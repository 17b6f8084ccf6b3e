// Exported tables: exact bytes, and what pandas makes of them.
// SPDX-License-Identifier: Apache-2.0
#include "results/export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <sstream>

#include "results/test_records.h"

namespace crosstalk {
namespace {

using testing::spill;
using testing::TemporaryFolder;

std::map<std::string, Record> two_records() {
  Record done;
  done.id = "ct-0000000000000000000000000000000e";
  done.study = "a, \"quoted\" study";
  done.label = "linear";
  done.seed = 1;
  done.config = {{"task.associations", 20}, {"train.learning_rate", 1e-3}, {"model.bias", true}, {"seed", 1}};
  done.d_dot = 64;
  done.state_size = 4160;
  done.steps = 300;
  done.eval_loss = 1.0 / 3.0;
  done.best_eval_loss = 5e-324;
  done.eval_accuracy = 1;
  done.metrics = {{"chance", 0.05}, {"eval_loss", 2.5}};
  done.curves["eval_loss"] = {{100, 200}, {0.5, std::numeric_limits<double>::quiet_NaN()}};
  done.profiles["accuracy_by_operations"] = {{0.5}, {1}};
  done.provenance = {{"host", "node7"}, {"wall_s", 1.25}};
  Record diverged;
  diverged.id = "ct-00000000000000000000000000000001";
  diverged.study = "plain";
  diverged.label = "sönne\nzwei";
  diverged.status = RunStatus::diverged;
  diverged.steps = 7;
  diverged.config = {{"task.associations", 600}, {"model.sizes", {1, 2}}};
  diverged.eval_loss = std::numeric_limits<double>::infinity();
  diverged.best_eval_loss = -0.25;
  diverged.eval_accuracy = std::numeric_limits<double>::quiet_NaN();
  return {{done.id, done}, {diverged.id, diverged}};
}

std::string runs(ExportFormat format, bool provenance = false) {
  std::ostringstream out;
  export_runs(out, two_records(), format, provenance);
  return out.str();
}

TEST(Export, RunsAsCsv) {
  EXPECT_EQ(
      runs(ExportFormat::csv),
      "id,study,label,status,seed,model.bias,model.sizes,task.associations,train.learning_rate,d_dot,state_size,steps,verdict,eval_loss,best_eval_loss,eval_accuracy,chance,metric.eval_loss\n"
      "ct-00000000000000000000000000000001,plain,\"sönne\nzwei\",diverged,0,,\"[1,2]\",600,,0,,7,diverged,,-0.25,,,\n"
      "ct-0000000000000000000000000000000e,\"a, \"\"quoted\"\" "
      "study\",linear,done,1,true,,20,0.001,64,4160,300,out_of_steps,0.3333333333333333,5e-324,1,0.05,2.5\n");
}

TEST(Export, RunsAsJsonLines) {
  EXPECT_EQ(
      runs(ExportFormat::jsonl),
      R"({"id":"ct-00000000000000000000000000000001","study":"plain","label":"sönne\nzwei",)"
      R"("status":"diverged","seed":0,"model.bias":null,"model.sizes":[1,2],"task.associations":600,)"
      R"("train.learning_rate":null,"d_dot":0,"state_size":null,"steps":7,"verdict":"diverged","eval_loss":null,)"
      R"("best_eval_loss":-0.25,"eval_accuracy":null,"chance":null,"metric.eval_loss":null})"
      "\n"
      R"({"id":"ct-0000000000000000000000000000000e","study":"a, \"quoted\" study","label":"linear",)"
      R"("status":"done","seed":1,"model.bias":true,"model.sizes":null,"task.associations":20,)"
      R"("train.learning_rate":0.001,"d_dot":64,"state_size":4160,"steps":300,"verdict":"out_of_steps",)"
      R"("eval_loss":0.3333333333333333,"best_eval_loss":5e-324,"eval_accuracy":1,"chance":0.05,)"
      R"("metric.eval_loss":2.5})"
      "\n");
}

TEST(Export, ProvenanceIsAddedOnRequest) {
  const std::string text = runs(ExportFormat::csv, true);
  EXPECT_NE(text.find(",metric.eval_loss,provenance.host,provenance.wall_s\n"), std::string::npos);
  EXPECT_NE(text.find(",node7,1.25\n"), std::string::npos);
}

TEST(Export, NoRecordsGiveTheFixedColumns) {
  std::ostringstream out;
  export_runs(out, {}, ExportFormat::csv, true);
  EXPECT_EQ(
      out.str(),
      "id,study,label,status,seed,d_dot,state_size,steps,verdict,eval_loss,best_eval_loss,eval_accuracy\n");
  std::ostringstream lines;
  export_runs(lines, {}, ExportFormat::jsonl, true);
  EXPECT_EQ(lines.str(), "");
}

TEST(Export, Curves) {
  std::ostringstream csv;
  export_curves(csv, two_records(), ExportFormat::csv);
  EXPECT_EQ(csv.str(),
            "id,step,metric,value\n"
            "ct-0000000000000000000000000000000e,100,eval_loss,0.5\n"
            "ct-0000000000000000000000000000000e,200,eval_loss,\n"
            "ct-0000000000000000000000000000000e,0.5,accuracy_by_operations,1\n");
  std::ostringstream lines;
  export_curves(lines, two_records(), ExportFormat::jsonl);
  EXPECT_NE(lines.str().find(R"("step":200,"metric":"eval_loss","value":null})"), std::string::npos);
}

std::string python_with_pandas() {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(python) + " -c 'import pandas' 2>/dev/null";
    if (std::system(probe.c_str()) == 0) return python;
  }
  return "";
}

TEST(Export, PandasReadsItInTwoLines) {
  const std::string python = python_with_pandas();
  if (python.empty()) GTEST_SKIP() << "no python3 with pandas";
  const TemporaryFolder folder;
  spill(folder.path() / "runs.csv", runs(ExportFormat::csv));
  spill(folder.path() / "runs.jsonl", runs(ExportFormat::jsonl));
  spill(folder.path() / "check.py", R"(
import sys
import pandas
folder = sys.argv[1]
csv = pandas.read_csv(folder + "/runs.csv", float_precision="round_trip")
lines = pandas.read_json(folder + "/runs.jsonl", lines=True)
for table in (csv, lines):
    assert list(table["id"]) == ["ct-" + "0" * 31 + "1", "ct-" + "0" * 31 + "e"], table["id"]
    assert list(table["status"]) == ["diverged", "done"]
    assert table["study"][1] == 'a, "quoted" study', table["study"]
    assert table["label"][0] == "sönne\nzwei"
    assert list(table["task.associations"]) == [600, 20]
    assert table["task.associations"].dtype.kind == "i", table.dtypes
    assert pandas.isna(table["eval_loss"][0])
    assert not any(dtype.kind == "M" for dtype in table.dtypes), table.dtypes  # nothing taken for a date
assert csv["eval_loss"][1] == 1 / 3
assert csv["best_eval_loss"][1] == 5e-324
assert abs(lines["eval_loss"][1] - 1 / 3) < 1e-15
assert list(csv.columns) == list(lines.columns)
)");
  const std::string command =
      python + " '" + (folder.path() / "check.py").string() + "' '" + folder.path().string() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

}  // namespace
}  // namespace crosstalk
