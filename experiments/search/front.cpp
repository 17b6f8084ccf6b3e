// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/front.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

/// Means over settings, by seed.
struct BySeed {
  std::map<std::int64_t, std::vector<double>> validation, score, guessed;
};

std::vector<double> means(const std::map<std::int64_t, std::vector<double>>& by_seed) {
  std::vector<double> all;
  for (const auto& [seed, values] : by_seed) all.push_back(interval(values, 0.95).mean);
  return all;
}

}  // namespace

std::vector<LabelledLaw> finalists(const SearchFile& file, const Search& search) {
  std::vector<LabelledLaw> laws;
  for (const std::size_t place : front(search.tried()))
    if (laws.size() < static_cast<std::size_t>(file.finalists))
      laws.push_back({search.label(search.tried()[place]), search.tried()[place].law});
  return laws;
}

std::vector<FreshResult> fresh_results(const SearchFile& file, const Search& search, const Study& study,
                                       const Trials& trials, std::int64_t tried) {
  const double confidence = 1 - 0.05 / static_cast<double>(std::max<std::int64_t>(1, tried));
  std::map<std::string, std::map<double, BySeed>> all;
  std::map<std::string, double> chances;  // by setting: seeds and laws share them
  for (const Run& run : study.runs) {
    const Outcome& outcome = trials.of(run, false);
    const auto [chance, added] = chances.emplace(task_setting(run), 0);
    if (added) chance->second = chance_of(run, file.shuffled);
    const bool tested = std::isfinite(outcome.test_loss);
    for (const std::string& label : run.labels) {
      BySeed& here = all[label][run.config.get_double("train.learning_rate")];
      here.validation[run.seed].push_back(search.score(run, outcome.loss));
      here.score[run.seed].push_back(search.score(run, tested ? outcome.test_loss : outcome.loss));
      const double accuracy = std::isfinite(outcome.test_accuracy) ? outcome.test_accuracy : outcome.accuracy;
      here.guessed[run.seed].push_back((std::isfinite(accuracy) ? accuracy : chance->second) -
                                       chance->second);
    }
  }
  std::vector<FreshResult> results;
  std::map<std::string, std::vector<double>> scores;
  std::string best;
  for (const StudyLabel& label : study.labels) {
    FreshResult one{label.label, 0, {}, {}, {}};
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [rate, here] : all.at(label.label))
      if (const double mean = interval(means(here.validation), 0.95).mean; mean < least)
        least = mean, one.rate = rate;
    const BySeed& here = all.at(label.label).at(one.rate);
    scores[one.label] = means(here.score);
    one.score = interval(scores[one.label], confidence);
    one.guessed = interval(means(here.guessed), confidence);
    const TomlEntry* others = file.root.find("memories");
    if (others && others->node.find(one.label) &&
        (best.empty() || interval(scores[one.label], 0.95).mean < interval(scores[best], 0.95).mean))
      best = one.label;
    results.push_back(std::move(one));
  }
  for (FreshResult& one : results) {
    if (best.empty() || one.label == best) continue;
    std::vector<double> differences;
    for (std::size_t i = 0; i < scores[best].size(); ++i)
      differences.push_back(scores[one.label][i] - scores[best][i]);
    one.against = interval(differences, confidence);
  }
  return results;
}

std::string laws_text(const SearchFile& file, const Search& search, const std::vector<LabelledLaw>& laws) {
  std::string text = fmt::format(
      "# Laws of the search {}\n\nScores are those of the search's own seeds and tasks: they chose these laws, and are no results. "
      "Results are those of the study `{}_front`, by fresh seeds.\n",
      file.name, file.name);
  for (const LabelledLaw& law : laws) {
    const auto one = std::ranges::find_if(search.tried(),
                                          [&](const Candidate& c) { return search.label(c) == law.label; });
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
      text += fmt::format("{},{},{},{},{},{},{},{},\"{}\"\n", search.label(one), one.generation, one.score,
                          one.price.operations, cost(one.price), one.price.floats, one.price.engines ? 1 : 0,
                          std::ranges::find(best, i) != best.end() ? 1 : 0, one.law);
  }
  return text;
}

}  // namespace crosstalk::search
