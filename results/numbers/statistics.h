// Statistics of figures: medians, intervals over seeds, capacity, fitted slopes. Done here, tested here; the
// plotting scripts only draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crosstalk {

/// Median of the finite and infinite values (NaN dropped); NaN if none. Mean of the two middle values for
/// even n.
double median(std::vector<double> values);

/// Linear-interpolated quantile (NumPy's default), 0 <= p <= 1.
double quantile(std::vector<double> values, double p);

/// Seeds from which on an interval is one of confidence; below, the range of all seeds is shown, which holds
/// the true median with probability 1 - 2^(1-n): 75 % of three seeds, 94 % of five.
inline constexpr int seeds_of_an_interval = 6;

/// Median with an interval over seeds.
struct Summary {
  int n = 0;
  double median = 0, lo = 0, hi = 0;
};

/// Median and range (fewer than six values), or the 95 % confidence interval of the median between order
/// statistics, interpolated as Hettmansperger and Sheather (1986) do: it asks nothing of the distribution but
/// that it is continuous. Infinite values (diverged runs) count.
Summary summarise(const std::vector<double>& values);

/// What such an interval is: "range of 3 seeds (75 % interval)", "95 % confidence
/// interval of the median". `fewest`, `most`: seeds of the points that have one.
std::string interval_name(int fewest, int most);

/// One seed's loss at one load.
struct LoadPoint {
  double load = 0;
  std::int64_t seed = 0;
  double loss = 0;  ///< NaN or infinite (diverged) counts as not solved
};

/// Capacity of a memory: the largest load of the grid such that it and every smaller load are solved by the
/// median seed (median loss <= threshold); 0 if the smallest load is not solved. The true capacity lies
/// between it and `unsolved`, the first load that is not solved; `censored`: there is none, so it is at least
/// this. lo, hi: each seed has such a pair of loads too. The interval reaches from the solved load of a low
/// seed to the unsolved load of a high one: the lowest and the highest (fewer than six seeds), or the order
/// statistics of summarise(). Its coverage is at least nominal; it is nominal where the grid is fine. hi may
/// be infinite.
struct Capacity {
  double capacity = 0, unsolved = 0, lo = 0, hi = 0;
  bool censored = false;
  int seeds = 0;
  std::map<std::int64_t, double> by_seed = {};  ///< the last solved load of each
};
Capacity capacity(const std::vector<LoadPoint>& points, double threshold);

/// A measurement that is known to lie between two values; hi may be infinite.
struct Bracket {
  double x = 0, lo = 0, hi = 0;
};

/// Line y = slope x + intercept through brackets with normal errors of one variance (interval regression,
/// maximum likelihood), and the 95 % interval of the slope: where the profile likelihood falls by
/// n/2 log(1 + t^2/(n-2)), t of Student with n - 2 degrees of freedom, which is exact for points and nearly
/// so for brackets that are not wide against the errors; where they are wide it covers more. NaN with fewer
/// than three distinct x among the brackets that end.
struct LineFit {
  int n = 0;
  double slope = 0, slope_lo = 0, slope_hi = 0, intercept = 0;
};
LineFit fit_line(const std::vector<Bracket>& brackets);

/// Spearman's rank correlation of pairs (equal values share the mean of their ranks) and its 95 % interval by Fisher's z with
/// Bonett and Wright's (2000) variance (1 + r^2 / 2) / (n - 3). NaN where fewer than four pairs, or none that differ.
struct RankCorrelation {
  int n = 0;
  double value = 0, lo = 0, hi = 0;
};
RankCorrelation rank_correlation(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace crosstalk
