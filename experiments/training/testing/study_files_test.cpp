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
#include "kernels/base/text/digest.h"
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

// Results lie in people's stores under these names, and published tables were made of these runs: a digest of the ids of each study's,
// which hold every option of every run. If this fails, a study, a default or a name was changed: enter the old default as the neutral
// value (run_id.cpp), or bump kSemantics if the numbers do change.
TEST(StudyFiles, RunsArePinned) {
  const std::map<std::string, std::string> pinned = {
      {"schlag2021_capacity", "2413bb6ba4902c373c17b4d7fbba8789"},
      {"schlag2021_updates", "ef5e6405df18ef0f4fee76203c3e95f2"},
      {"ddot_sweep", "ac9b99efd41cd020b60d99dcaf9841dd"},
      {"delta_normalisation", "1db36645227523d736761c566ed8a2bc"},
      {"swap_tracking", "690f95f9ee50d26579c20cae0c3b4225"},
      {"beyond_length", "d341e57e227430cb5f0f466ff1bdc05d"},
      {"mad", "e09113d0c16c879078d9f9a857db3c26"},
      {"mad_grids", "b6bfbd582839a7ffec243134d98e71f5"},
      {"cdar", "302dbdf48efb96b2c2cdf90f51df03c2"},
      {"formal_languages", "9c062794929b71038e0fab03d7fd5748"},
      {"regression", "aff4c29543bb2521e56de6d5ca4f1042"},
      {"deltaformer2025_table1_beta", "e9042143b9b31bb28dcf61bd5005267e"},
      {"deltaformer2025_frozen_keys", "2b6828b90eba64c97b6bbf8cd949890f"},
      {"zoology2023_fig2", "e037744d4dafa114de8e55b9838d0d7a"},
      {"based2024_fig2_published", "1b632d69177a1c6e6a45dad9bfd84b3b"}};
  for (const auto& [name, digest] : pinned) {
    std::string ids;
    for (const auto& run : read(name).runs) ids += run.id + " " + run.label + "\n";
    EXPECT_EQ(digest_text(XXH3_128bits(ids.data(), ids.size())), digest) << name;
  }
  EXPECT_THROW(read("mad", {"model.decoder=none"}), ConfigError);
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
