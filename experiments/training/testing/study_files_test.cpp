// The study files of this folder, against the registries.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "experiments/study/study.h"
#include "models/memory.h"
#include "results/numbers/select.h"
#include "results/replay/import.h"
#include "results/replay/published.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(CROSSTALK_SOURCE_DIR) / "experiments";

Study read(const std::string& name, const std::vector<std::string>& sets = {}) {
  StudyOptions options;
  options.set = sets;
  return read_study(kFolder / (name + ".toml"), options);
}

const std::vector<std::string> kExampleText = [] {
  static const testing::ExampleFolder folder;  // 800 windows of 256, as evaluation reads
  std::string text;
  while (text.size() < 801 * 257) text += "In the beginning was the word. ";
  for (const char* name : {"train", "eval", "test"})
    std::ofstream(folder.path() + "/" + name + ".txt") << text;
  return std::vector<std::string>{"task.folder=" + folder.path()};
}();

/// d_dot by label (0 = none); -1 where it differs between runs.
std::map<std::string, std::int64_t> d_dots(const Study& study) {
  std::map<std::string, std::int64_t> all;
  for (const auto& run : study.runs) {
    const auto [it, added] = all.emplace(run.label, run.d_dot);
    if (!added && it->second != run.d_dot) it->second = -1;
  }
  return all;
}

using DDots = std::map<std::string, std::int64_t>;

TEST(StudyFiles, AllAreReadAndNamedLikeTheirFile) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    const std::string name = entry.path().stem();
    const bool of_user = name == "schlag2021_wikitext" || name == "text_kjv";  // whose text it is
    const Study study = read(name, of_user ? kExampleText : std::vector<std::string>());
    EXPECT_EQ(study.name, entry.path().stem().string());
    EXPECT_FALSE(study.title.empty());
    for (const auto& run : study.runs) {
      EXPECT_EQ(run.id, run_id(run.config));
      EXPECT_GT(run.state_size, 0) << run.label;
    }
  }
  EXPECT_GE(files, 7);
}

TEST(StudyFiles, Quickstart) {
  const Study study = read("quickstart");
  EXPECT_EQ(d_dots(study), (DDots{{"softmax", 0}, {"linear", 16}, {"dpfp1", 32}, {"dpfp2", 64}}));
  std::set<std::int64_t> seeds;
  std::map<std::string, std::set<std::int64_t>> loads;
  for (const auto& run : study.runs) {
    seeds.insert(run.seed);
    loads[run.label].insert(run.config.get_int("task.associations"));
  }
  EXPECT_GE(seeds.size(), 3u);
  for (const auto& [label, d_dot] : d_dots(study)) {  // the figure must show each memory break down
    if (d_dot == 0) continue;
    EXPECT_LT(*loads[label].begin(), d_dot);
    EXPECT_GT(*loads[label].rbegin(), d_dot);
  }
}

TEST(StudyFiles, SchlagCapacity) {
  const Study study = read("schlag2021_capacity");
  EXPECT_EQ(study.product, "8 memories x 30 associations x 1 seed = 240 runs");
  EXPECT_EQ(d_dots(study), (DDots{{"softmax", 0},
                                  {"linear", 64},
                                  {"dpfp1", 128},
                                  {"dpfp2", 256},
                                  {"dpfp3", 384},
                                  {"favor64", 128},
                                  {"favor128", 256},
                                  {"favor512", 1024}}));
  const Options& last = study.runs.back().config;
  EXPECT_EQ(last.get_int("task.associations"), 600);
  EXPECT_EQ(last.get_int("task.keys"), 600);
  EXPECT_EQ(last.get_int("model.embedding"), 1320);
  EXPECT_EQ(last.get_string("eval.protocol"), "schlag2021");
}

TEST(StudyFiles, SchlagUpdates) {
  const Study study = read("schlag2021_updates");
  EXPECT_EQ(study.product, "8 memories x 10 associations x 1 seed = 80 runs");
  for (const auto& run : study.runs) {
    const bool tanh = run.label == "tanh_fwm";
    EXPECT_EQ(run.config.get_double("train.learning_rate"), tanh ? 1e-4 : 1e-3);
    EXPECT_EQ(run.config.get_int("train.batch"), tanh ? 128 : 32);
    const std::int64_t load = run.config.get_int("task.associations");
    EXPECT_EQ(run.config.get_int("task.length"), 2 * load);
    EXPECT_EQ(run.config.get_int("task.eval_length"), load);
  }
}

