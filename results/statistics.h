// Statistics of figures: medians, intervals over seeds, capacity, fitted slopes. Done here, tested here; the
// plotting scripts only draw. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

/// Median of the finite and infinite values (NaN dropped); NaN if none. Mean of the two middle values for
/// even n.
double median(std::vector<double> values);

/// Linear-interpolated quantile (NumPy's default), 0 <= p <= 1.
double quantile(std::vector<double> values, double p);

/// Median with an interval over seeds.
struct Summary {
  int n = 0;
  double median = 0, lo = 0, hi = 0;
};

/// Median and interquartile range (n >= 4) or min..max (n < 4).
Summary summarise(const std::vector<double>& values);

/// One seed's loss at one load.
struct LoadPoint {
  double load = 0;
  std::int64_t seed = 0;
  double loss = 0;  ///< NaN or infinite (diverged) counts as not solved
};

/// Capacity of a memory: the largest load of the grid such that it and every smaller load are solved by the
/// median seed (median loss <= threshold); 0 if the smallest load is not solved. `censored`: the largest load
/// of the grid is solved, so the true capacity is at least this. lo, hi: bootstrap interval over seeds
/// (percentile, 95 %, fixed random seed, 2000 resamples of whole seeds).
struct Capacity {
  double capacity = 0, lo = 0, hi = 0;
  bool censored = false;
  int seeds = 0;
};
Capacity capacity(const std::vector<LoadPoint>& points, double threshold);

/// Least-squares line y = slope x + intercept with a 95 % interval of the slope (Student t). Needs n >= 3 for
/// an interval; otherwise lo = hi = NaN.
struct LineFit {
  int n = 0;
  double slope = 0, slope_lo = 0, slope_hi = 0, intercept = 0;
};
LineFit fit_line(const std::vector<double>& x, const std::vector<double>& y);

/// Rank bound of tasks with S one-hot values read through d_dot dimensions (Eckart-Young): 0.5 max(0, 1 -
/// d_dot/S).
double rank_bound(double d_dot, double associations);

}  // namespace crosstalk
