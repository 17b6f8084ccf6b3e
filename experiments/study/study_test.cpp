// Expansion and identity of runs.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "experiments/study/study_fixture.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using Int = std::int64_t;

Study parse(const std::string& text) { return parse_study(fixture_schema(), text, "x.toml", {}); }

std::vector<std::string> ids(const Study& study) {
  std::vector<std::string> out;
  for (const auto& run : study.runs) out.push_back(run.id);
  return out;
}

std::set<std::string> id_set(const std::string& text) {
  const std::vector<std::string> all = ids(parse(text));
  return {all.begin(), all.end()};
}

/// A small study: head and one memory, then `rest`.
std::string small(const std::string& rest) {
  return "[study]\nname = \"small\"\n[base]\ntask.name = \"recall\"\n[memories.linear]\nname = \"linear_attention\"\n"
         "[memories.softmax]\nname = \"softmax\"\n" +
         rest;
}

std::vector<Int> loads(const Study& study) {
  std::vector<Int> out;
  for (const auto& run : study.runs) out.push_back(run.config.get_int("task.associations"));
  return out;
}

TEST(Study, RunsThatDifferInTrainingAloneResolveTheirModelOnce) {
  Schema schema = fixture_schema();
  int resolved = 0;
  for (SchemaMemory& memory : schema.memories)
    memory.resolve = [&resolved, resolve = memory.resolve](Options& options) {
      ++resolved;
      if (resolve) resolve(options);
    };
  const std::string text = small(
      "[[grid]]\nmemory = [\"linear\", \"softmax\"]\n\"train.learning_rate\" = [1e-3, 1e-2, 1e-1]\n\"task.associations\" = [4, 8]\n");
  const Study study = parse_study(schema, text, "x.toml", {});
  ASSERT_EQ(study.runs.size(), 12u);
  EXPECT_EQ(resolved, 4);  // labels and loads
  const auto alone = parse_study(schema, text, "x.toml",
                                 {{"memory=softmax", "train.learning_rate=0.01", "task.associations=8"}});
  EXPECT_EQ(alone.runs.at(0).config, study.runs.at(9).config);
}

TEST(Study, GoldenExpansionOfTheExample) {
  const Study study = parse(example_study());
  EXPECT_EQ(study.name, "schlag2021_capacity");
  EXPECT_EQ(study.title, "Capacity without replacement (Schlag, Irie, Schmidhuber 2021, setting 1)");
  EXPECT_EQ(study.text, example_study());
  EXPECT_EQ(
      study.product,
      "3 memories x 30 associations x 2 d_key+learning_rate x 5 seeds - 10 skipped = 890 runs; [memories.dpfp1_delta] has no run");
  ASSERT_EQ(study.runs.size(), 890u);
  EXPECT_EQ(id_set(example_study()).size(), 890u);

  const auto& first = study.runs.front();  // memory slowest, then loads, then the zip, then seeds
  EXPECT_EQ(first.label, "softmax");
  EXPECT_EQ(first.seed, 1);
  EXPECT_EQ(first.d_dot, 0);
  EXPECT_EQ(first.state_size, 20 * (20 + 16));
  EXPECT_EQ(study.runs[4].seed, 5);
  EXPECT_EQ(study.runs[5].config.get_int("model.d_key"), 32);
  EXPECT_EQ(study.runs[5].config.get_double("train.learning_rate"), 1e-3);
  EXPECT_EQ(study.runs[10].config.get_int("task.associations"), 40);

  const auto& last = study.runs.back();
  EXPECT_EQ(last.label, "dpfp2");
  EXPECT_EQ(last.seed, 5);
  EXPECT_EQ(last.d_dot, 2 * 32 * 2);
  EXPECT_EQ(last.state_size, 600 * 128);
  Options all;  // every key of every schema that applies, derived values filled in
  for (const auto& [key, value] : std::map<std::string, OptionValue>{{"data_seed", Int{5}},
                                                                     {"init_seed", Int{5}},
                                                                     {"seed", Int{5}},
                                                                     {"eval.every", Int{100}},
                                                                     {"eval.length_factors", ""},
                                                                     {"eval.protocol", "schlag2021"},
                                                                     {"memory.d_dot", Int{128}},
                                                                     {"memory.feature_map", "dpfp"},
                                                                     {"memory.key_norm", "none"},
                                                                     {"memory.name", "linear_attention"},
                                                                     {"memory.nu", Int{2}},
                                                                     {"model.d_key", Int{32}},
                                                                     {"model.embedding", Int{1320}},
                                                                     {"model.name", "retrieval"},
                                                                     {"task.associations", Int{600}},
                                                                     {"task.keys", Int{600}},
                                                                     {"task.name", "recall"},
                                                                     {"task.queries", Int{1}},
                                                                     {"task.values", Int{600}},
                                                                     {"train.batch", Int{32}},
                                                                     {"train.learning_rate", 1e-3},
                                                                     {"train.max_steps", Int{100000}},
                                                                     {"train.patience", Int{10}},
                                                                     {"train.stop_loss", 1e-3}}) {
    all.set(key, value);
  }
  EXPECT_EQ(last.config, all);
  for (const auto& run : study.runs) {
    EXPECT_FALSE(run.label == "softmax" && run.config.get_int("task.associations") == 600);
  }
}

