// Laws of a search and their scores: what others are made of, and the front of score against cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "models/search/candidate.h"

namespace crosstalk::search {

/// How far a law was tried: each stage for the best of the one before it.
enum class Stage { probe, third, whole, seeds };
std::string to_text(Stage stage);

/// A law that was drawn and is worth a trial. Scores are means over tasks of log10(loss / loss of answering nothing): 0 is nothing,
/// lower is better.
struct Candidate {
  int number = 0, generation = 0;
  std::string law, what;     ///< what: the change that made it
  std::vector<int> parents;  ///< numbers; empty: a start law, or drawn at random
  Price price;
  double probe = 0.5;
  Stage stage = Stage::probe;
  double third = 0,
         score = 0;  ///< after a third of the steps; at the end, or the mean over seeds at its best rate

  std::string label() const { return "law" + std::to_string(number); }  ///< of its runs
};

/// What a token costs: operations, and so many times as much where the law runs token after token (measured on a CPU).
inline constexpr double kTokenAfterToken = 6;
inline double cost(const Price& price) { return price.operations * (price.engines ? 1 : kTokenAfterToken); }

/// Scores count to so much: what differs by less is alike, and the smaller law is better. A node more has to gain this.
inline constexpr double kOfANode = 0.002;
inline double fitness(const Candidate& one) { return one.score + kOfANode * one.price.nodes; }

/// Places of those that no other one beats or equals in score at a lower cost, the best score first. Of laws tried to the end alone.
std::vector<std::size_t> front(const std::vector<Candidate>& all);

/// Those of the last `age` generations, and the best one of all: at most `size`, by fitness.
std::vector<Candidate> survivors(std::vector<Candidate> all, int generation, int age, std::size_t size);

/// The mean of values and half the width of its interval at `confidence` (Student's t), infinite for fewer than two.
struct Interval {
  double mean = 0, half = std::numeric_limits<double>::infinity();
};
Interval interval(const std::vector<double>& values, double confidence);

}  // namespace crosstalk::search
