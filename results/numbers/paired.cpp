// Paired differences, the signed-rank test, Holm's correction, and what is best beyond doubt.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/paired.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>
#include <numeric>

namespace crosstalk {
namespace {

/// P(W <= w) for w = 0, 1, ..: the sum W of the ranks 1 to n whose signs are positive, each with probability 1/2.
const std::vector<double>& signed_rank_distribution(std::size_t n) {
  thread_local std::map<std::size_t, std::vector<double>> known;
  const auto [at, is_new] = known.try_emplace(n);
  std::vector<double>& sums = at->second;
  if (!is_new) return sums;
  sums.assign(n * (n + 1) / 2 + 1, 0);
  sums[0] = 1;
  for (std::size_t rank = 1, most = 0; rank <= n; ++rank) {
    most += rank;
    for (std::size_t w = most + 1; w-- > 0;) sums[w] = (sums[w] + (w >= rank ? sums[w - rank] : 0)) / 2;
  }
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

std::vector<double> numbers(const SeedValues& seeds) {
  std::vector<double> values;
  for (const SeedValue& one : seeds) values.push_back(one.value);
  return values;
}

}  // namespace

double signed_rank_p(const std::vector<double>& differences) {
  const std::size_t n = differences.size();
  std::size_t below = 0, above = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i; j < n; ++j) {
      const double sum =
          differences[i] + differences[j];  // NaN of both infinities: counts on both sides, as 0 does
      below += !(sum > 0);
      above += !(sum < 0);
    }
  return n == 0 ? 1 : std::min(1.0, 2 * signed_rank_distribution(n)[std::min(below, above)]);
}

Paired paired(const SeedValues& a, const SeedValues& b, bool smaller_is_better) {
  Paired out;
  std::map<std::string, double> others;
  for (const SeedValue& one : b) others.emplace(one.seed, one.value);
  for (const SeedValue& one : a) {
    const auto other = others.find(one.seed);
    if (other == others.end() || std::isnan(one.value) || std::isnan(other->second)) continue;
    const double difference = one.value == other->second ? 0 : one.value - other->second;
    out.differences.push_back({one.seed, difference});
    out.wins += smaller_is_better ? difference < 0 : difference > 0;
  }
  const std::vector<double> values = numbers(out.differences);
  out.summary = summarise(values);
  out.p = signed_rank_p(values);
  return out;
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> corrected(p.size());
  double most = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    corrected[order[i]] = most =
        std::max(most, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
  return corrected;
}

int fewest_seeds(std::size_t comparisons) {
  int seeds = 1;
  while (std::pow(0.5, seeds - 1) > kDoubt / static_cast<double>(std::max<std::size_t>(comparisons, 1)))
    ++seeds;
  return seeds;
}

int seeds_to_detect(const std::vector<double>& differences, double size, std::size_t comparisons) {
  std::vector<double> finite;
  std::ranges::copy_if(differences, std::back_inserter(finite),
                       [](double value) { return std::isfinite(value); });
  const auto n = static_cast<double>(finite.size());
  if (n < 2) return 0;
  const double mean = std::accumulate(finite.begin(), finite.end(), 0.0) / n;
  double variance = 0;
  for (const double value : finite) variance += (value - mean) * (value - mean) / (n - 1);
  // Beside Student's t on normal differences the signed-rank test uses 3/pi of the seeds, the interval of a median 2/pi; the
  // latter is not corrected.
  const auto z = [](double share) { return boost::math::quantile(boost::math::normal(), share); };
  const double corrected = z(1 - kDoubt / 2 / static_cast<double>(std::max<std::size_t>(comparisons, 1))),
               power = z(0.8), unit = variance / (size * size),
               ranks = (std::pow(corrected + power, 2) * unit + corrected * corrected / 2) * M_PI / 3,
               interval = std::pow(z(1 - kDoubt / 2) + power, 2) * unit * M_PI / 2 + 1;
  return std::max(fewest_seeds(comparisons),
                  static_cast<int>(std::ceil(std::min(std::max(ranks, interval), 1e6))));
}

BestOfPoints best_of_points(const std::vector<std::vector<Contender>>& points, bool smaller_is_better) {
  BestOfPoints out;
  std::vector<Paired> all;  // of each point's best with all others, in order
  std::vector<double> p;
  std::vector<std::size_t> first;  // of each point's in `all`
  for (const std::vector<Contender>& point : points) {
    int best = -1, others = -1;
    double least = 0;
    for (std::size_t i = 0; i < point.size(); ++i) {
      const double here = median(numbers(point[i].seeds)) * (smaller_is_better ? 1 : -1);
      if (std::isnan(here)) continue;
      ++others;
      if (best < 0 || here < least) best = static_cast<int>(i), least = here;
    }
    out.best.push_back(others > 0 ? best : -1);
    first.push_back(all.size());
    for (std::size_t i = 0; i < point.size() && others > 0; ++i) {
      const Contender& winner = point[static_cast<std::size_t>(best)];
      if (static_cast<int>(i) == best || point[i].seeds.empty()) continue;
      all.push_back(paired(winner.seeds, point[i].seeds, smaller_is_better));
      p.push_back(winner.solved && point[i].solved ? 1 : all.back().p);
      const int pairs = all.back().summary.n;
      out.fewest_pairs = all.size() == 1 ? pairs : std::min(out.fewest_pairs, pairs);
      out.most_pairs = std::max(out.most_pairs, pairs);
    }
  }
  out.comparisons = all.size();
  const std::vector<double> corrected = holm(p);
  first.push_back(all.size());
  for (std::size_t point = 0; point < points.size(); ++point)
    for (std::size_t i = first[point]; i < first[point + 1]; ++i)
      if (!is_told(corrected[i], all[i].summary.lo, all[i].summary.hi)) out.best[point] = -1;
  return out;
}

}  // namespace crosstalk
