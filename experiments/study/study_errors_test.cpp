// Wrong study files: each message whole, with its place.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "results/test_refusal.h"

#include "experiments/study/study.h"
#include "experiments/study/study_fixture.h"

namespace crosstalk {
namespace {

std::string error(const std::string& text) {
  const std::string said =
      crosstalk::testing::refusal_of<ConfigError>([&] { parse_study(fixture_schema(), text, "x.toml", {}); });
  EXPECT_NE(said, "") << "accepted: " << text;
  return said;
}

/// Six lines, then `rest` from line 7.
std::string with(const std::string& rest) {
  return "[study]\nname = \"small\"\n[memories.linear]\nname = \"linear_attention\"\n[base]\ntask.name = \"recall\"\n" +
         rest;
}

void expect(const std::string& rest, const std::string& message) {
  EXPECT_EQ(error(with(rest)), "x.toml:" + message) << rest;
}

void expect_whole(const std::string& text, const std::string& message) {
  EXPECT_EQ(error(text), "x.toml:" + message) << text;
}

TEST(StudyErrors, UnknownKeys) {
  expect("  task.asociations = 3\n", "7:3: unknown key task.asociations; did you mean task.associations?");
  expect("\"task.asociations\" = 3\n", "7:1: unknown key task.asociations; did you mean task.associations?");
  expect("associations = 3\n", "7:1: unknown key associations; did you mean task.associations?");
  expect("train.associations = 3\n", "7:1: unknown key train.associations; did you mean task.associations?");
  expect("eval.zzzzzzzzzzz = 3\n",
         "7:1: unknown key eval.zzzzzzzzzzz; it could be eval.every, eval.length_factors or eval.protocol");
  expect(
      "zzzzzzzzzzzzzzz = 3\n",
      "7:1: unknown key zzzzzzzzzzzzzzz; keys begin with task., model., memory., train. or eval., or are data_seed or init_seed");
  expect(
      "seed = 3\n",
      "7:1: seed does not belong here; write seeds = [1, 2, 3] in [study] (data_seed and init_seed may be set alone)");
  expect(
      "memory.name = \"delta\"\n",
      "7:1: memory.name is chosen by [memories.LABEL] name = \"...\", and by memory = [\"LABEL\"] in [[grid]]");
  expect("[[grid]]\n\"task.asociations\" = [1]\n",
         "8:1: unknown key task.asociations; did you mean task.associations?");
  expect("[[grid]]\n[[grid.zip]]\ntrain.bath = [1]\n",
         "9:1: unknown key train.bath; did you mean train.batch?");
  expect("[[grid]]\n[[grid.skip]]\ntrain.bath = 1\n",
         "9:1: unknown key train.bath; did you mean train.batch?");
  expect("[study2]\nx = 1\n", "7:2: unknown table study2; did you mean study?");
  expect("[sweep]\nx = 1\n",
         "7:2: unknown table sweep; a study has [study], [base], [memories.LABEL] and [[grid]]");
  expect_whole("naem = 3\n",
               "1:1: unknown key naem; a study has [study], [base], [memories.LABEL] and [[grid]]");
  expect_whole("[study]\nnam = \"x\"\n", "2:1: unknown key nam in [study]; did you mean name?");
}

TEST(StudyErrors, Memories) {
  expect("[memories.x]\nname = \"linear_atention\"\n",
         "8:1: unknown memory \"linear_atention\"; did you mean linear_attention?");
  expect(
      "[memories.x]\nname = \"base_conv\"\n",
      "8:1: base_conv is no memory but a layer beside one; write model.stack = \"base_conv memory\" in [base], and name a memory here");
  expect("[memories.x]\nname = \"mamba\"\n",
         "8:1: unknown memory \"mamba\"; it may be softmax, linear_attention or delta");
  expect("[memories.x]\nnu = 2\n",
         "7:2: [memories.x] has no name; add name = softmax, linear_attention or delta");
  expect("[memories.x]\nnam = \"delta\"\n",
         "8:1: unknown key nam in [memories.x], which has no name; did you mean name = \"delta\"?");
  expect("[memories.x]\nkind = \"delta\"\n",
         "8:1: unknown key kind in [memories.x], which has no name; did you mean name = \"delta\"?");
  expect("[memories.delta]\nbeta_max = 2\n", "7:2: [memories.delta] has no name; add name = \"delta\"");
  expect("[memories.x]\nname = \"delta\"\nbeta_may = 2\n",
         "9:1: unknown key beta_may of memory \"delta\"; did you mean beta_max?");
  expect("[memories.x]\nname = \"softmax\"\nnu = 2\n",
         "9:1: unknown key nu of memory \"softmax\"; it has no options");
  expect("[memories.x]\nname = \"delta\"\nbatch = 2\n",
         "9:1: unknown key batch of memory \"delta\"; did you mean train.batch?");
  expect(
      "[memories.x]\nname = \"delta\"\nfeature_map = \"dpfpp\"\n",
      "9:1: memory.feature_map = \"dpfpp\" is not known (did you mean \"dpfp\"?); it can be identity, elu1, relu, dpfp");
  expect("[memories.x]\nname = \"delta\"\nnu = 1\nmemory.nu = 2\n",
         "10:1: duplicate key memory.nu: it is already set in line 9; keep one of the two");
  expect("[memories.x]\nname = \"delta\"\nd_dot = 100\n", "9:1: memory.d_dot = 100 has no solution, got 64");
  expect("[memories]\nnu = 3\n",
         "8:1: nu stands in [memories] itself; each memory has its own table [memories.LABEL]");
  expect("[memories.\"a,b\"]\nname = \"delta\"\n",
         "7:2: label \"a,b\" of a memory: use printable ASCII without commas, quotes and backslashes");
  expect(
      "[memories.\"=1+1\"]\nname = \"delta\"\n",
      "7:2: label \"=1+1\" of a memory: a spreadsheet takes what begins with = for a formula; choose another");
  expect("[memories.\"NA\"]\nname = \"delta\"\n",
         "7:2: label \"NA\" of a memory: pandas and R read it as a missing value; choose another");
  expect("[memories.\"null\"]\nname = \"delta\"\n",
         "7:2: label \"null\" of a memory: pandas and R read it as a missing value; choose another");
  expect("[memories.\"NaN\"]\nname = \"delta\"\n",
         "7:2: label \"NaN\" of a memory: pandas and R read it as a missing value; choose another");
  expect(
      "[memories.\"fit: slope\"]\nname = \"delta\"\n",
      "7:2: label \"fit: slope\" of a memory: what begins with \"fit:\" are rows of a figure's own; choose another");
  expect(
      "[memories.\"theory: x\"]\nname = \"delta\"\n",
      "7:2: label \"theory: x\" of a memory: what begins with \"theory:\" are rows of a figure's own; choose another");
  expect("[memories.\" a\"]\nname = \"delta\"\n",
         "7:2: label \" a\" of a memory: it begins or ends with a space");
  expect("[[grid]]\nmemory = [\"linear\", \"liner\"]\n",
         "8:21: unknown memory \"liner\"; did you mean linear?");
  expect("[[grid]]\nmemory = 3\n", "8:10: unknown memory 3; [memories] has linear");
  expect("memory.beta_max = 2\n",
         "7:1: memory.beta_max means nothing to linear_attention, the memories here; it belongs to delta");
  expect_whole(
      "[study]\nname = \"x\"\n[base]\ntask.name = \"recall\"\n",
      "1:2: no memory to train; add [memories.LABEL] with name = softmax, linear_attention or delta");
}

TEST(StudyErrors, Values) {
  expect("train.batch = \"x\"\n", "7:1: train.batch wants an integer, got \"x\"");
  expect("train.batch = 1.5\n", "7:1: train.batch wants an integer, got 1.5");
  expect("train.batch = true\n", "7:1: train.batch wants an integer, got true");
  expect("train.learning_rate = \"fast\"\n", "7:1: train.learning_rate wants a number, got \"fast\"");
  expect("train.batch = 0\n", "7:1: train.batch = 0 is out of range; it must be between 1 and 1048576");
  expect("train.learning_rate = 0\n",
         "7:1: train.learning_rate = 0 is out of range; it must be greater than 0 and at most 1000000000");
  expect("train.batch = [1, 2]\n",
         "7:1: train.batch takes one value here; lists and ranges belong in [[grid]]");
  expect("data_seed = -1\n", "7:1: data_seed wants integers from 0, got -1");
  expect("eval.length_factors = \"1 x\"\n", "7:1: eval.length_factors wants whole numbers such as \"1 2 4\"");
  expect("eval.length_factors = \"1 2\"\n", "7:1: recall has no longer form; use reassign or swap");
  expect("task.keys = 10\n", "7:1: task.keys must be at least task.associations");
  expect("task.update_fraction = 0.5\n",
         "7:1: task.update_fraction means nothing to task recall; it belongs to reassign");
  expect("[[grid]]\ntrain.batch = [1, 2, 0]\n",
         "8:22: train.batch = 0 is out of range; it must be between 1 and 1048576");
  expect("[[grid]]\ntrain.batch = { range = [2, 0, -1] }\n",
         "8:1: train.batch = 0 is out of range; it must be between 1 and 1048576");
  expect("[[grid]]\ntask.associations = [10, 20]\ntask.keys = [20, 15]\n",
         "9:18: task.keys must be at least task.associations");
  expect("[[grid]]\ntask.name = \"recal\"\n", "8:13: unknown task \"recal\"; did you mean recall?");
  expect_whole("[study]\nname = \"x\"\n[memories.m]\nname = \"softmax\"\n",
               "1:2: no task to train on; add task.name = recall or reassign to [base]");
}

TEST(StudyErrors, DuplicateKeys) {
  expect("train.batch = 1\n train.batch = 2\n",
         "8:2: duplicate key train.batch: it is already set above; keep one of the two");
  expect("train.batch = 1\n\"train.batch\" = 2\n",
         "8:1: duplicate key train.batch: it is already set in line 7; keep one of the two");
  expect("[memories.linear]\nname = \"delta\"\n",
         "7:1: duplicate key memories.linear: it is already set above; keep one of the two");
  expect("[[grid]]\ntrain.batch = [1]\n[[grid.zip]]\ntrain.batch = [1]\n",
         "10:1: duplicate key train.batch: this block has it already in line 8; keep one of the two");
}

TEST(StudyErrors, Axes) {
  expect("[[grid]]\ntrain.batch = []\n", "8:1: train.batch is an empty list; give it at least one value");
  expect("[[grid]]\nmemory = []\n", "8:1: memory is an empty list; give it at least one value");
  expect("[[grid]]\ntrain.batch = [[1]]\n",
         "8:16: train.batch holds a list or table inside its list; it takes plain values");
  expect("[[grid]]\ntrain.batch = { range = [5, 1] }\n",
         "8:17: range of train.batch is empty: no steps of 1 lead from 5 to 1");
  expect("[[grid]]\ntrain.batch = { range = [1, 5, 0] }\n",
         "8:17: range of train.batch has step 0; a step moves from the first value to the last");
  expect(
      "[[grid]]\ntrain.batch = { range = [1, 3, 5] }\n",
      "8:17: range of train.batch is its first value alone: [first, last, step] with step 5 leads from 1 past 3; values are listed without range: "
      "1, 3, 5");
  expect(
      "[[grid]]\ntrain.batch = { range = [3, 6, 2] }\n",
      "8:17: range of train.batch does not end at 6: steps of 2 lead to 5 and then to 7; let it end at one of these");
  expect(
      "[[grid]]\ntrain.batch = { logrange = [4, 40] }\n",
      "8:17: logrange of train.batch does not end at 40: factors of 2 lead to 32 and then to 64; let it end at one of these");
  expect(
      "[[grid]]\ntrain.learning_rate = { range = [1, 1.00000000000003, 1e-14] }\n",
      "8:25: range of train.learning_rate has steps of 1e-14, by which numbers of 12 digits near 1 do not change");
  expect("train.stop_loss = 1e-400\n",
         "7:19: is smaller than numbers can be and would be 0; write 0, or at least 1e-300");
  expect("[[grid]]\ntrain.batch = { range = [3, 5, 2] }\ntrain.bath = 1\n",  // a step that is none too large
         "9:1: unknown key train.bath; did you mean train.batch?");
  expect("[[grid]]\ntrain.batch = { range = [1] }\n",
         "8:17: range of train.batch wants [first, last] or [first, last, step]");
  expect("[[grid]]\ntrain.batch = { range = [1, \"x\"] }\n",
         "8:17: range of train.batch wants numbers, got \"x\"");
  expect("[[grid]]\ntrain.batch = { logrange = [0, 8] }\n",
         "8:17: logrange of train.batch must begin above 0");
  expect("[[grid]]\ntrain.batch = { logrange = [8, 4] }\n",
         "8:17: logrange of train.batch is empty: 8 lies above 4");
  expect("[[grid]]\ntrain.batch = { logrange = [1, 8], base = 1 }\n",
         "8:17: logrange of train.batch needs a base above 1");
  expect(
      "[[grid]]\ntrain.batch = { rang = [1, 8] }\n",
      "8:17: unknown key rang in train.batch; train.batch takes a list, { range = [first, last, step] } or { logrange = [first, last], base = 2 }");
  expect(
      "[[grid]]\n[[grid.zip]]\ntrain.batch = [1, 2]\ntask.queries = [1, 2, 3]\n",
      "10:1: [[grid.zip]] lists advance together, but train.batch has 2 and task.queries has 3 values; make them equally long");
  expect("[[grid]]\n[[grid.zip]]\n", "8:1: [[grid.zip]] is empty; give it two lists or more");
  expect("[[grid]]\n[[grid.skip]]\n",
         "8:1: [[grid.skip]] is empty and would skip everything; name keys and values to leave out");
  expect("[[grid]]\n[[grid.skip]]\nmemory = \"linear\"\n",
         "7:1: [[grid.skip]] leaves out every run of the study");
  expect("[grid]\ntrain.batch = [1]\n", "7:2: grid is a list of tables; write [[grid]] on a line of its own");
  expect("[[grid]]\n[grid.zip]\ntrain.batch = [1]\n",
         "8:2: zip is a list of tables; write [[grid.zip]] on a line of its own");
}

TEST(StudyErrors, ALongRangeOfLoadsNeedsAStep) {
  expect(
      "[[grid]]\ntask.associations = { range = [8, 64] }\n",
      "8:23: range of task.associations has no step, so that it is every number from 8 to 64; give one, such as { range = [8, 64, 8] }, or 1 for "
      "every number");
  expect(
      "[[grid]]\ntask.associations = { range = [1, 100] }\n",
      "8:23: range of task.associations has no step, so that it is every number from 1 to 100; give one, such as { range = [1, 100, 10] }, or 1 "
      "for every number");
}

TEST(StudyErrors, NamesOfOtherPrograms) {
  expect("train.lr = 1\n", "7:1: unknown key train.lr; did you mean train.learning_rate?");
  expect("lr = 1\n", "7:1: unknown key lr; did you mean train.learning_rate?");
  expect("batch_size = 1\n", "7:1: unknown key batch_size; did you mean train.batch?");
  expect(
      "device = \"cuda\"\n",
      "7:1: unknown key device: the device is chosen when the study is run: crosstalk run STUDY.toml --device cuda:0");
  expect("train.Batch_Size = 1\n", "7:1: unknown key train.Batch_Size; did you mean train.batch?");
  expect(
      "train.seed = 1\n",
      "7:1: train.seed does not belong here; write seeds = [1, 2, 3] in [study] (data_seed and init_seed may be set alone)");
}

TEST(StudyErrors, SeedsThatWouldTrainTheSameAgain) {
  const std::string
      base = "[study]\nname = \"s\"\nseeds = [1, 2, 3]\n[base]\ntask.name = \"recall\"\ndata_seed = 5\n",
      memory = "[memories.linear]\nname = \"linear_attention\"\n";
  expect_whole(
      base + "init_seed = 5\n" + memory,
      "6:1: data_seed and init_seed are both fixed, so 3 seeds would be 3 times the same training; leave one of them out, or give one seed");
  EXPECT_EQ(parse_study(fixture_schema(), base + memory, "x.toml", {}).runs.size(), 3u);
}

const std::string kIdle =
    " memory.nu has no effect without DPFP; set memory.feature_map = \"dpfp\", or leave memory.nu out";

TEST(StudyErrors, OptionsWithoutEffect) {
  expect("memory.nu = 2\n", "7:1:" + kIdle);
  expect("memory.nu = 1\n", "7:1:" + kIdle);  // the default: the same training all the more
  expect("[[grid]]\nmemory.nu = [1, 2]\n", "8:14:" + kIdle + "\nx.toml:8:17:" + kIdle);
  expect(
      "[memories.more]\nname = \"linear_attention\"\nfeature_map = \"dpfp\"\nnu = 2\n[memories.other]\n"
      "name = \"linear_attention\"\nnu = 2\n",
      "13:1:" + kIdle);
  // Some combinations use it, others would be one training twice.
  expect("[[grid]]\nmemory.feature_map = [\"elu1\", \"dpfp\"]\nmemory.nu = [2, 3]\n",
         "9:14:" + kIdle + "\nx.toml:9:17:" + kIdle);
}

TEST(StudyErrors, OptionsThatSomeCombinationsUseAreDefaultsInTheOthers) {
  const auto ids = [](const std::string& rest) {
    std::vector<std::string> all;
    for (const auto& run : parse_study(fixture_schema(), with(rest), "x.toml", {}).runs)
      all.push_back(run.id);
    return all;
  };
  const std::vector<std::string> both =
      ids("memory.nu = 2\n[[grid]]\nmemory.feature_map = [\"elu1\", \"dpfp\"]\n");
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0], ids("").at(0));
  EXPECT_EQ(both[1], ids("memory.feature_map = \"dpfp\"\nmemory.nu = 2\n").at(0));
}

