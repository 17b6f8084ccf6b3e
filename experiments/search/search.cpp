// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "tasks/task.h"

namespace crosstalk::search {
namespace {

/// Losses below this share of that of answering nothing are all alike: else the score would measure how fast a law trains.
constexpr double kFloor = 2e-5;
/// Draws for each law that is wanted, at most; laws of which the probe takes one.
constexpr std::size_t kDraws = 400, kOfTheProbe = 2;
/// Of a generation, the share that may run token after token; and that goes on behind a third of the steps.
constexpr std::size_t kSlowShare = 4, kThird = 3;
/// What a law that runs token after token has to gain in the probe's loss.
constexpr double kSlowProbe = 0.1;
constexpr std::uint32_t kTournament = 4;

/// Puts text into a phrase of several.
void join(std::string& phrase, const std::string& more) {
  if (!more.empty()) phrase += (phrase.empty() ? "" : "; ") + more;
}

}  // namespace

Search::Search(const Schema& schema, const SearchFile& file, Trials& trials, Journal& journal,
               std::function<void(const std::string&)> tell)
    : schema_(schema), file_(file), trials_(trials), journal_(journal), tell_(std::move(tell)) {
  for (const nlohmann::json& line : journal.lines())
    if (line.contains("law")) {
      noted_.insert(line);
    } else if (line.contains("generation") && line.contains("seconds")) {
      recorded_ = std::max(recorded_, line.value("generation", 0) + 1);
      spent_ = std::max(spent_, line.value("seconds", 0.0));
    }
}

bool Search::time_is_up() const { return file_.minutes > 0 && seconds() >= 60 * file_.minutes; }

bool Search::run() {
  if (recorded_ > 0 && time_is_up())
    tell_(fmt::format("minutes = {}: {:.1f} have been spent here, so that no law is added", file_.minutes,
                      spent_ / 60));
  if (const auto known = std::ssize(noted_); file_.candidates > 0 && file_.candidates < known)
    tell_(fmt::format("candidates = {}: {} laws have been tried here, of which so many count",
                      file_.candidates, known));
  while (generation_ < recorded_ || !time_is_up()) {
    const auto left = static_cast<std::size_t>(
        file_.candidates > 0 ? std::max<std::int64_t>(0, file_.candidates - draws_.tried) : file_.generation);
    std::vector<Candidate> generation =
        draw_generation(std::min(left, static_cast<std::size_t>(file_.generation)));
    if (generation.empty()) return time_is_up() || !trials_.stopped();
    if (!try_generation(generation)) return time_is_up();
    for (Candidate& one : generation) {
      if (one.stage >= Stage::whole) population_.push_back(one);
      note(one);
      tried_.push_back(std::move(one));
    }
    population_ =
        survivors(std::move(population_), generation_, file_.age, static_cast<std::size_t>(file_.population));
    if (generation_ >= recorded_)
      journal_.append(
          {{"generation", generation_}, {"seconds", seconds()}, {"training_seconds", trials_.seconds()}});
    if (const std::vector<std::size_t> best = front(tried_); !best.empty())
      tell_(fmt::format("generation {}, {:.0f} s: {} laws tried, {} to the end; best {:.2f} {}", generation_,
                        seconds(), draws_.tried, draws_.whole, tried_[best[0]].score, tried_[best[0]].law));
    if (++generation_ == recorded_)
      begun_ = now_seconds();  // what an earlier process did is no time of this one
  }
  return true;
}

Candidate Search::draw(RandomStream& random) const {
  Candidate child;
  const bool first = population_.empty();
  if (file_.random_parents || (first ? file_.start.empty() : random.below(10) == 0)) {
    child.law = random_candidate(random, file_.limits);
    child.what = "drawn at random";
    return child;
  }
  if (first) {
    child.law = file_.start[random.below(static_cast<std::uint32_t>(file_.start.size()))];
  } else {
    // One in five from the front of those that live, where cheap laws stay; else the best of a few.
    const auto size = static_cast<std::uint32_t>(population_.size());
    const std::vector<std::size_t> cheap = front(population_);
    std::size_t at = random.below(size);
    if (random.below(5) == 0) {
      at = cheap[random.below(static_cast<std::uint32_t>(cheap.size()))];
    } else {
      for (std::uint32_t i = 1; i < kTournament; ++i)
        if (const std::size_t other = random.below(size);
            fitness(population_[other]) < fitness(population_[at]))
          at = other;
    }
    child.law = population_[at].law;
    child.parents = {population_[at].number};
    if (const Candidate& other = population_[random.below(size)];
        other.number != child.parents[0] && random.below(6) == 0) {
      const Change change = crossed(child.law, other.law, random, file_.limits);
      child.law = change.law;
      child.parents.push_back(other.number);
      join(child.what, change.what);
      if (random.below(2) == 0) return child;
    }
  }
  static constexpr int kChanges[] = {1, 1, 2, 3};
  for (int i = kChanges[random.below(4)]; i > 0; --i) {
    const Change change = mutated(child.law, random, file_.limits);
    child.law = change.law;
    join(child.what, change.what);
  }
  return child;
}

bool Search::is_worth_a_trial(Candidate& one) {
  if (!texts_.insert(one.law).second) return ++draws_.known_text, false;
  one.price = price(one.law, file_.limits.K, file_.limits.V);
  if (exceeds(one.price, file_.limits)) return ++draws_.large, false;
  if (unstable(one.law)) return ++draws_.unstable, false;
  if (dead(one.law)) return ++draws_.dead, false;
  if (!values_.insert(value_key(one.law)).second) return ++draws_.known_values, false;
  one.probe = probe(one.law);
  return true;
}

std::vector<Candidate> Search::draw_generation(std::size_t wanted) {
  std::vector<Candidate> pool;
  if (wanted == 0) return pool;
  std::size_t given = 0;
  if (generation_ == 0 && !file_.random_parents)
    for (const std::string& law : file_.start) {
      Candidate one;
      one.law = law, one.what = "given";
      if (pool.size() < wanted && is_worth_a_trial(one)) pool.push_back(one);
    }
  given = pool.size();
  for (std::size_t i = 0; i < kDraws * wanted && pool.size() < given + kOfTheProbe * wanted; ++i) {
    if (generation_ >= recorded_ && trials_.stopped()) return {};
    RandomStream random(file_.seed, RandomDomain::candidate, draw_++);
    ++draws_.drawn;
    Candidate one = draw(random);
    if (is_worth_a_trial(one)) pool.push_back(std::move(one));
  }
  std::stable_sort(pool.begin() + static_cast<std::ptrdiff_t>(given), pool.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.probe + (a.price.engines ? 0 : kSlowProbe) <
                            b.probe + (b.price.engines ? 0 : kSlowProbe);
                   });
  std::vector<Candidate> generation;
  std::size_t slow = 0;
  for (const bool again : {false, true})  // slow ones beyond their share, where there is nothing else
    for (Candidate& one : pool) {
      if (generation.size() == wanted || one.law.empty()) continue;
      if (!one.price.engines && !again && ++slow > std::max<std::size_t>(1, wanted / kSlowShare)) continue;
      generation.push_back(std::move(one));
      one.law.clear();
    }
  draws_.unlikely += static_cast<std::int64_t>(pool.size() - generation.size());
  for (Candidate& one : generation) {
    one.generation = generation_;
    one.number = static_cast<int>(++draws_.tried);
  }
  return generation;
}

