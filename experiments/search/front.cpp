// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/front.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/rules/latex.h"
#include "tasks/task.h"

namespace crosstalk::search {
namespace {

const Candidate& candidate(const Search& search, int number) {
  return *std::ranges::find(search.tried(), number, &Candidate::number);
}

std::string spelt(const Price& price) {
  return fmt::format("{:.0f} operations a token, {} floats of state, {}", price.operations, price.floats,
                     price.engines ? "calls of the engines" : "token after token");
}

/// From a start law or a random one to this one, by first parents: what changed, and what it came to.
std::string descent(const Search& search, const Candidate& last) {
  std::vector<const Candidate*> line = {&last};
  while (!line.back()->parents.empty()) line.push_back(&candidate(search, line.back()->parents[0]));
  std::string text;
  for (auto one = line.rbegin(); one != line.rend(); ++one) {
    const bool whole = (*one)->stage >= Stage::whole;
    text += fmt::format("- law{}, {:.2f}{}: {}{}: `{}`\n", (*one)->number,
                        whole ? (*one)->score : (*one)->third, whole ? "" : " after a third", (*one)->what,
                        (*one)->parents.size() > 1 ? fmt::format(" (law{})", (*one)->parents[1]) : "",
                        (*one)->law);
  }
  return text;
}

/// Shuffled answers are any values, those of other sequences.
double chance_of(const Run& run, bool shuffled) {
  const auto task = registered_task(run.config);
  if (shuffled) return 1.0 / task->vocabulary().values;
  const auto baselines = task->baselines();
  const auto found = baselines.find("chance_accuracy");
  return found == baselines.end() ? 0 : found->second;
}

/// Means over settings, a value a seed.
using BySeed = std::map<std::int64_t, std::vector<double>>;
std::vector<double> means(const BySeed& by_seed) {
  std::vector<double> all;
  for (const auto& [seed, values] : by_seed) all.push_back(interval(values, 0.95).mean);
  return all;
}

/// True if a key of this name stands in the node, at any depth.
bool has_key(const TomlNode& node, std::string_view key) {
  return std::ranges::any_of(node.items, [&](const TomlNode& item) { return has_key(item, key); }) ||
         std::ranges::any_of(node.entries, [&](const TomlEntry& entry) {
           return entry.key == key || has_key(entry.node, key);
         });
}

/// Settings of tasks, and what they are called: the task, and what the file says otherwise of it elsewhere.
std::vector<std::pair<std::string, std::string>> tasks_of(const SearchFile& file,
                                                          const std::vector<Run>& runs) {
  std::map<std::string, const Run*> settings;
  std::vector<std::pair<std::string, std::string>> out;
  std::map<std::pair<std::string, std::string>, std::set<OptionValue>> values;  // by task and key
  for (const Run& run : runs) {
    if (!settings.emplace(task_setting(run), &run).second) continue;
    out.emplace_back(task_setting(run), run.config.get_string("task.name"));
    for (const auto& [key, value] : run.config.values()) values[{out.back().second, key}].insert(value);
  }
  for (auto& [setting, name] : out) {
    std::string more;
    for (const auto& [key, value] : settings.at(setting)->config.values())
      if (const std::string word = key.substr(key.find('.') + 1);
          key.starts_with("task.") && values[{name, key}].size() > 1 &&
          has_key(file.root, word))  // others follow from it
        more += fmt::format(" {}={}", word, crosstalk::to_text(value));
    name += more + (file.settings.count(setting) != 0 ? "" : " (fresh)");
  }
  return out;
}

}  // namespace

std::vector<LabelledLaw> finalists(const SearchFile& file, const Search& search) {
  std::vector<LabelledLaw> laws;
  for (const std::size_t place : front(search.tried()))
    if (laws.size() < static_cast<std::size_t>(file.finalists))
      laws.push_back({search.tried()[place].label(), search.tried()[place].law});
  return laws;
}

FreshResults fresh_results(const SearchFile& file, const Search& search, const Study& study,
                           const Trials& trials) {
  const double confidence = 1 - 0.05 / static_cast<double>(std::max<std::size_t>(1, search.tried().size()));
  const auto tasks = tasks_of(file, study.runs);
  std::map<std::string, double> chances;  // by setting: seeds and laws share them
  /// By label, rate, and what: "validation", "score", "guessed", or a setting, of which it is the score.
  std::map<std::string, std::map<double, std::map<std::string, BySeed>>> all;
  for (const Run& run : study.runs) {
    const Outcome& outcome = trials.of(run, false);
    const std::string setting = task_setting(run);
    const auto [chance, added] = chances.emplace(setting, 0);
    if (added) chance->second = chance_of(run, file.shuffled);
    const double score =
        search.score(run, std::isfinite(outcome.test_loss) ? outcome.test_loss : outcome.loss);
    const double accuracy = std::isfinite(outcome.test_accuracy) ? outcome.test_accuracy : outcome.accuracy;
    for (const std::string& label : run.labels) {
      auto& here = all[label][run.config.get_double("train.learning_rate")];
      here["validation"][run.seed].push_back(search.score(run, outcome.loss));
      here["score"][run.seed].push_back(score);
      here[setting][run.seed].push_back(score);
      here["guessed"][run.seed].push_back(std::isfinite(accuracy) ? accuracy - chance->second : 0);
    }
  }
  FreshResults out;
  for (const auto& [setting, name] : tasks) out.tasks.push_back(name);
  std::map<std::string, std::vector<double>> scores;
  std::string best;
  const TomlEntry* others = file.root.find("memories");
  for (const StudyLabel& label : study.labels) {
    FreshResult one{label.label, 0, {}, {}, {}, {}};
    double least = std::numeric_limits<double>::infinity();
    for (auto& [rate, here] : all.at(one.label))
      if (const double mean = interval(means(here["validation"]), 0.95).mean; mean < least)
        least = mean, one.rate = rate;
    auto& here = all.at(one.label).at(one.rate);
    scores[one.label] = means(here["score"]);
    one.score = interval(scores[one.label], confidence);
    one.guessed = interval(means(here["guessed"]), confidence);
    for (const auto& [setting, name] : tasks)
      one.by_task.push_back(interval(means(here[setting]), confidence));
    if (others && others->node.find(one.label) &&
        (best.empty() || one.score.mean < interval(scores[best], 0.95).mean))
      best = one.label;
    out.memories.push_back(std::move(one));
  }
  for (FreshResult& one : out.memories) {
    if (best.empty() || one.label == best) continue;
    std::vector<double> differences;
    for (std::size_t i = 0; i < scores[best].size(); ++i)
      differences.push_back(scores[one.label][i] - scores[best][i]);
    one.against = interval(differences, confidence);
  }
  return out;
}

std::string spelt(const Interval& one, int digits) {
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]", one.mean, digits, one.mean - one.half, digits,
                     one.mean + one.half, digits);
}