// These ids are in people's stores: if this test fails, results are orphaned. Change it only together with
// kSemantics.
TEST(Study, PinnedIds) {
  const Study study = parse(example_study());
  EXPECT_EQ(study.runs.front().id, "ct-bafe0f4e0d3774fb5583c7489f0d5886");
  EXPECT_EQ(study.runs.back().id, "ct-72b19e76006523b9f18b8a15565c35c6");
  EXPECT_EQ(
      canonical_text(fixture_schema(), study.runs.front().config),
      "data_seed=1\neval.protocol=\"schlag2021\"\ninit_seed=1\nmemory.name=\"softmax\"\nmodel.d_key=16\n"
      "model.embedding=44\nmodel.name=\"retrieval\"\nseed=1\ntask.keys=20\ntask.name=\"recall\"\n"
      "task.values=20\ntrain.learning_rate=0.003\nsemantics=5\n");
}

TEST(Study, IdsDoNotDependOnHowTheFileIsWritten) {
  const std::vector<std::string> expected = ids(parse(example_study()));
  const auto same = [&](const std::string& from, const std::string& to) {
    EXPECT_EQ(ids(parse(example_with(from, to))), expected) << to;
  };
  same("train.learning_rate = 1e-3\n", "train.learning_rate = 0.001\n");
  same("train.learning_rate = 1e-3\n", "  \"train.learning_rate\"=0.0010   # spaced\n");
  same("train.batch         = 32\n", "");  // the default, unsaid
  same("train.stop_loss     = 1e-3\n", "");
  same("eval.every          = 100\neval.protocol       = \"schlag2021\" ",
       "eval = { protocol = \"schlag2021\", every = 100 }");
  same("task.associations   = 20\n", "");
  same("100_000", "100000");
  same("name  = \"schlag2021_capacity\"", "name = \"other\"");
  same("[20, 600, 20]", "[2_0, 600, 20]");
  same("\"model.d_key\"         = [16, 32]", "model.d_key = { logrange = [16, 32] }");

  std::string windows;
  for (const char c : example_study()) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(ids(parse(windows)), expected);
}

TEST(Study, IdsDependOnWhatIsComputed) {
  const std::string base = small("[[grid]]\nmemory = \"linear\"\n");
  const std::string id = *id_set(base).begin();
  for (const char* change : {"[base]\ntrain.batch = 33", "[base]\ndata_seed = 2", "[base]\ninit_seed = 2",
                             "[base]\ntrain.learning_rate = 2", "[base]\neval.length_factors = \"1\""}) {
    const std::string text = std::string(change) + base.substr(base.find("[base]") + 6);
    EXPECT_EQ(id_set("[study]\nname = \"small\"\n" + text).count(id), 0u) << change;
  }
}

