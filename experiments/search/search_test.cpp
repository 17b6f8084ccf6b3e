// Whole searches, small: what decides their course, what stops them, what their file may say, and that noise gives nothing.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "experiments/search/front.h"
#include "experiments/search/shuffled_task.h"
#include "results/test_records.h"
#include "tasks/sequence_buffer.h"
#include "tasks/testing.h"

namespace crosstalk::search {
namespace {

/// Six associations in eight dimensions, 90 steps.
std::string small(const std::string& head, const std::string& more = "") {
  return "[search]\nname = \"s\"\ngeneration = 6\n" + head +
         "[base]\nmodel.d_key = 8\ntask.associations = 6\ntask.values = 8\ntrain.batch = 8\ntrain.learning_rate = 0.01\n"
         "train.max_steps = 90\ntrain.stop_loss = 0\neval.every = 15\neval.sequences = 16\n"
         "[[task]]\ntask.name = \"recall\"\nweight = 2\n[[task]]\ntask.name = \"reassign\"\n" +
         more;
}
constexpr const char* kSum = "start = [\"S += v k^T; read S q\"]\n";

struct Course {
  bool ended = false;
  std::vector<Candidate> tried;
  std::vector<std::string> laws;  ///< with their stages and scores
  FreshResults fresh;
  std::int64_t trained = 0, twice = 0;
};

/// `questions`: after so many of the trainer it is stopped; 0: never.
Course search(const std::string& text, const std::filesystem::path& folder, int threads = 1,
              int questions = 0) {
  const SearchFile file = read_search(default_schema(), text, "s.toml");
  Journal journal(folder / "candidates.jsonl");
  Trials::Settings settings;
  settings.store = folder / "store";
  settings.training.threads = threads;
  if (file.shuffled) settings.training.make_task = shuffled_task;
  settings.keeps_records = !file.shuffled;
  std::atomic<int> asked{0};
  settings.stopped = [&] { return questions > 0 && ++asked > questions; };
  Trials trials(settings, journal);
  Search search(default_schema(), file, trials, journal, [](const std::string&) {});
  Course course;
  course.ended = search.run();
  course.tried = search.tried();
  for (const Candidate& one : course.tried)
    course.laws.push_back(fmt::format("{} {} {} {} {} {} {}", one.number, one.law, one.what,
                                      fmt::join(one.parents, ","), to_text(one.stage), one.third, one.score));
  course.trained = trials.trained(), course.twice = trials.twice();
  if (!course.ended) return course;
  const Study study = parse_study(front_study(file, finalists(file, search)), "front.toml");
  if (trials.train(study.name, study.runs, false)) course.fresh = fresh_results(file, search, study, trials);
  return course;
}

TEST(Search, ItsCourseDependsOnTheFileAlone) {
  const std::string text =
      small(fmt::format("{}candidates = 14\nrates = [0.01, 0.003]\nfresh_seeds = 2\nfinalists = 1\n", kSum));
  const testing::TemporaryFolder alone, crowded, broken;
  const Course whole = search(text, alone.path());
  ASSERT_TRUE(whole.ended);
  EXPECT_EQ(whole.laws.size(), 14u);
  EXPECT_EQ(whole.twice, 0);
  EXPECT_EQ(search(text, crowded.path(), 3).laws, whole.laws);
  int stops = 0;
  Course course;
  while (!course.ended && stops < 100) course = search(text, broken.path(), 2, 25 + 60 * stops++);
  EXPECT_GT(stops, 2);
  EXPECT_EQ(course.laws, whole.laws);
  EXPECT_EQ(search(text, broken.path()).trained, 0) << "all is known";
  EXPECT_NE(
      search(small("start = \"random\"\nseed = 2\ncandidates = 6\n"), testing::TemporaryFolder().path()).laws,
      search(small("start = \"random\"\nseed = 3\ncandidates = 6\n"), testing::TemporaryFolder().path())
          .laws);
}

/// As many keys as dimensions, written again and again: of all laws that are tried, the one that replaces what a key had solves it.
// Eight keys are written again and again: a law must take out what the key held. The search begins at one that takes out its direction
// alone. Rounding differs between processors and leads to another relative of the delta rule, or to itself, never to less.
TEST(Search, ItFindsTheLawThatIsPlanted) {
  const testing::TemporaryFolder folder;
  const Course course = search(
      "[search]\nname = \"s\"\nseed = 2\ngeneration = 12\npopulation = 12\nstart = [\"S += (v - unit(S k)) k^T; read S q\"]\n"
      "candidates = 60\ngates = 1\nnodes = 7\noperations = 450\nfinalists = 1\nfresh_seeds = 3\n"
      "[base]\nmodel.d_key = 8\ntask.associations = 8\ntask.values = 8\ntrain.batch = 16\ntrain.learning_rate = 0.02\n"
      "train.max_steps = 150\ntrain.stop_loss = 0\neval.every = 25\neval.sequences = 16\n"
      "[[task]]\ntask.name = \"reassign\"\n[[fresh]]\ntask.name = \"reassign\"\ntask.associations = 6\n"
      "[memories.start]\nname = \"rule\"\nlaw = \"S += (v - unit(S k)) k^T; read S q\"\n"
      "[memories.planted]\nname = \"rule\"\nlaw = \"S += (v - S k) k^T; read S q\"\n",
      folder.path());
  const Candidate best = course.tried[front(course.tried)[0]];
  EXPECT_THAT(best.law, ::testing::HasSubstr("- S k"));
  ASSERT_EQ(course.fresh.memories.size(), 3u);
  const double found = course.fresh.memories[0].score.mean, start = course.fresh.memories[1].score.mean,
               planted = course.fresh.memories[2].score.mean;
  EXPECT_LT(found, start - 1) << best.law;
  EXPECT_LT(found, planted + 1) << best.law;
  EXPECT_TRUE(course.fresh.memories[0].against);
  EXPECT_FALSE(course.fresh.memories[2].against) << "the best of [memories.LABEL] itself";
  EXPECT_EQ(course.fresh.tasks,
            (std::vector<std::string>{"reassign associations=8", "reassign associations=6 (fresh)"}));
}

TEST(Search, ShuffledLabelsGiveNothing) {
  const std::string budget = fmt::format("{}candidates = 12\nfinalists = 2\nfresh_seeds = 4\n", kSum);
  const auto above_chance = [&](const std::string& more) {
    const testing::TemporaryFolder folder;
    const Course course = search(small(budget + more), folder.path());
    EXPECT_EQ(std::filesystem::exists(folder.path() / "store" / "shards"), more.empty())
        << "results of nobody's task";
    EXPECT_FALSE(course.fresh.memories.empty());
    return std::ranges::count_if(course.fresh.memories, [](const FreshResult& one) {
      return one.guessed->mean - one.guessed->half > 0;
    });
  };
  for (int seed = 1; seed <= 10; ++seed)
    EXPECT_EQ(above_chance(fmt::format("seed = {}\nlabels = \"shuffled\"\n", seed)), 0) << "seed " << seed;
  EXPECT_GT(above_chance(""), 0) << "true labels are told from chance so";
}

TEST(Search, ShuffledAnswersAreOthers) {
  Options config =
      crosstalk::testing::resolved_options(*find_task("recall"), {{"associations", std::int64_t{32}}});
  config.set("task.name", std::string("recall"));
  const auto task = registered_task(config), shuffled = shuffled_task(config);
  SequenceBuffer a(*task, Split::eval), b(*shuffled, Split::eval);
  const SequenceView right = a.draw(7, 3), wrong = b.draw(7, 3);
  const std::vector<std::int32_t> tokens(right.tokens, right.tokens + right.shape.T * right.shape.C);
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), wrong.tokens));
  EXPECT_TRUE(std::equal(right.query, right.query + right.shape.Q, wrong.query));
  int equal = 0;
  for (int q = 0; q < right.shape.Q; ++q) equal += right.target[q] == wrong.target[q];
  EXPECT_LT(equal, 8) << "of " << right.shape.Q << ", where guessing gives one";
}