std::vector<std::vector<std::string>> by_task(const FreshResults& results) {
  std::vector<std::vector<std::string>> rows = {{"score on"}};
  rows[0].insert(rows[0].end(), results.tasks.begin(), results.tasks.end());
  for (const FreshResult& one : results.memories) {
    rows.push_back({one.label});
    for (const Interval& score : one.by_task) rows.back().push_back(spelt(score, 2));
  }
  return rows;
}

std::string laws_text(const SearchFile& file, const Search& search, const std::vector<LabelledLaw>& laws,
                      const FreshResults& results) {
  std::string text =
      fmt::format("# Laws of the search {}\n\nResults are those of the study `{}_front`, by fresh seeds:\n\n",
                  file.name, file.name);
  const auto rows = by_task(results);
  for (const auto& row : rows) {
    text += fmt::format("| {} |\n", fmt::join(row, " | "));
    if (&row == &rows[0])
      text += fmt::format("{}|\n", fmt::join(std::vector<std::string>(row.size(), "|---"), ""));
  }
  text +=
      "\nScores below are those of the search's own seeds and tasks: they chose these laws, and are no results.\n";
  for (const LabelledLaw& law : laws) {
    const auto one =
        std::ranges::find_if(search.tried(), [&](const Candidate& c) { return c.label() == law.label; });
    text += fmt::format("\n## {}\n\n`{}`\n\n{}\n\n```latex\n{}\n```\n\nIn Python: `ct.rule(\"{}\")`\n\n{}",
                        law.label, law.law, spelt(one->price),
                        rules::latex(*rules::parse_law(rules::steps_of(law.law))), law.law,
                        descent(search, *one));
  }
  return text;
}

std::string laws_csv(const Search& search) {
  const std::vector<std::size_t> best = front(search.tried());
  std::string text = "label,generation,score,operations,cost,state_size,engines,on_front,law\n";
  for (std::size_t i = 0; i < search.tried().size(); ++i) {
    const Candidate& one = search.tried()[i];
    if (one.stage >= Stage::whole)
      text += fmt::format("{},{},{},{},{},{},{},{},\"{}\"\n", one.label(), one.generation, one.score,
                          one.price.operations, cost(one.price), one.price.floats, one.price.engines ? 1 : 0,
                          std::ranges::find(best, i) != best.end() ? 1 : 0, one.law);
  }
  return text;
}

}  // namespace crosstalk::search