TEST(StudyErrors, SkipsThatLeaveOutNothing) {
  const std::string grid = "[[grid]]\ntask.associations = [10, 20]\n[[grid.skip]]\ntask.associations = ";
  expect(
      grid + "10\ntrain.batch = 33\n",
      "9:1: no combination of this [[grid]] is as this [[grid.skip]] says, so it leaves out nothing; give it values that "
      "the grid has, or take it away");
  EXPECT_EQ(parse_study(fixture_schema(), with(grid + "10\n"), "x.toml", {}).runs.size(), 1u);
  // --set may take away what is left out.
  EXPECT_EQ(
      parse_study(fixture_schema(), with(grid + "10\n"), "x.toml", {{"task.associations=20"}}).runs.size(),
      1u);
}

TEST(StudyErrors, Head) {
  expect_whole("", "1:1: the file is empty; a study begins with [study] and name = \"...\"");
  expect_whole(" \r\n\t\n", "1:1: the file is empty; a study begins with [study] and name = \"...\"");
  expect_whole("# nothing\n", "1:1: the table [study] is missing; it holds name = \"...\"");
  expect_whole("study = 3\n", "1:1: study is a table; write [study] on a line of its own");
  expect_whole("[study]\n", "1:2: [study] has no name; add name = \"my_study\"");
  expect_whole("[study]\nname = 3\n", "2:1: name wants a string in quotes");
  expect_whole(
      "[study]\nname = \"../x\"\n",
      "2:8: name = \"../x\" cannot name files; use up to 100 letters, digits, _, - and . (not first)");
  expect_whole("[study]\nname = \"x\"\nseeds = 3\n",
               "3:1: seeds is a list; write seeds = [3] for seed 3, { range = [1, 3] } for three seeds");
  expect_whole("[study]\nname = \"x\"\nseeds = []\n",
               "3:1: seeds is an empty list; give it at least one value");
  expect_whole("[study]\nname = \"x\"\nseeds = [1, 2.5]\n", "3:13: seeds wants integers from 0, got 2.5");
  expect_whole("[study]\nname = \"x\"\nseeds = { range = [-1, 1] }\n",
               "3:1: seeds wants integers from 0, got -1");
  expect_whole("\xEF\xBB\xBF[study]\n",
               "1:1: the file begins with a byte order mark; save it as UTF-8 without one");
  expect_whole("[study]\nname = \"\xFF\"\n", "2:9: byte 0xFF is not UTF-8; save the file as UTF-8");
  expect_whole("[study]\nname = recall\n",
               "2:8: not valid TOML: value: could not determine value type (a string needs quotes: \"...\")");
}

