// Medians, quantiles, capacity with a bootstrap over seeds, least squares.
// SPDX-License-Identifier: Apache-2.0
#include "results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

namespace crosstalk {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> sorted_numbers(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  std::sort(values.begin(), values.end());
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
  std::size_t seeds = 0;
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
  grid.seeds = seeds.size();
  for (auto& [load, entries] : by_load) {
    grid.loads.push_back(load);
    grid.entries.push_back(std::move(entries));
  }
  return grid;
}

// How many loads, from the smallest on, the median seed solves; `weights` says how often each seed counts.
std::size_t solved_loads(const Grid& grid, const std::vector<int>& weights, double threshold) {
  std::vector<double> losses;
  for (std::size_t i = 0; i < grid.loads.size(); ++i) {
    losses.clear();
    for (const Grid::Entry& entry : grid.entries[i])
      losses.insert(losses.end(), weights[entry.seed], entry.loss);
    // None of the seeds drawn was run at this load: nothing speaks against it.
    if (losses.empty()) continue;
    std::sort(losses.begin(), losses.end());
    if (!(sorted_median(losses) <= threshold)) return i;
  }
  return grid.loads.size();
}

// 0 <= index < n, the same with every standard library (std distributions are not).
std::size_t draw_index(std::mt19937_64& random, std::size_t n) {
  constexpr double two_to_minus_53 = 1.0 / 9007199254740992.0;
  return static_cast<std::size_t>(static_cast<double>(random() >> 11) * two_to_minus_53 *
                                  static_cast<double>(n));
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
  const bool enough = sorted.size() >= 4;
  out.median = sorted_median(sorted);
  out.lo = sorted_quantile(sorted, enough ? 0.25 : 0);
  out.hi = sorted_quantile(sorted, enough ? 0.75 : 1);
  return out;
}

Capacity capacity(const std::vector<LoadPoint>& points, double threshold) {
  const Grid grid = make_grid(points);
  Capacity out;
  out.seeds = static_cast<int>(grid.seeds);
  if (grid.loads.empty()) return out;
  const auto load_of = [&](std::size_t solved) { return solved == 0 ? 0 : grid.loads[solved - 1]; };
  const std::size_t solved = solved_loads(grid, std::vector<int>(grid.seeds, 1), threshold);
  out.capacity = load_of(solved);
  out.censored = solved == grid.loads.size();

  constexpr std::size_t resamples = 2000;
  std::mt19937_64 random(0x5EED);
  std::vector<std::size_t> found(resamples);
  std::vector<int> weights(grid.seeds);
  for (std::size_t& one : found) {
    std::fill(weights.begin(), weights.end(), 0);
    for (std::size_t i = 0; i < grid.seeds; ++i) ++weights[draw_index(random, grid.seeds)];
    one = solved_loads(grid, weights, threshold);
  }
  std::sort(found.begin(), found.end());
  // Loads of the grid, never a value between two of them; and never beside the capacity itself.
  constexpr std::size_t tail = resamples / 40;
  out.lo = load_of(std::min(found[tail], solved));
  out.hi = load_of(std::max(found[resamples - 1 - tail], solved));
  return out;
}

LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() != y.size()) throw std::invalid_argument("fit_line: x and y differ in length");
  LineFit out{0, nan, nan, nan, nan};
  double mean_x = 0;
  double mean_y = 0;
  const auto usable = [&](std::size_t i) { return std::isfinite(x[i]) && std::isfinite(y[i]); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!usable(i)) continue;
    ++out.n;
    mean_x += x[i];
    mean_y += y[i];
  }
  if (out.n < 2) return out;
  mean_x /= out.n;
  mean_y /= out.n;
  double xx = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!usable(i)) continue;
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(xx > 0)) return out;  // one x only: no slope
  out.slope = xy / xx;
  out.intercept = mean_y - out.slope * mean_x;
  if (out.n < 3) return out;
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!usable(i)) continue;
    // About the means: subtracting slope x + intercept from y would cancel digits.
    const double residual = (y[i] - mean_y) - out.slope * (x[i] - mean_x);
    squares += residual * residual;
  }
  const int degrees = out.n - 2;
  const double t = boost::math::quantile(boost::math::students_t(degrees), 0.975);
  const double half_width = t * std::sqrt(squares / degrees / xx);
  out.slope_lo = out.slope - half_width;
  out.slope_hi = out.slope + half_width;
  return out;
}

double rank_bound(double d_dot, double associations) {
  if (!(associations > 0)) return 0;
  return 0.5 * std::max(0.0, 1 - d_dot / associations);
}

}  // namespace crosstalk
