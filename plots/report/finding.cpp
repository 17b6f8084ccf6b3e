// What a study found, in one paragraph a task: labels held against one of them, point by point.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "plots/drawing/drawing.h"
#include "plots/drawing/prepare.h"
#include "plots/report/report_parts.h"
#include "plots/report/suggest.h"
#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

/// A label's points beside those of the label that it is held against.
struct Standing {
  int ahead = 0, behind = 0, undecided = 0, solved = 0, at_chance = 0;
  const FigureRow *best = nullptr,
                  *worst = nullptr;  ///< the largest differences that are told, of either sign
  int points() const { return ahead + behind + undecided + solved + at_chance; }
};

void count(Standing& standing, const FigureRow& row) {
  const bool ahead = 2 * row.wins > row.n;
  if (row.told) {
    ++(ahead ? standing.ahead : standing.behind);
    const FigureRow*& largest = ahead ? standing.best : standing.worst;
    if (largest == nullptr || std::abs(row.median) > std::abs(largest->median)) largest = &row;
  } else {
    ++(row.both_at_chance ? standing.at_chance : row.solved ? standing.solved : standing.undecided);
  }
}

/// "0.1 [0.08, 0.12] at pairs = 16, width = 64".
std::string size_text(const FigureRow& row, const Drawing& drawing) {
  std::vector<std::string> where;
  if (!drawing.needs.empty()) where.push_back(fmt::format("{} = {:g}", symbol_of(drawing.needs[0]), row.x));
  if (!row.facet.empty())
    where.push_back(
        fmt::format("{} = {}", symbol_of(drawing.figure.value("facet", std::string())), row.facet));
  const bool falls = row.median < 0;
  return fmt::format("{:.3g} [{:.3g}, {:.3g}]{}", std::abs(row.median), falls ? -row.hi : row.lo,
                     falls ? -row.lo : row.hi, where.empty() ? "" : " at " + listed(where));
}

std::string standing_text(const Standing& standing, const Drawing& drawing) {
  const int points = standing.points();
  std::vector<std::string> parts;
  const auto add = [&](const char* is, int count, const FigureRow* largest) {
    if (count == 0) return;
    const std::string where = points == 1       ? ""
                              : count == points ? fmt::format(" at all {} points", points)
                                                : fmt::format(" at {} of {} points", count, points);
    parts.push_back(fmt::format("{}{}{}", is, where,
                                largest == nullptr ? ""
                                                   : fmt::format(" (by {}{})", count > 1 ? "up to " : "",
                                                                 size_text(*largest, drawing))));
  };
  add("ahead", standing.ahead, standing.best);
  add("behind", standing.behind, standing.worst);
  add("undecided", standing.undecided, nullptr);
  add("solved like it", standing.solved, nullptr);
  add("at chance like it", standing.at_chance, nullptr);
  return listed(parts);
}

/// Of one label: how its runs ended.
std::string alone_text(const RecordList& records, const Names& names) {
  VerdictCounts ends;
  for (const Record* record : records) ++ends[verdict_of(*record)];
  return fmt::format("There is one label, {}, and nothing to hold it against. Its {}: {}.",
                     names.of(records.front()->label), plural(records.size(), "run"), listed(counted(ends)));
}

std::string compared_text(const ComposedFigure& made) {
  const Drawing& drawing = made.drawing;
  std::vector<std::pair<std::string, Standing>> labels;  // in the legend's order
  std::string against;
  bool one = true;
  std::size_t all = 0, at_chance = 0;
  for (const LineEntry& line : drawing.lines) {
    Standing standing;
    for (const FigureRow& row : drawing.rows)
      if (row.label == line.label && !row.against.empty()) {
        count(standing, row);
        one = one && (against.empty() || against == row.against);
        against = row.against;
      }
    if (standing.points() == 0) continue;
    all += static_cast<std::size_t>(standing.points());
    at_chance += static_cast<std::size_t>(standing.at_chance);
    labels.emplace_back(line.label, standing);
  }
  std::string text = fmt::format(
      "Held against {} by {}, paired by seed: ", one ? made.prepared.styles.at(against).name : "its like",
      drawing.difference_of);
  if (at_chance == all) return text + "all runs lie within the noise of chance; nothing is to be seen.";
  constexpr std::size_t most = 6;
  std::ranges::stable_sort(labels, [](const auto& a, const auto& b) {
    return a.second.ahead - a.second.behind > b.second.ahead - b.second.behind;
  });
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(labels.size(), most); ++i)
    parts.push_back(fmt::format("{} is {}", made.prepared.styles.at(labels[i].first).name,
                                standing_text(labels[i].second, drawing)));
  if (labels.size() > most) {
    Standing rest;
    for (std::size_t i = most; i < labels.size(); ++i) {
      const Standing& more = labels[i].second;
      rest.ahead += more.ahead, rest.behind += more.behind, rest.undecided += more.undecided;
      rest.solved += more.solved, rest.at_chance += more.at_chance;
    }
    parts.push_back(fmt::format("{} more labels are {}", labels.size() - most, standing_text(rest, drawing)));
  }
  return fmt::format("{}{}. {}", text, fmt::join(parts, ". "), drawing.told_by);
}

}  // namespace

std::vector<std::string> finding_text(const LabelledRecords& rows, const FigureOptions& options,
                                      const Names& names) {
  std::vector<std::string> texts;
  for (const SuggestedFigure& figure : suggested_figures(rows, options, "difference")) {
    const auto task = figure.options.where.find("task.name");
    const bool several = task != figure.options.where.end() && options.where.count("task.name") == 0;
    const RecordList records = choose_records(list_of(rows.rows), figure.options.where);
    std::string text;
    if (names.labels(records).size() == 1) {
      text = alone_text(records, names);
    } else {
      try {
        std::ostringstream unsaid;
        text = compared_text(compose_figure("difference", rows, figure.options, unsaid));
      } catch (
          const std::
              invalid_argument&) {  // no seed in common, no number to compare, an --against of another task
        text =
            "No two labels have runs of one seed at one place, by which they could be held against each other.";
      }
    }
    texts.push_back(several ? fmt::format("Task {}: {}", task->second, text) : text);
  }
  return texts;
}

}  // namespace crosstalk
