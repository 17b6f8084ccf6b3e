// The figure and the table of differences: each label held against one of them, paired by seed.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <cctype>
#include <cmath>

#include "plots/drawing/prepare.h"
#include "plots/drawing/window.h"
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

/// What --by puts behind the label of a line's records.
std::string values_of_by(const RecordLine& line, const std::vector<std::string>& by) {
  std::string text;
  for (const std::string& key : by)
    if (const auto value = field_text(*line.points.begin()->second.front(), key);
        key != "label" && value && !value->empty())
      text += fmt::format(", {} = {}", key, *value);
  return text;
}

/// The line that each is held against (itself, where it is that one; null where there is none): of one label, and with --by of
/// the same values, or one line alone.
std::vector<const RecordLine*> others_of(const std::vector<RecordLine>& lines, const FigureOptions& options) {
  const std::vector<std::string>& by = options.by;
  const auto named = [&](const std::string& label) {
    const auto at = std::ranges::find_if(lines, [&](const RecordLine& line) { return line.label == label; });
    return at == lines.end() ? nullptr : &*at;
  };
  std::string against = options.against;
  if (against.empty()) {
    against = lines.front().label;
    against.resize(against.size() - values_of_by(lines.front(), by).size());
  }
  const RecordLine* const one = named(against);
  std::vector<const RecordLine*> others;
  std::set<std::string> labels;
  for (const RecordLine& line : lines) {
    others.push_back(one != nullptr ? one : named(against + values_of_by(line, by)));
    labels.insert(line.label);
  }
  if (std::ranges::count(others, nullptr) == std::ssize(others)) {
    const std::string near = nearest_of(against, {labels.begin(), labels.end()});
    throw std::invalid_argument(fmt::format("--against {}: no label of that name{}; there are {}", against,
                                            near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near),
                                            fmt::join(labels, ", ")));
  }
  return others;
}

/// Of other tasks a seed draws other data: there is nothing to pair.
void check_same_task(const Record& one, const Record& other) {
  const auto task = config_text(one, "task.name"), against = config_text(other, "task.name");
  if (task && against && *task != *against)
    throw std::invalid_argument(fmt::format(
        "\"{}\" is of task.name = {}, \"{}\" of {}: no seed pairs them; take one task, for example: --where task.name={}",
        one.label, *task, other.label, *against, *task));
}

bool all_at_chance(const RecordList& records, const Metric& metric, const FigureInput& input) {
  const ChanceCount chance = chance_of(records, metric.name, input.options.answers);
  return chance.runs > 0 && chance.within == chance.runs;
}

Drawing draw_difference(const FigureInput& input) {
  if (input.options.log_y)
    throw std::invalid_argument("differences lie on either side of 0; leave out --log y");
  if (!input.options.published.empty())
    input.notes << "published points have no seeds to pair; difference leaves them out\n";
  const Metric metric = window_metric(input);
  const std::string x = final_key(input);
  const auto of_x = [&](const Record* record) { return place_on_axis(*record, x).has_value(); };
  const bool has_place = std::ranges::any_of(input.records, of_x);
  auto lines = make_lines(
      input.records,
      [&](const Record& record) { return has_place ? place_on_axis(record, x) : std::optional<double>(0); },
      has_place ? x : "", Apart::label);
  if (lines.empty()) throw std::invalid_argument("difference: " + no_number(input.records, x));
  sort_lines(lines, input.styles);
  const std::vector<const RecordLine*> others = others_of(lines, input.options);
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, x);
  if (has_place) drawing.needs = {x};
  drawing.metric = metric.name;
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, has_place ? x : "", input.notes);
  std::vector<RecordLine> shown;
  std::set<std::string> names;
  std::set<double> places;
  double low = 0, high = 0;
  bool both_solved = false, both_at_chance = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const RecordLine &line = lines[i], *other = others[i];
    if (&line == other) continue;
    std::size_t rows = 0;
    for (const auto& [place, records] : line.points) {
      const auto at = other == nullptr ? line.points.end() : other->points.find(place);
      if (other == nullptr || at == other->points.end()) continue;
      check_same_task(*records.front(), *at->second.front());
      const FigureRow ours = row_of(line, place, records, metric),
                      theirs = row_of(*other, place, at->second, metric);
      Paired found = paired(ours.seeds, theirs.seeds, metric.is_loss);
      if (ours.solved && theirs.solved) found.p = 1, both_solved = true;  // where they stop is no difference
      const bool chance = all_at_chance(records, metric, input) && all_at_chance(at->second, metric, input);
      if (chance) found.p = 1, both_at_chance = true;  // nor is how lucky guesses are
      const auto [n, median, lo, hi] = found.summary;
      if (n == 0) continue;
      FigureRow row{line.label, 0, place, n, median, lo, hi};
      row.against = other->label, row.wins = found.wins, row.p = found.p,
      row.seeds = std::move(found.differences), row.solved = ours.solved && theirs.solved;
      row.both_at_chance = chance;
      drawing.rows.push_back(row);
      places.insert(place);
      ++rows;
      for (const double y : {median, lo, hi})
        if (std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
    }
    if (rows == 0) {
      input.notes << fmt::format("{} has no seed in common with {}\n", line.label,
                                 other == nullptr ? "the label that it is held against" : other->label);
      continue;
    }
    names.insert(input.styles.at(other->label).name);
    shown.push_back(line);
  }
  if (shown.empty())
    throw std::invalid_argument(
        lines.size() == 1 ? fmt::format("difference needs two labels, and there is only {}", lines[0].label)
                          : "difference needs two labels with runs of one seed at one place");
  add_legend(drawing, shown, input.styles, expected, false);
  const double first = *places.begin();
  const auto [scale, range] = size_axis(first, *places.rbegin(), std::max(1.0, 0.1 * std::abs(first)));
  const double room = std::max(0.06 * (high - low), 1e-9);
  std::string& what = drawing.difference_of = metric.axis;
  what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
  set_axes(drawing,
           !has_place   ? ""
           : x == kLoad ? "Associations $S$"
                        : symbol_of(x),
           "Difference of " + what, scale, "linear", range, {low - room, high + room});
  const bool one = names.size() == 1;
  add_level(drawing, "no difference", one ? "Equal to " + *names.begin() : "No difference", 0, range);
  drawing.footnotes.push_back(fmt::format(
      "Paired by seed, each minus {}: {} 0 is better.",
      one ? *names.begin() : fmt::format("that of the same {}", fmt::join(input.options.by, ", ")),
      metric.is_loss ? "below" : "above"));
  if (both_solved)
    drawing.footnotes.push_back("Where both are solved nothing is told from 0: runs end where they stop.");
  if (both_at_chance) drawing.footnotes.push_back("Where both are at chance nothing is told from 0.");
  count_drawn_seeds(drawing, shown);
  return drawing;
}

}  // namespace

Figure difference() {
  return {
      .kind =
          {.name = "difference",
           .summary = "Labels held against one of them (--against), paired by seed",
           .x = "The key that varies, as in table final.",
           .y =
               "The median over seeds of a label's metric minus that of --against LABEL (without it the first) with the same seed, whose data are "
               "the same: test_accuracy of language models, else test_loss, or any --metric.",
           .statistic =
               "Line: the median of the differences; band: its interval ('crosstalk describe intervals'). A filled marker: told from 0 by "
               "the signed-rank test, corrected by Holm over all points and lines ('crosstalk describe bold').",
           .options = {"--against"},
           .columns = columns_over("KEY", {"against", "wins", "p", "p_holm", "told"})},
      .draw = draw_difference};
}

}  // namespace crosstalk::figures