TEST(Study, LabelIsNotHashed) {
  const Study study = parse(small("[memories.again]\nname = \"linear_attention\"\nfeature_map = \"elu1\"\n"));
  ASSERT_EQ(study.runs.size(), 2u);
  EXPECT_EQ(study.runs[0].labels, (std::vector<std::string>{"linear", "again"}));
}

TEST(Study, WithoutGridEveryMemoryRunsOnce) {
  const Study study = parse(small(""));
  EXPECT_EQ(study.product, "2 memories x 1 seed = 2 runs");
  EXPECT_EQ(study.runs[0].label, "linear");
  EXPECT_EQ(study.runs[1].label, "softmax");
  EXPECT_EQ(study.runs[0].seed, 1);
  EXPECT_EQ(parse(small("[[grid]]\nmemory = \"softmax\"\n")).product,
            "1 memory x 1 seed = 1 run; [memories.linear] has no run");
}

TEST(Study, AxesTakeListsValuesAndRanges) {
  const auto of = [](const std::string& axis) {
    return loads(parse(small("[[grid]]\nmemory = [\"linear\"]\ntask.associations = " + axis + "\n")));
  };
  EXPECT_EQ(of("[5, 3]"), (std::vector<Int>{5, 3}));
  EXPECT_EQ(of("7"), (std::vector<Int>{7}));
  EXPECT_EQ(of("{ range = [2, 4] }"), (std::vector<Int>{2, 3, 4}));
  EXPECT_EQ(of("{ range = [20, 60, 20] }"), (std::vector<Int>{20, 40, 60}));
  EXPECT_EQ(of("{ range = [9, 1, -4] }"), (std::vector<Int>{9, 5, 1}));
  EXPECT_EQ(of("{ range = [6, 6] }"), (std::vector<Int>{6}));
  EXPECT_EQ(of("{ logrange = [4, 64] }"), (std::vector<Int>{4, 8, 16, 32, 64}));
  EXPECT_EQ(of("{ logrange = [3, 81], base = 3 }"), (std::vector<Int>{3, 9, 27, 81}));
}

TEST(Study, RangesOfNumbersHitTheDecimalsThatAPersonWrites) {
  const auto of = [](const std::string& axis) {
    return ids(parse(small("[[grid]]\nmemory = [\"linear\"]\ntrain.learning_rate = " + axis + "\n")));
  };
  EXPECT_EQ(of("{ range = [0.1, 0.7, 0.1] }"), of("[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]"));
  EXPECT_EQ(of("{ logrange = [1e-5, 1e-1], base = 10 }"), of("[1e-5, 1e-4, 1e-3, 1e-2, 0.1]"));
  EXPECT_EQ(of("{ range = [1, 2, 0.5] }"), of("[1, 1.5, 2]"));
}

TEST(Study, BlocksAddUpAndDuplicatesRunOnce) {
  const Study study =
      parse(small("[[grid]]\nmemory = \"linear\"\ntask.associations = [10, 20]\n"
                  "[[grid]]\ntask.associations = [20, 30]\n"));
  EXPECT_EQ(
      study.product,
      "(1 memory x 2 associations x 1 seed) + (2 memories x 2 associations x 1 seed) - 1 duplicate = 5 runs");
  EXPECT_EQ(loads(study), (std::vector<Int>{10, 20, 30, 20, 30}));
}