double Search::score(const Run& run, double loss) const {
  const std::string task = task_setting(run);
  auto found = nothing_.find(task);
  if (found == nothing_.end()) {
    const std::map<std::string, double> baselines = registered_task(run.config)->baselines();
    double nothing = 0.5;
    for (const char* name : {"chance_loss", "constant_loss"})
      if (const auto known = baselines.find(name); known != baselines.end()) nothing = known->second;
    found = nothing_.emplace(task, nothing).first;
  }
  if (!std::isfinite(loss)) return 0;
  return std::log10(std::clamp(loss / found->second, kFloor, 1.0));
}

double Search::score(const Candidate& one, const std::vector<std::vector<Run>>& runs, bool third) const {
  std::map<double, double> by_rate;
  double weights = 0, best = std::numeric_limits<double>::infinity();
  for (std::size_t task = 0; task < runs.size(); ++task) {
    std::map<double, std::pair<double, int>> sums;
    for (const Run& run : runs[task])
      if (run.label == one.label()) {
        auto& [sum, count] = sums[run.config.get_double("train.learning_rate")];
        sum += score(run, trials_.of(run, third).loss), ++count;
      }
    for (const auto& [rate, sum] : sums) by_rate[rate] += file_.weights[task] * sum.first / sum.second;
    weights += file_.weights[task];
  }
  for (const auto& [rate, sum] : by_rate) best = std::min(best, sum / weights);
  return best;
}