TEST(StudyErrors, HugeProductsAreRefusedAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  expect(
      "[[grid]]\ntrain.batch = { range = [1, 1_000_000] }\ntask.queries = { range = [1, 1_000_000] }\n",
      "7:1: 1 memory x 1000000 batch x 1000000 queries x 1 seed = 1000000000000 runs are more than 100000; make the study smaller or allow more "
      "with --max-runs");
  expect(
      "[[grid]]\ntrain.batch = { range = [1, 9_000_000_000_000_000_000] }\ntask.queries = [1, 2]\n",
      "7:1: 1 memory x 9000000000000000000 batch x 2 queries x 1 seed = more than 10^18 runs are more than 100000; make the study smaller or "
      "allow more with --max-runs");
  expect(
      "[[grid]]\ntrain.learning_rate = { range = [1e-30, 1e30, 1e-30] }\n",
      "7:1: 1 memory x more than 10^18 learning_rate x 1 seed = more than 10^18 runs are more than 100000; make the study smaller or allow more "
      "with --max-runs");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(StudyErrors, FilesThatCannotBeRead) {
  const auto of = [](const std::filesystem::path& path) -> std::string {
    return crosstalk::testing::refusal_of<ConfigError>([&] { read_study_text(path); });
  };
  const std::string directory = ::testing::TempDir();
  EXPECT_EQ(of("/no/such.toml"),
            "/no/such.toml: no such file; a study is a TOML file such as experiments/quickstart.toml");
  EXPECT_EQ(of(directory), directory + ": is a directory; name a study file (*.toml) in it");
  // Opens, but its first page cannot be read.
  EXPECT_EQ(of("/proc/self/mem"), "/proc/self/mem: cannot be read: Input/output error");
}

}  // namespace
}  // namespace crosstalk
