// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/population.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <numeric>

namespace crosstalk::search {

std::string to_text(Stage stage) {
  static const char* const kNames[] = {"probe", "third", "whole", "seeds"};
  return kNames[static_cast<int>(stage)];
}

std::vector<std::size_t> front(const std::vector<Candidate>& all) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].stage >= Stage::whole) places.push_back(i);
  std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) {
    return std::pair(all[a].score, cost(all[a].price)) < std::pair(all[b].score, cost(all[b].price));
  });
  double least = std::numeric_limits<double>::infinity();
  std::erase_if(places, [&](std::size_t i) {
    const double here = cost(all[i].price);
    const bool beaten = here >= least;
    least = std::min(least, here);
    return beaten;
  });
  return places;
}

std::vector<Candidate> survivors(std::vector<Candidate> all, int generation, int age, std::size_t size) {
  std::ranges::stable_sort(all, {}, fitness);
  const int best = all.empty() ? 0 : all[0].number;
  std::erase_if(
      all, [&](const Candidate& one) { return generation - one.generation >= age && one.number != best; });
  all.resize(std::min(all.size(), size));
  return all;
}

Interval interval(const std::vector<double>& values, double confidence) {
  Interval out;
  const auto n = static_cast<double>(values.size());
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  const double t = boost::math::quantile(boost::math::students_t(n - 1), 1 - (1 - confidence) / 2);
  out.half = t * std::sqrt(squares / (n - 1) / n);
  return out;
}

}  // namespace crosstalk::search