TEST(StudyFiles, DDotSweep) {
  const Study study = read("ddot_sweep");
  EXPECT_EQ(study.runs.size(), 460u);
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> pairs;
  for (const auto& run : study.runs) {
    const std::int64_t load = run.config.get_int("task.associations");
    EXPECT_GE(2 * load, run.d_dot);
    EXPECT_LE(load, 2 * run.d_dot);
    pairs[{run.config.get_int("model.d_key"), run.label}] = run.d_dot;
  }
  ASSERT_EQ(pairs.size(), 16u);  // d_key {8, 16, 32, 64} x {linear, dpfp1, dpfp2, dpfp3}
  EXPECT_EQ((pairs[{8, "linear"}]), 8);
  EXPECT_EQ((pairs[{64, "dpfp3"}]), 384);
  EXPECT_EQ(read("ddot_sweep", {"memory=dpfp3", "seeds=1"}).runs.size(), 6u * 3 + 4);
}

TEST(StudyFiles, DeltaNormalisation) {
  const Study study = read("delta_normalisation");
  EXPECT_EQ(study.product, "5 memories x 5 associations x 3 seeds = 75 runs");
  std::set<std::string> seen;
  for (const auto& run : study.runs) {
    EXPECT_EQ(run.d_dot, 128);
    seen.insert(run.config.get_string("memory.name") + " " + run.config.get_string("memory.key_norm") + " " +
                run.config.get_string("memory.read_norm"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"delta none none", "delta sum none", "delta none attention",
                                         "delta sum attention", "peng_gate none attention"}));
}

TEST(StudyFiles, SwapTrackingAndBeyondLength) {
  const Study swap = read("swap_tracking");
  EXPECT_EQ(swap.product, "3 memories x 3 seeds = 9 runs");
  EXPECT_EQ(swap.runs[0].config.get_int("task.associations"), 5);
  EXPECT_EQ(swap.runs[0].config.get_string("eval.length_factors"), "1 2 4");
  const Study beyond = read("beyond_length");
  EXPECT_EQ(beyond.product, "4 memories x 3 seeds = 12 runs");
  for (const auto& run : beyond.runs) {
    EXPECT_EQ(run.config.get_int("task.eval_length"), run.config.get_int("task.length"));
  }
}

TEST(StudyFiles, MadHasItsSixTasks) {
  const Study study = read("mad", {"seeds=1"});
  std::map<std::string, int> runs;
  for (const auto& run : study.runs) {
    const Options& config = run.config;
    const std::string& task = config.get_string("task.name");
    ++runs[task + (task == "mad_recall" ? " " + std::to_string(config.get_int("task.vocabulary")) + " " +
                                              std::to_string(config.get_int("task.motif"))
                                        : "")];
    EXPECT_EQ(config.get_string("model.decoder"), task == "compression" ? "last" : "none");
  }
  // 6 memories, 3 rates, 2 decays.
  EXPECT_EQ(runs, (std::map<std::string, int>{{"compression", 36},
                                              {"mad_recall 16 1", 36},
                                              {"mad_recall 16 3", 36},
                                              {"mad_recall 32 1", 36},
                                              {"memorise", 36},
                                              {"selective_copy", 36}}));
  EXPECT_THROW(read("mad", {"model.decoder=none"}), ConfigError);
}

// What mad-lab's configs/tasks change, one at a time; runs at baseline settings are those of mad.toml.
TEST(StudyFiles, MadGridsAreThoseOfItsTasks) {
  std::map<std::string, std::set<std::string>> settings;
  std::set<std::string> ids;
  for (const auto& run : read("mad_grids", {"seeds=1", "memory=deltanet"}).runs) {
    const Options& config = run.config;
    const std::string task = config.get_string("task.name");
    std::string text;
    for (const auto& [key, value] : config.values())
      if (key.starts_with("task.")) text += key + "=" + to_text(value) + " ";
    const bool fuzzy = task == "mad_recall" && config.get_int("task.motif") == 3,
               noisy = task == "mad_recall" && config.get_double("task.noise") > 0;
    settings[fuzzy ? "fuzzy" : noisy ? "noisy" : task].insert(text);
    ids.insert(run.id);
    const std::int64_t batches = (config.get_int("task.examples") + 127) / 128;
    EXPECT_EQ(config.get_int("train.max_steps"), 200 * batches) << text;
  }
  std::map<std::string, std::size_t> counts;
  for (const auto& [task, of_task] : settings) counts[task] = of_task.size();
  EXPECT_EQ(counts, (std::map<std::string, std::size_t>{{"compression", 11},
                                                        {"fuzzy", 11},
                                                        {"mad_recall", 11},
                                                        {"memorise", 6},
                                                        {"noisy", 14},
                                                        {"selective_copy", 13}}));
  EXPECT_EQ(ids.size(), 66u * 6);
  for (const auto& run : read("mad", {"seeds=1", "memory=deltanet"}).runs) EXPECT_EQ(ids.count(run.id), 1u);
}

