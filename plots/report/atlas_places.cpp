// Rows of the atlas ranked: which settings rank them alike, and where one's own stands.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plots/report/atlas.h"

namespace crosstalk {

double Atlas::standing(std::size_t row, std::size_t column) const {
  const AtlasCell& cell = cells[row][column];
  if (cell.state == CellState::at_chance || cell.state == CellState::by_shortcut ||
      cell.state == CellState::diverged)
    return -kInfinity;
  if (cell.state != CellState::value) return kNone;
  return columns[column].metric.is_loss ? -cell.row.median : cell.row.median;
}

RankCorrelation Atlas::agreement(std::size_t a, std::size_t b) const {
  std::vector<double> x, y;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double one = standing(row, a), other = standing(row, b);
    if (std::isnan(one) || std::isnan(other)) continue;
    x.push_back(one), y.push_back(other);
  }
  return rank_correlation(x, y);
}

std::vector<AtlasPlace> atlas_places(const Atlas& atlas, std::string& told_by) {
  std::vector<AtlasPlace> places;
  std::vector<double> p;
  int most = 0;
  for (std::size_t row = 0; row < atlas.rows.size(); ++row)
    for (std::size_t column = 0; atlas.rows[row].mine && column < atlas.columns.size(); ++column) {
      if (std::isnan(atlas.standing(row, column))) continue;
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < atlas.rows.size(); ++i)
        if (!std::isnan(atlas.standing(i, column))) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return atlas.standing(a, column) > atlas.standing(b, column);
      });
      const double own = atlas.standing(row, column);
      AtlasPlace place{row, column, 1, order.size()};
      std::optional<std::size_t> better, worse;
      for (const std::size_t i : order) {
        if (atlas.standing(i, column) > own) ++place.place, better = i;
        if (!worse && i != row && atlas.standing(i, column) <= own) worse = i;
      }
      for (const auto& other : {better, worse}) {
        if (!other) continue;
        const AtlasCell &mine = atlas.cells[row][column], &theirs = atlas.cells[*other][column];
        AtlasPlace::Neighbour one{
            *other, paired(mine.row.seeds, theirs.row.seeds, atlas.columns[column].metric.is_loss)};
        const bool nothing = mine.row.solved && theirs.row.solved;  // where they stop is no difference
        if (nothing || mine.state != CellState::value || theirs.state != CellState::value)
          one.difference.p = 1;
        if (one.difference.summary.n == 0) continue;
        most = std::max(most, one.difference.summary.n);
        p.push_back(one.difference.p);
        place.neighbours.push_back(one);
      }
      places.push_back(place);
    }
  const std::vector<double> corrected = holm(p);
  std::size_t at = 0;
  for (AtlasPlace& place : places)
    for (AtlasPlace::Neighbour& one : place.neighbours) {
      one.corrected = corrected[at++];
      one.told = is_told(one.corrected, one.difference.summary.lo, one.difference.summary.hi);
    }
  const std::string lacking = p.empty() ? "" : lacking_seeds(p.size(), most);
  told_by = p.empty()         ? "No seed is shared with a neighbour."
            : lacking.empty() ? fmt::format("Told from 0: signed-rank test, Holm over {}.", p.size())
                              : fmt::format("No difference can be told from 0: {}.", lacking);
  return places;
}

}  // namespace crosstalk