std::string refusal(const std::string& text) {
  try {
    read_search(default_schema(), text, "s.toml");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "read";
}

TEST(SearchFile, WhatIsWrongIsSaidAtItsPlace) {
  const auto says = [](const std::string& text, const std::string& what) {
    EXPECT_NE(refusal(text).find(what), std::string::npos) << refusal(text);
  };
  EXPECT_EQ(refusal(small(fmt::format("{}minutes = 1\n", kSum))), "read");
  says("", "s.toml:1:1: the file is empty");
  says("[base]\ntask.name = \"recall\"\n", "the table [search] is missing");
  says(small("minutes = 1\n"), "s.toml:1:2: [search] has no start");
  says(small(kSum), "s.toml:1:2: [search] has no budget");
  says(small("start = [\"S += v k; read S q\"]\nminutes = 1\n"), "s.toml:4:");
  says(small(fmt::format("{}minute = 1\n", kSum)),
       "s.toml:5:1: unknown key minute in [search]; did you mean minutes?");
  says(small(fmt::format("{}minutes = 1\nfloats = 63\n", kSum)),
       "s.toml:4:10: S = S + v k^T; read S q: this start law is beyond");
  says(small(fmt::format("{}minutes = \"a\"\n", kSum)), "s.toml:5:11:");
  says(small(fmt::format("{}minutes = 1\n", kSum), "task.bach = 3\n"), "unknown key task.bach");
  says(small(fmt::format("{}minutes = 1\n", kSum), "[grid]\na = 1\n"), "unknown table grid");
  says(small(fmt::format("{}minutes = 1\n", kSum), "[[fresh]]\ntask.name = \"recal\"\n"), "s.toml:");
  says(fmt::format("[search]\nname = \"s\"\nminutes = 1\n{}[base]\nmodel.d_key = 8\n", kSum),
       "no task to search on");
  says(small("start = [\"S = 4 S + v k^T; read S q\"]\nminutes = 1\n"), "this start law would not train");
  says(small("start = \"random\"\nminutes = 1\nfloats = 63\n"),
       "s.toml:1:2: no law keeps to the limits of [search]");
  says(small("start = [\"S = c S + v k^T; read S q\"]\nminutes = 1\n"), "s.toml:4:10: ");
}

TEST(SearchFile, TheFrontIsAStudyOfFreshSeeds) {
  const SearchFile file = read_search(
      default_schema(),
      small(
          fmt::format("{}minutes = 1\nseeds = [4, 7]\nrates = [0.01, 0.02]\nfresh_seeds = 3\n", kSum),
          "[[fresh]]\ntask.name = \"recall\"\ntask.associations = [7, 8]\n[memories.delta]\nname = \"delta\"\nkey_norm = \"l2\"\n"),
      "s.toml");
  EXPECT_EQ(file.weights, (std::vector<double>{2, 1}));
  EXPECT_EQ(file.limits.K, 8);
  EXPECT_EQ(file.limits.V, 8);
  const Study study =
      parse_study(front_study(file, {{"law3", "S += (v - S k) k^T; read S q"}}), "front.toml");
  EXPECT_EQ(study.name, "s_front");
  EXPECT_EQ(study.runs.size(), 2u * 4 * 2 * 3);  // memories, settings, rates, seeds
  for (const crosstalk::Run& run : study.runs) EXPECT_GT(run.seed, 1000);
  EXPECT_EQ(runs_of(default_schema(), file, 0, {{"a", "S += v k^T; read S q"}}, 2, 2).size(), 4u);
}

}  // namespace
}  // namespace crosstalk::search