TEST(StudyFiles, ContextsAndFormalLanguages) {
  std::map<std::string, std::set<std::string>> seen;
  for (const auto& run : read("cdar").runs) {
    seen[run.config.get_string("task.query_by")].insert(run.label);
    EXPECT_EQ(run.config.get_string("task.keys"), "shared");
  }
  EXPECT_EQ(seen["zone"], seen["pair"]);
  EXPECT_EQ(seen["zone"].size(), 5u);
  std::map<std::string, std::set<std::string>> languages;
  for (const auto& run : read("formal_languages").runs) {
    const std::string& task = run.config.get_string("task.name");
    languages[task == "arithmetic" ? run.config.get_string("task.form") : task].insert(run.label);
    EXPECT_EQ(run.config.get_string("model.layer"), "published");
    if (run.label == "deltanet2") {
      EXPECT_EQ(run.config.get_double("memory.beta_max"), 2);
    }
    if (run.label.starts_with("mamba") && run.label != "mamba2") {
      EXPECT_EQ(run.config.get_string("memory.eigenvalues"), run.label == "mamba" ? "positive" : "either");
    }
  }
  EXPECT_EQ(languages["parity"].size(), 7u);
  EXPECT_EQ(languages["parity"], languages["flat"]);
  EXPECT_EQ(languages["parity"], languages["brackets"]);
  EXPECT_EQ(languages["stacks"], (std::set<std::string>{"gated_delta", "kda", "mamba2"}));
  EXPECT_EQ(languages["stacks"], languages["palindrome"]);
}

// Least squares stands in for the optimum; and the studies of DeltaFormer say which beta they have.
TEST(StudyFiles, RegressionAndBetaOfDeltaFormer) {
  const Study regression = read("regression");
  EXPECT_EQ(
      regression.product,
      "(1 memory x 3 pairs x 2 learning_rate x 3 seeds) + (5 memories x 7 pairs x 2 learning_rate x 3 seeds) = 228 runs");
  for (const auto& run : regression.runs) EXPECT_EQ(run.config.get_string("task.name"), "regression");
  std::map<std::string, std::set<std::string>> betas;
  for (const auto& run : read("deltaformer2025_table1_beta").runs)
    betas[run.config.get_string("model.stack")].insert(run.config.get_string("memory.beta"));
  EXPECT_EQ(betas.size(), 2u);
  for (const auto& [stack, of] : betas) EXPECT_EQ(of, (std::set<std::string>{"learned", "one"})) << stack;
  for (const auto& run : read("deltaformer2025_frozen_keys").runs) {
    EXPECT_EQ(run.config.get_string("model.key_codes"), "frozen");
    if (run.config.get_string("memory.name") == "deltaformer") {
      EXPECT_EQ(run.config.get_string("memory.beta"), "one");
    }
  }
}

// Parts of the model make other runs; what they look back to is state.
TEST(StudyFiles, PartsOfTheModel) {
  const Study plain = read("quickstart"),
              conv = read("quickstart", {"model.short_conv=k", "model.out_norm=rms"});
  ASSERT_EQ(plain.runs.size(), conv.runs.size());
  for (std::size_t i = 0; i < plain.runs.size(); ++i) {
    EXPECT_NE(conv.runs[i].id, plain.runs[i].id);
    EXPECT_EQ(conv.runs[i].state_size - plain.runs[i].state_size,
              3 * plain.runs[i].config.get_int("model.d_key"));
  }
  EXPECT_THROW(read("quickstart", {"model.short_conv=q"}), ConfigError);
}