bool Search::try_stage(std::vector<Candidate*> laws, Stage stage) {
  if (laws.empty()) return true;
  const std::size_t seeds = stage == Stage::seeds ? file_.seeds.size() : 1,
                    rates = stage == Stage::seeds ? std::max<std::size_t>(1, file_.rates.size()) : 1;
  std::vector<LabelledLaw> labelled;
  for (const Candidate* one : laws) labelled.push_back({one->label(), one->law});
  std::vector<std::vector<Run>> runs;  // by task
  std::vector<Run> flat;
  for (std::size_t task = 0; task < file_.tasks(); ++task) {
    runs.push_back(runs_of(schema_, file_, task, labelled, seeds, rates));
    flat.insert(flat.end(), runs[task].begin(), runs[task].end());
  }
  if (!trials_.train(file_.name, flat, stage == Stage::third)) return false;
  for (Candidate* one : laws) {
    one->stage = stage;
    (stage == Stage::third ? one->third : one->score) = score(*one, runs, stage == Stage::third);
  }
  return true;
}

bool Search::try_generation(std::vector<Candidate>& generation) {
  std::vector<Candidate*> laws;
  for (Candidate& one : generation) laws.push_back(&one);
  if (!try_stage(laws, Stage::third)) return false;
  std::ranges::stable_sort(laws, [](const Candidate* a, const Candidate* b) {
    return a->third + kOfANode * a->price.nodes < b->third + kOfANode * b->price.nodes;
  });
  laws.resize(std::max<std::size_t>(1, (laws.size() + kThird - 1) / kThird));
  if (!try_stage(laws, Stage::whole)) return false;
  draws_.whole += static_cast<std::int64_t>(laws.size());
  trials_.forget_states();
  if (file_.seeds.size() < 2 && file_.rates.size() < 2) return true;
  std::vector<Candidate> all = tried_;
  for (const Candidate* one : laws) all.push_back(*one);
  std::set<int> numbers;
  for (const std::size_t place : front(all)) numbers.insert(all[place].number);
  std::erase_if(laws, [&](const Candidate* one) { return numbers.count(one->number) == 0; });
  return try_stage(laws, Stage::seeds);
}

void Search::note(const Candidate& one) {
  const nlohmann::json line = {{"law", one.law},
                               {"number", one.number},
                               {"generation", one.generation},
                               {"parents", one.parents},
                               {"what", one.what},
                               {"operations", one.price.operations},
                               {"floats", one.price.floats},
                               {"gates", one.price.gates},
                               {"nodes", one.price.nodes},
                               {"engines", one.price.engines},
                               {"probe", one.probe},
                               {"stage", to_text(one.stage)},
                               {"third", one.third},
                               {"score", one.score}};
  if (noted_.insert(line).second) journal_.append(line);
}

}  // namespace crosstalk::search
