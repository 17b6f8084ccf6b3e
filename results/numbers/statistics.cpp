// Medians, quantiles and capacity, with intervals over seeds.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

namespace crosstalk {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> sorted_numbers(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::ranges::sort(values);
  return values;
}

double sorted_median(const std::vector<double>& sorted) {
  if (sorted.empty()) return nan;
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double sorted_quantile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return nan;
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double share = position - static_cast<double>(below);
  // Not only a shortcut: infinite neighbours must not turn 0 * inf or inf - inf into NaN.
  if (share == 0 || sorted[below] == sorted[below + 1]) return sorted[below];
  return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

// The losses of every load, by index of the seed; a seed may miss at a load, or stand there more than once.
struct Grid {
  struct Entry {
    std::size_t seed;
    double loss;
  };
  std::vector<double> loads;
  std::vector<std::vector<Entry>> entries;
  std::vector<std::int64_t> seeds;
};

Grid make_grid(const std::vector<LoadPoint>& points) {
  std::set<std::int64_t> seeds;
  for (const LoadPoint& point : points) seeds.insert(point.seed);
  std::map<double, std::vector<Grid::Entry>> by_load;
  for (const LoadPoint& point : points) {
    if (std::isnan(point.load)) throw std::invalid_argument("capacity: a point has no load (NaN)");
    const auto seed = static_cast<std::size_t>(std::distance(seeds.begin(), seeds.find(point.seed)));
    by_load[point.load].push_back({seed, std::isfinite(point.loss) ? point.loss : infinity});
  }
  Grid grid;
  grid.seeds.assign(seeds.begin(), seeds.end());
  for (auto& [load, entries] : by_load) {
    grid.loads.push_back(load);
    grid.entries.push_back(std::move(entries));
  }
  return grid;
}

// Between which sorted values the 95 % interval of the median lies; all of them with fewer than six.
struct OrderStatistics {
  std::size_t depth = 1;  // from either end, from 1
  double inward = 0;      // share of the way to the next value

  double low(const std::vector<double>& sorted) const {
    return between(sorted[depth - 1], sorted[std::min(depth, sorted.size() - 1)]);
  }
  double high(const std::vector<double>& sorted) const {
    const std::size_t at = sorted.size() - depth;
    return between(sorted[at], sorted[at == 0 ? 0 : at - 1]);
  }

 private:
  double between(double outer, double inner) const {
    if (inward == 0 || outer == inner) return outer;
    return std::isfinite(outer) && std::isfinite(inner) ? outer + inward * (inner - outer) : outer;
  }
};

OrderStatistics order_statistics(int n) {
  if (n < seeds_of_an_interval) return {};
  thread_local std::map<int, OrderStatistics> known;  // a figure has hundreds of points of as many seeds
  const auto [at, is_new] = known.try_emplace(n);
  if (!is_new) return at->second;
  constexpr double wanted = 0.95;
  const boost::math::binomial_distribution<> heads(n, 0.5);
  const auto coverage = [&](int depth) { return 1 - 2 * boost::math::cdf(heads, depth - 1); };
  int depth = 1;
  while (2 * (depth + 1) <= n && coverage(depth + 1) >= wanted) ++depth;
  const double share = (coverage(depth) - wanted) / (coverage(depth) - coverage(depth + 1));
  return at->second = {static_cast<std::size_t>(depth),
                       (n - depth) * share / (depth + (n - 2 * depth) * share)};
}

// The last load that the median of one seed, or of all, solves along with every smaller one that was tested, and the
// first that it does not (0 and infinity where there are none). Loads that a seed was not run at say nothing of it.
std::pair<double, double> solved_between(const Grid& grid, std::optional<std::size_t> seed,
                                         double threshold) {
  double last = 0;
  for (std::size_t i = 0; i < grid.loads.size(); ++i) {
    std::vector<double> losses;
    for (const Grid::Entry& entry : grid.entries[i])
      if (!seed || entry.seed == *seed) losses.push_back(entry.loss);
    if (losses.empty()) continue;
    std::ranges::sort(losses);
    if (!(sorted_median(losses) <= threshold)) return {last, grid.loads[i]};
    last = grid.loads[i];
  }
  return {last, infinity};
}

}  // namespace

double median(std::vector<double> values) { return sorted_median(sorted_numbers(std::move(values))); }

double quantile(std::vector<double> values, double p) {
  if (!(p >= 0 && p <= 1)) throw std::invalid_argument("quantile: p must lie between 0 and 1");
  return sorted_quantile(sorted_numbers(std::move(values)), p);
}

Summary summarise(const std::vector<double>& values) {
  const std::vector<double> sorted = sorted_numbers(values);
  Summary out{static_cast<int>(sorted.size()), nan, nan, nan};
  if (sorted.empty()) return out;
  out.median = sorted_median(sorted);
  const OrderStatistics at = order_statistics(out.n);
  out.lo = at.low(sorted);
  out.hi = at.high(sorted);
  return out;
}

std::string interval_name(int fewest, int most) {
  const auto range = [](int n) {
    return fmt::format("range of {} seeds ({:.3g} % interval)", n, 100 * (1 - std::pow(0.5, n - 1)));
  };
  if (most < seeds_of_an_interval)
    return fewest == most ? range(most) : fmt::format("range of {} to {} seeds", fewest, most);
  const std::string interval = "95 % confidence interval of the median";
  return fewest >= seeds_of_an_interval
             ? interval
             : fmt::format("{} (range where fewer than {} seeds)", interval, seeds_of_an_interval);
}

Capacity capacity(const std::vector<LoadPoint>& points, double threshold) {
  const Grid grid = make_grid(points);
  Capacity out;
  out.seeds = static_cast<int>(grid.seeds.size());
  if (grid.loads.empty()) return out;
  std::tie(out.capacity, out.unsolved) = solved_between(grid, {}, threshold);
  out.censored = !std::isfinite(out.unsolved);

  std::vector<double> lows, highs;
  for (std::size_t seed = 0; seed < grid.seeds.size(); ++seed) {
    const auto [low, high] = solved_between(grid, seed, threshold);
    out.by_seed[grid.seeds[seed]] = low;
    lows.push_back(low);
    highs.push_back(high);
  }
  std::ranges::sort(lows);
  std::ranges::sort(highs);
  const OrderStatistics at = order_statistics(out.seeds);
  out.lo = std::min(at.low(lows), out.capacity);
  out.hi = std::max(at.high(highs), out.unsolved);
  return out;
}

RankCorrelation rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  const auto ranks = [](const std::vector<double>& values) {
    std::vector<double> all;
    for (const double value : values) {
      double rank = 0.5;
      for (const double other : values) rank += other < value ? 1.0 : other == value ? 0.5 : 0.0;
      all.push_back(rank - 0.5 * (static_cast<double>(values.size()) + 1));  // about 0
    }
    return all;
  };
  const std::vector<double> a = ranks(x), b = ranks(y);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RankCorrelation r{static_cast<int>(a.size()), nan, nan, nan};
  if (r.n < 4 || aa == 0 || bb == 0) return r;
  r.value = ab / std::sqrt(aa * bb);
  const double z = std::atanh(std::clamp(r.value, -1 + 1e-12, 1 - 1e-12)),
               width = 1.959963985 * std::sqrt((1 + r.value * r.value / 2) / (r.n - 3));
  r.lo = std::tanh(z - width), r.hi = std::tanh(z + width);
  return r;
}

}  // namespace crosstalk