// Results lie in people's stores under these names. If this fails, a default or a name was changed: enter the
// old default as the neutral value (run_id.cpp), or bump kSemantics if the numbers do change.
TEST(StudyFiles, PinnedIds) {
  EXPECT_EQ(read("schlag2021_capacity", {"memory=dpfp1", "task.associations=100"}).runs[0].id,
            "ct-59ef57ac324e1b559f8589e6d77d4023");
  EXPECT_EQ(read("schlag2021_updates", {"memory=tanh_fwm", "task.associations=40"}).runs[0].id,
            "ct-0c99d3f4ee51570afa2741497a93790d");
}

// The seven mixers of Zoology's figure under the labels of its published points, each at all widths, lengths and rates.
TEST(StudyFiles, ZoologysFigureHasItsSevenMixers) {
  std::map<std::string, std::set<std::vector<std::int64_t>>> points;
  std::map<std::string, std::set<double>> rates;
  for (const auto& run : read("zoology2023_fig2").runs) {
    points[run.label].insert({run.config.get_int("model.width"), run.config.get_int("task.length")});
    rates[run.label].insert(run.config.get_double("train.learning_rate"));
    EXPECT_EQ(run.config.get_string("model.layer"), "published");
    for (const char* key : {"memory.length", "model.max_length"})
      if (run.config.has(key) && run.config.get_int(key) > 0 && run.label != "attention") {
        EXPECT_EQ(run.config.get_int(key), run.config.get_int("task.length")) << run.label;
      }
  }
  for (const char* mixer : {"attention", "rwkv4", "based", "mamba", "hyena", "h3", "base_conv", "deltanet"}) {
    EXPECT_EQ(points[mixer].size(), 16u) << mixer;
    EXPECT_EQ(rates[mixer].size(), 4u) << mixer;
  }
  EXPECT_EQ(points.size(), 8u);
}

/// Floats that a memory's convolutions and shifts look back to, in one layer.
std::int64_t looked_back(const Options& config) {
  const std::string& convolved = config.get_string("model.short_conv");
  std::int64_t channels = 0;
  if (convolved != "none") {
    const std::int64_t groups = config.get_int("model.key_groups"), heads = config.get_int("model.heads"),
                       keys = config.get_int("model.d_key") * (groups > 0 ? groups : heads) / heads;
    for (const char what : convolved) channels += what == 'v' ? config.get_int("model.d_value") : keys;
  }
  const bool shifted = config.get_string("model.input_shift") != "none";
  return channels * (config.get_int("model.short_conv_width") - 1) +
         (shifted ? config.get_int("model.width") : 0);
}

// Bytes of state are those over which Zoology draws the standard mixture, which leaves out what convolutions and shifts of a
// memory look back to.
TEST(StudyFiles, StatesOfTheStandardMixtureAreZoologys) {
  const auto points =
      read_published(kFolder / ".." / "results" / "published" / "literature" / "based2024_fig2.csv");
  std::set<std::string> compared;
  for (const auto& run : read("based2024_fig2_published", {"seeds=1", "train.learning_rate=1e-2"}).runs) {
    const Options& config = run.config;
    const auto is = [&](const PublishedPoint& point, const std::string& key) {
      const auto known = point.known.find(key);
      return known == point.known.end() || !config.has(key) ||
             known->second == fmt::format("{}", config.get_int(key));
    };
    const std::int64_t layers = config.get_string("model.stack") == "memory" ? 2 : 1;
    for (const PublishedPoint& point : points) {
      const auto bytes = point.metrics.find("state_bytes");
      if (point.label != run.label || bytes == point.metrics.end() || !is(point, "model.width") ||
          !is(point, "model.d_key") || !is(point, "memory.window"))
        continue;
      const auto ours = static_cast<double>(4 * (run.state_size - layers * looked_back(config)));
      EXPECT_NEAR(ours, bytes->second, 5e-4 * bytes->second)  // some are read off the plot
          << run.label << " of width " << config.get_int("model.width");
      compared.insert(fmt::format("{} {}", run.label, bytes->second));
    }
  }
  EXPECT_EQ(compared.size(), 28u);
}

// What Zoology puts around mixers: blocks of Mamba have no dropout and end in a LayerNorm; only outputs called out_proj are scaled.
TEST(StudyFiles, BlocksOfTheStandardMixtureAreZoologys) {
  for (const auto& run : read("based2024_fig2_published", {"seeds=1", "train.learning_rate=1e-2"}).runs) {
    const bool mamba = run.label == "mamba" || run.label == "mamba2";
    const bool scaled = mamba || run.label == "attention" || run.label == "sliding_window";
    EXPECT_EQ(run.config.get_double("model.embed_dropout"), mamba ? 0 : 0.1) << run.label;
    EXPECT_EQ(run.config.get_string("model.last_norm"), mamba ? "layer" : "same") << run.label;
    if (run.label != "rwkv7") {
      EXPECT_EQ(run.config.get_string("model.out_deviation"), scaled ? "scaled" : "plain") << run.label;
    }
  }
}

