// Neighbouring places of a series put together: where few sequences share a length, that of one says little.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// `width` of an axis from `first` on stands together; 0: each place alone.
struct Groups {
  double first = 0, width = 0;
};

/// About sixteen groups over the places of all series; none where they have no more places than that.
inline Groups groups_of(const std::vector<const Series*>& all) {
  constexpr double kGroups = 16;
  double first = std::numeric_limits<double>::infinity(), last = -first;
  for (const Series* series : all) {
    first = std::min(first, series->x.front());
    last = std::max(last, series->x.back());
  }
  if (!(last - first >= kGroups)) return {};
  return {first, std::ceil((last - first + 1) / kGroups)};
}

/// The mean value of each group, at its middle.
inline Series grouped(const Series& series, const Groups& groups) {
  if (groups.width <= 0) return series;
  std::map<double, std::vector<double>> members;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i)
    members[std::floor((series.x[i] - groups.first) / groups.width)].push_back(series.y[i]);
  Series means;
  for (const auto& [group, values] : members) {
    double sum = 0;
    for (const double value : values) sum += value;
    means.x.push_back(groups.first + (group + 0.5) * groups.width);
    means.y.push_back(sum / static_cast<double>(values.size()));
  }
  return means;
}

}  // namespace crosstalk