TEST(Study, OneConfigurationIsOneRunUnderEveryLabelThatNamesIt) {
  const Study study = parse(
      "[study]\nname = \"s\"\nseeds = [1, 2]\n[base]\ntask.name = \"recall\"\nmemory.nu = 1\n"
      "[memories.first]\nname = \"linear_attention\"\nfeature_map = \"dpfp\"\ntitle = 'DPFP, $\\nu = 1$'\n"
      "[memories.second]\nname = \"linear_attention\"\nfeature_map = \"dpfp\"\n"
      "[memories.third]\nname = \"softmax\"\n");
  EXPECT_EQ(study.product, "3 memories x 2 seeds - 2 shared by labels = 4 runs");
  ASSERT_EQ(study.runs.size(), 4u);
  EXPECT_EQ(study.runs[0].label, "first");
  EXPECT_EQ(study.runs[0].labels, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(study.runs[3].labels, (std::vector<std::string>{"third"}));
  ASSERT_EQ(study.labels.size(), 3u);
  EXPECT_EQ(study.labels[0].title, "DPFP, $\\nu = 1$");
  EXPECT_EQ(study.labels[1].label, "second");
}

TEST(Study, ZipAdvancesTogether) {
  const Study study =
      parse(small("[[grid]]\n[[grid.zip]]\nmemory = [\"linear\", \"softmax\"]\n"
                  "task.associations = [10, 20]\ntrain.batch = { range = [1, 2] }\n"));
  EXPECT_EQ(study.product, "2 memory+associations+batch x 1 seed = 2 runs");
  EXPECT_EQ(study.runs[0].label, "linear");
  EXPECT_EQ(study.runs[1].label, "softmax");
  EXPECT_EQ(loads(study), (std::vector<Int>{10, 20}));
  EXPECT_EQ(study.runs[1].config.get_int("train.batch"), 2);
}

TEST(Study, SkipLeavesOutWhatMatchesAllItsKeys) {
  const std::string grid = "[[grid]]\ntask.associations = [10, 20, 30]\n[[grid.skip]]\n";
  EXPECT_EQ(loads(parse(small(grid + "memory = \"softmax\"\n\"task.associations\" = [10, 30]\n"))),
            (std::vector<Int>{10, 20, 30, 20}));
  EXPECT_EQ(loads(parse(small(grid + "task.associations = { range = [10, 20, 10] }\n"))),
            (std::vector<Int>{30, 30}));
  EXPECT_EQ(parse(small(grid + "train.batch = 32\nmemory = \"linear\"\n")).runs.size(), 3u);  // a default
  EXPECT_EQ(parse(small(grid + "memory.nu = 1\n")).runs.size(), 3u);  // softmax has no nu
  // What cannot be resolved can be skipped.
  EXPECT_EQ(loads(parse(small("[[grid]]\nmemory = \"linear\"\ntask.associations = [10, 20]\ntask.keys = 10\n"
                              "[[grid.skip]]\ntask.associations = 20\n"))),
            (std::vector<Int>{10}));
}

TEST(Study, TablesWithoutARunAreSaid) {
  const std::string text = small("[memories.spare]\nname = \"delta\"\n[[grid]]\nmemory = [\"linear\"]\n");
  EXPECT_EQ(parse(text).product,
            "1 memory x 1 seed = 1 run; [memories.softmax] has no run; [memories.spare] has no run");
}

TEST(Study, PrecedenceIsDefaultBaseMemoryGrid) {
  const auto batch = [](const std::string& base, const std::string& memory, const std::string& grid) {
    const Study study = parse("[study]\nname = \"p\"\n[base]\ntask.name = \"recall\"\n" + base +
                              "[memories.m]\nname = \"softmax\"\n" + memory + "[[grid]]\n" + grid);
    return study.runs.at(0).config.get_int("train.batch");
  };
  EXPECT_EQ(batch("", "", ""), 32);
  EXPECT_EQ(batch("train.batch = 1\n", "", ""), 1);
  EXPECT_EQ(batch("train.batch = 1\n", "train.batch = 2\n", ""), 2);
  EXPECT_EQ(batch("train.batch = 1\n", "\"train.batch\" = 2\n", "train.batch = 3\n"), 3);
}

TEST(Study, SeedsSetDataAndInitialisationUnlessGiven) {
  const Study study = parse(
      "[study]\nname = \"p\"\nseeds = [7, 9]\n[base]\ntask.name = \"recall\"\ndata_seed = 3\n"
      "[memories.m]\nname = \"softmax\"\n");
  ASSERT_EQ(study.runs.size(), 2u);
  EXPECT_EQ(study.runs[1].seed, 9);
  EXPECT_EQ(study.runs[1].config.get_int("seed"), 9);
  EXPECT_EQ(study.runs[1].config.get_int("data_seed"), 3);
  EXPECT_EQ(study.runs[1].config.get_int("init_seed"), 9);
}

TEST(Study, MemoryKeysOfAGridReachTheMemoriesThatHaveThem) {
  const Study study = parse(small("[[grid]]\nmemory.feature_map = \"dpfp\"\n\"memory.nu\" = [1, 2]\n"));
  EXPECT_EQ(study.product, "2 memories x 2 nu x 1 seed - 1 duplicate = 3 runs");
  EXPECT_EQ(study.runs[0].d_dot, 128);
  EXPECT_EQ(study.runs[1].d_dot, 256);
  EXPECT_EQ(study.runs[2].label, "softmax");
}

TEST(Study, TaskMayBeAnAxis) {
  const Study study =
      parse(small("[[grid]]\nmemory = \"softmax\"\ntask.name = [\"recall\", \"reassign\"]\n"
                  "task.update_fraction = 0.25\n"));
  ASSERT_EQ(study.runs.size(), 2u);
  EXPECT_FALSE(study.runs[0].config.has("task.update_fraction"));
  EXPECT_EQ(study.runs[1].config.get_double("task.update_fraction"), 0.25);
}

TEST(Study, ReadsFiles) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "read me.toml";
  std::ofstream(path, std::ios::binary) << example_study();
  EXPECT_EQ(read_study_text(path), example_study());
  std::filesystem::remove(path);
}