/// Tells whether a run has what an exported row says of model and memory, and all else at its default: what came since. Some rows were
/// trained before eps and outputs were those of the layers, which the study's header says.
bool is_of(const crosstalk::Run& run, const Record& row) {
  const Memory& kind = memory_named(run.config.get_string("memory.name"));
  if (kind.name != config_text(row, "memory.name")) return false;
  for (const auto& [prefix, specs] : {std::pair{"model.", &model_options()}, {"memory.", &kind.options}})
    for (const OptionSpec& spec : *specs) {
      if (spec.name == "out_norm_eps" || spec.name == "out_deviation") continue;
      const OptionValue& value = run.config.at(prefix + spec.name);
      const auto text = config_text(row, prefix + spec.name);
      const auto* word = std::get_if<std::string>(&value);
      if (!text ? value != spec.default_value : !same_text(*text, word ? *word : to_text(value)))
        return false;
    }
  return true;
}

// What a published layer means may change; rows that stand in results/published stay those of their study, which says what they had.
TEST(StudyFiles, ExportedRowsOfPublishedLayersAreStillRunsOfTheirStudy) {
  for (const auto& [study, name] : {std::pair{"based2024_fig2_published", "based2024_fig2_published"},
                                    {"based2024_fig2_published", "based2024_rates"},
                                    {"mad", "mad"},
                                    {"mad", "mad_class"},
                                    {"mamba2023_induction", "mamba2023_induction"},
                                    {"loglinear2025_table6", "loglinear2025_table6"}}) {
    const auto runs = read(study, {"seeds=1"}).runs;
    const LabelledRecords rows =
        read_export(kFolder / ".." / "results" / "published" / (std::string(name) + ".csv"));
    EXPECT_FALSE(rows.rows.empty()) << name;
    for (const auto& [key, row] : rows.rows)
      EXPECT_TRUE(std::any_of(runs.begin(), runs.end(), [&](const auto& run) { return is_of(run, row); }))
          << name << ": " << row.id;
  }
}

// Every study says how long it takes, or took, and those of language models which layer they compare.
TEST(StudyFiles, HeadersSayHowLongAStudyTakes) {
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream file(entry.path());
    std::string head, all;
    bool opening = true;
    for (std::string line; std::getline(file, line); all += line + "\n") {
      opening = opening && line.starts_with("#");
      if (opening) head += line + "\n";
    }
    if (all.find("\"language\"") != all.npos) {
      EXPECT_TRUE(std::regex_search(all, std::regex("model.layer\"? *=")))
          << entry.path().filename() << " leaves the layer open";
    }
    EXPECT_TRUE(
        std::regex_search(head, std::regex("[Tt]ime: |[0-9a-z] (seconds|minutes?|hours?|s|h) (of|on|with) ")))
        << entry.path().filename() << " does not say how long it takes";
  }
}

// Every memory that has a layer of its authors, at five learning rates or more on each task.
TEST(StudyFiles, AllMemoriesPublishedHasEveryLayerOfAuthors) {
  std::set<std::string> want;
  for (const Memory& kind : all_memories())
    if (kind.published) want.insert(kind.name);
  std::map<std::string, std::map<std::string, std::set<double>>> rates;
  for (const auto& run : read("all_memories_published").runs)
    rates[run.config.get_string("memory.name")][run.config.get_string("task.name")].insert(
        run.config.get_double("train.learning_rate"));
  std::set<std::string> got;
  for (const auto& [name, tasks] : rates) {
    got.insert(name);
    EXPECT_EQ(tasks.size(), 3u) << name;
    for (const auto& [task, tried] : tasks) EXPECT_GE(tried.size(), 5u) << name << " on " << task;
  }
  EXPECT_EQ(got, want);
  std::set<std::string> text;
  for (const auto& run : read("text_kjv", kExampleText).runs)
    text.insert(run.config.get_string("memory.name"));
  EXPECT_EQ(text, want);
}

}  // namespace
}  // namespace crosstalk
