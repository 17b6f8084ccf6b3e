// Two labels held against each other: runs of one seed share their data, so that values are paired by seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "results/numbers/statistics.h"

namespace crosstalk {

/// What the run of one seed reached. `seed` names all its seeds (select.h, seeds_of()).
struct SeedValue {
  std::string seed;
  double value = 0;
};
using SeedValues = std::vector<SeedValue>;

/// The error that a table of comparisons as a whole may make: that it sets one label apart though all are equal.
inline constexpr double kDoubt = 0.05;

/// a - b over the seeds that both have. Two runs that diverged are equal.
struct Paired {
  SeedValues differences;
  Summary summary;  ///< of the differences: their median, and its interval as everywhere (summarise())
  int wins = 0;     ///< seeds in which a is better
  double p = 1;     ///< signed_rank_p(); from six seeds on it can be 0.05 or less
};
Paired paired(const SeedValues& a, const SeedValues& b, bool smaller_is_better);

/// Two-sided p of Wilcoxon's signed-rank test (1945) that differences lie symmetrically about 0, as they do where labels are
/// equal: by how many means of two of them (Walsh's averages; each with itself, too) lie on either side. Means of 0 count on
/// both, so that p errs upwards where values coincide. Infinite differences count as the largest. O(n^2).
double signed_rank_p(const std::vector<double>& differences);

/// p-values after Holm's correction (1979) for all of them together.
std::vector<double> holm(const std::vector<double>& p);

/// Whether p after Holm's correction and the interval both leave no doubt: a difference is told from 0.
inline bool is_told(double corrected, double lo, double hi) {
  return corrected <= kDoubt && (lo > 0 || hi < 0);
}

/// The fewest seeds of which a table of so many comparisons can set any apart: 2^(1 - n) <= kDoubt / comparisons.
int fewest_seeds(std::size_t comparisons);

/// Seeds by which a true difference of `size` is told in four of five tables of so many comparisons, where differences of
/// seeds spread as these do (normal approximation, as many as fewest_seeds() at least). 0 where fewer than two are finite.
int seeds_to_detect(const std::vector<double>& differences, double size, std::size_t comparisons);

/// A cell of a table's column.
struct Contender {
  SeedValues seeds;
  bool solved = false;  ///< such cells are equally good, whatever their values
};
/// Which cells are best beyond doubt.
struct BestOfPoints {
  std::vector<int> best;        ///< of each point the index of its best contender; -1: none
  std::size_t comparisons = 0;  ///< of the contender with the best median with all others, over all points
  int fewest_pairs = 0, most_pairs = 0;  ///< seeds that these have in common
};
/// A contender is best where its difference to every other one of the point is told (is_told), by Holm over all these
/// comparisons of all points. Contenders without values are none.
BestOfPoints best_of_points(const std::vector<std::vector<Contender>>& points, bool smaller_is_better);

}  // namespace crosstalk
