// The search: laws are drawn, tried by stages, and made of one another, generation by generation.
//
//   drawn -> known? unstable? dead? -> probe: half -> a third of the steps: a third of them -> the end -> the front: all seeds, rates
//
// Decisions are made when a generation has ended its stage, and draws are of counter-based streams, so that the course is a function of
// the file alone: neither of threads and devices' order, nor of stops.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/search/journal.h"
#include "experiments/search/population.h"
#include "experiments/search/search_file.h"
#include "experiments/search/trials.h"

namespace crosstalk::search {

/// How many draws came to what.
struct Draws {
  std::int64_t drawn = 0, known_text = 0, known_values = 0, large = 0, unstable = 0, dead = 0, unlikely = 0,
               tried = 0, whole = 0;
};

/// Seconds from a steady clock's start.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Search {
 public:
  Search(const Schema& schema, const SearchFile& file, Trials& trials, Journal& journal,
         std::function<void(const std::string&)> tell);

  /// Until the budget is spent. False: stopped.
  bool run();
  /// Whether the time is up: asked while a generation trains, which then goes on another time.
  bool time_is_up() const;

  const std::vector<Candidate>& tried() const { return tried_; }
  const Draws& draws() const { return draws_; }
  double seconds() const { return spent_ + now_seconds() - begun_; }  ///< those of earlier processes too

  /// Mean score of a label's runs of one seed: log10 of the loss over that of answering nothing, down to that of kFloor.
  double score(const Run& run, double loss) const;

 private:
  std::vector<Candidate> draw_generation(std::size_t wanted);
  Candidate draw(RandomStream& random) const;
  bool is_worth_a_trial(Candidate& one);
  /// At its best rate, of runs by task: means over tasks and seeds.
  double score(const Candidate& one, const std::vector<std::vector<Run>>& runs, bool third) const;
  bool try_generation(std::vector<Candidate>& generation);
  bool try_stage(std::vector<Candidate*> laws, Stage stage);
  void note(const Candidate& one);

  const Schema& schema_;
  const SearchFile& file_;
  Trials& trials_;
  Journal& journal_;
  const std::function<void(const std::string&)> tell_;
  std::vector<Candidate> tried_, population_;
  std::set<std::string> texts_, values_;
  std::set<nlohmann::json> noted_;  ///< laws that the journal knows
  Draws draws_;
  std::uint32_t draw_ = 0;
  int generation_ = 0, recorded_ = 0;  ///< recorded_: generations that the journal knows
  double spent_ = 0;
  double begun_ = now_seconds();
  mutable std::map<std::string, double> nothing_;  ///< loss of answering nothing, by task
};

}  // namespace crosstalk::search