TEST(RunId, NumbersAreNormalised) {
  Options config;
  config.set("x", -0.0);
  EXPECT_EQ(canonical_text(fixture_schema(), config), "x=0.0\nsemantics=5\n");
  config.set("x", 1.0);
  EXPECT_EQ(canonical_text(fixture_schema(), config), "x=1.0\nsemantics=5\n");
  config.set("x", 1e300);
  EXPECT_EQ(canonical_text(fixture_schema(), config), "x=1e+300\nsemantics=5\n");
  config.set("x", 0.1 + 0.2);
  EXPECT_EQ(canonical_text(fixture_schema(), config), "x=0.30000000000000004\nsemantics=5\n");
  config.set("x", Int{-4});
  config.set("y", true);
  config.set("z", std::string("a\"b\\c\nd"));
  EXPECT_EQ(canonical_text(fixture_schema(), config), "x=-4\ny=true\nz=\"a\\\"b\\\\c\\x0ad\"\nsemantics=5\n");
  EXPECT_EQ(run_id(fixture_schema(), config).size(), 35u);
}

TEST(StudyExpansion, EveryMemoryAddsThoseWithoutATable) {
  const std::string head = "[study]\nname = \"small\"\nevery_memory = true\n";
  const std::string base = "[base]\ntask.name = \"recall\"\n";
  const Study all = parse(head + base + "[memories.mine]\nname = \"delta\"\nbeta_max = 2\n");
  std::set<std::string> labels;
  for (const auto& run : all.runs) labels.insert(run.label);
  std::set<std::string> want = {"mine"};
  for (const SchemaMemory& kind : fixture_schema().memories)
    if (kind.name != "delta") want.insert(kind.name);
  EXPECT_EQ(labels, want);
  EXPECT_EQ(parse(head + base).runs.size(), fixture_schema().memories.size());
  EXPECT_EQ(crosstalk::testing::refusal_of<ConfigError>(
                [&] { parse("[study]\nname = \"small\"\nevery_memory = 3\n" + base); }),
            "x.toml:3:1: every_memory is true or false");
}

}  // namespace
}  // namespace crosstalk
