// Whole searches, small: what decides their course, what stops them, what their file may say, and that noise gives nothing.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "experiments/search/front.h"
#include "experiments/search/shuffled_task.h"
#include "tasks/task.h"

namespace crosstalk::search {
namespace {

namespace fs = std::filesystem;

/// Six associations in eight dimensions, 90 steps.
std::string small(const std::string& head, const std::string& more = "") {
  return "[search]\nname = \"s\"\ngeneration = 6\n" + head +
         "[base]\nmodel.d_key = 8\ntask.associations = 6\ntask.values = 8\ntrain.batch = 8\ntrain.learning_rate = 0.01\n"
         "train.max_steps = 90\ntrain.stop_loss = 0\neval.every = 15\neval.sequences = 16\n"
         "[[task]]\ntask.name = \"recall\"\nweight = 2\n[[task]]\ntask.name = \"reassign\"\n" +
         more;
}
constexpr const char* kSum = "start = [\"S += v k^T; read S q\"]\n";

struct Folder {
  Folder() : path(fs::temp_directory_path() / fmt::format("crosstalk_search_{}_{}", ::getpid(), ++count())) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  static int& count() {
    static int number = 0;
    return number;
  }
  fs::path path;
};

struct Course {
  bool ended = false;
  std::vector<std::string> laws;  ///< with their stages and scores
  std::vector<double> scores;     ///< of laws tried to the end
  std::vector<FreshResult> fresh;
  std::int64_t trained = 0, twice = 0;
};

/// `questions`: after so many of the trainer it is stopped; 0: never.
Course search(const std::string& text, const fs::path& folder, int threads = 1, int questions = 0) {
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
  for (const Candidate& one : search.tried())
    course.laws.push_back(fmt::format("{} {} {} {} {} {} {}", one.number, one.law, one.what,
                                      fmt::join(one.parents, ","), to_text(one.stage), one.third, one.score));
  for (const Candidate& one : search.tried())
    if (one.stage >= Stage::whole) course.scores.push_back(one.score);
  course.trained = trials.trained(), course.twice = trials.twice();
  if (!course.ended) return course;
  const Study study = parse_study(front_study(file, finalists(file, search)), "front.toml");
  if (trials.train(study.name, study.runs, false))
    course.fresh = fresh_results(file, search, study, trials, search.draws().tried);
  return course;
}

TEST(Search, ItsCourseDependsOnTheFileAlone) {
  const std::string text =
      small(fmt::format("{}candidates = 14\nrates = [0.01, 0.003]\nfresh_seeds = 2\nfinalists = 1\n", kSum));
  const Folder alone, crowded, broken;
  const Course whole = search(text, alone.path);
  ASSERT_TRUE(whole.ended);
  EXPECT_EQ(whole.laws.size(), 14u);
  EXPECT_EQ(whole.twice, 0);
  EXPECT_EQ(search(text, crowded.path, 3).laws, whole.laws);
  int stops = 0;
  Course course;
  while (!course.ended && stops < 100) course = search(text, broken.path, 2, 25 + 60 * stops++);
  EXPECT_GT(stops, 2);
  EXPECT_EQ(course.laws, whole.laws);
  EXPECT_EQ(search(text, broken.path).trained, 0) << "all is known";
  EXPECT_NE(search(small("start = \"random\"\nseed = 2\ncandidates = 6\n"), Folder().path).laws,
            search(small("start = \"random\"\nseed = 3\ncandidates = 6\n"), Folder().path).laws);
}

TEST(Search, ItGoesBeyondItsStart) {
  const Folder folder;
  const Course course = search(
      fmt::format(
          "[search]\nname = \"s\"\ngeneration = 6\n{}candidates = 36\nfinalists = 1\nfresh_seeds = 3\n"
          "[base]\nmodel.d_key = 8\ntask.associations = 4\ntask.values = 8\ntrain.batch = 16\ntrain.learning_rate = 0.02\n"
          "train.max_steps = 150\ntrain.stop_loss = 0\neval.every = 25\neval.sequences = 16\n"
          "[[task]]\ntask.name = \"reassign\"\n[memories.sum]\nname = \"rule\"\nlaw = \"S += v k^T; read S q\"\n",
          kSum),
      folder.path);
  ASSERT_EQ(course.fresh.size(), 2u);
  ASSERT_TRUE(course.fresh[0].against);
  EXPECT_LT(*std::ranges::min_element(course.scores), course.scores[0] - 0.1) << "the start law is the first";
  EXPECT_LT(course.fresh[0].score.mean, course.fresh[1].score.mean);
  EXPECT_FALSE(course.fresh[1].against) << "the best of [memories.LABEL] itself";
}

TEST(Search, ShuffledLabelsGiveNothing) {
  for (const int seed : {1, 2, 3}) {
    const Folder folder;
    const Course course =
        search(small(fmt::format(
                   "{}seed = {}\ncandidates = 12\nfinalists = 2\nfresh_seeds = 4\nlabels = \"shuffled\"\n",
                   kSum, seed)),
               folder.path);
    ASSERT_FALSE(course.fresh.empty());
    for (const FreshResult& one : course.fresh)
      EXPECT_LE(one.guessed->mean - one.guessed->half, 0) << one.label << ", seed " << seed;
    EXPECT_FALSE(fs::exists(folder.path / "store" / "shards")) << "no results of nobody's task";
  }
  const Folder folder;
  const Course course =
      search(small(fmt::format("{}candidates = 12\nfinalists = 2\nfresh_seeds = 4\n", kSum)), folder.path);
  EXPECT_GT(course.fresh[0].guessed->mean - course.fresh[0].guessed->half, 0)
      << "true labels are told from chance so";
}

TEST(Search, ShuffledAnswersAreOthers) {
  Options config;
  config.set("task.name", std::string("recall"));
  fill_defaults(config, "task", find_task("recall")->options);
  config.set("task.associations", std::int64_t{32});
  find_task("recall")->resolve(config);
  const auto task = registered_task(config), shuffled = shuffled_task(config);
  const SequenceShape shape = task->shape(Split::eval);
  const auto n = static_cast<std::size_t>(shape.T * shape.C), Q = static_cast<std::size_t>(shape.Q);
  std::vector<std::int32_t> tokens[2], query[2], position[2], target[2];
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(task->scratch_size()));
  for (const int i : {0, 1}) {
    tokens[i].resize(n), query[i].resize(Q), position[i].resize(Q), target[i].resize(Q);
    (i ? shuffled : task)
        ->sequence(7, Split::eval, 3,
                   {shape, tokens[i].data(), nullptr, query[i].data(), position[i].data(), target[i].data(),
                    nullptr},
                   scratch.data());
  }
  EXPECT_EQ(tokens[0], tokens[1]);
  EXPECT_EQ(query[0], query[1]);
  int equal = 0;
  for (std::size_t q = 0; q < Q; ++q) equal += target[0][q] == target[1][q];
  EXPECT_LT(equal, 8) << "of " << Q << ", where guessing gives one";
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
