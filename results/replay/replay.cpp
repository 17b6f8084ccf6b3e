// A replay beside the paper.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <set>
#include <stdexcept>
#include <tuple>

#include "results/csv.h"
#include "results/numbers/statistics.h"
#include "results/printable.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

constexpr std::time_t longest_pause =
    60;  // seconds in which no run was training; a longer one is not counted

std::string text_of(const std::filesystem::path& path) {
  try {
    return read_file(FileSystem::real(), path);
  } catch (const StoreError& error) {
    throw std::invalid_argument(error.what());
  }
}

/// The number that is compared: of a file of losses the loss; else the first metric that we have, too.
std::string metric_of(const PublishedPoint& point) {
  if (point.has_loss) return "eval_loss";
  for (const char* name : {"eval_accuracy", "scaled_accuracy", "exact", "test_class_accuracy"})
    if (point.metrics.contains(name)) return name;
  return "";
}

/// Metrics that are read at another length than that of training, task.length of the published file. Without one a scaled
/// accuracy is that of the whole test split.
bool is_by_length(const PublishedPoint& point, const std::string& metric) {
  return metric == "exact" || (metric == "scaled_accuracy" && point.known.contains("task.length"));
}

double factor_of(const Record& record, const PublishedPoint& point) {
  const auto length = point.known.find("task.length");
  const auto trained = config_number(record, "task.length");
  if (length == point.known.end() || !trained) return 1;
  return number_in(length->second).value_or(std::nan("")) / *trained;
}

/// The name of what value_of() reads.
std::string read_of(const Record& record, const PublishedPoint& point, const std::string& metric) {
  if (is_by_length(point, metric)) return metric + "_by_length";
  if (metric == "scaled_accuracy") return "test_scaled_accuracy";
  return metric == "eval_accuracy" && record.metrics.contains("test_accuracy") ? "test_accuracy" : metric;
}

/// A mean over classes with those that the published score counts as always right.
double counted(double accuracy, const PublishedPoint& point) {
  const auto share = point.metrics.find("always_right");
  return share == point.metrics.end() ? accuracy : accuracy + share->second * (1 - accuracy);
}

/// NaN: the run has no such number.
double value_of(const Record& record, const PublishedPoint& point, const std::string& metric) {
  const bool is_loss = metric == "eval_loss";
  if (is_loss && lacks_loss(record)) return std::nan("");
  if (record.status == RunStatus::diverged || (is_loss && !std::isfinite(record.eval_loss)))
    return is_loss ? std::numeric_limits<double>::infinity() : 0;
  if (is_loss) return record.eval_loss;
  const std::string read = read_of(record, point, metric);
  if (is_by_length(point, metric)) {
    const auto profile = record.profiles.find(read);
    if (profile == record.profiles.end()) return std::nan("");
    for (std::size_t i = 0; i < profile->second.x.size(); ++i)
      if (profile->second.x[i] == factor_of(record, point)) return profile->second.y[i];
    return std::nan("");
  }
  if (read == "eval_accuracy") return record.eval_accuracy;
  return counted(metric_in(record, read), point);
}

/// The point of a figure that stands for runs such as this one; none: null. A figure's --by writes its keys behind the label.
const FigurePoint* figure_point_of(const std::vector<FigurePoint>& figure, const Record& record,
                                   const PublishedPoint& point) {
  for (const FigurePoint& one : figure) {
    if (one.label != record.label && !one.label.starts_with(record.label + ", ")) continue;
    const bool here = std::ranges::all_of(one.at, [&](const auto& cell) {
      const auto& [key, value] = cell;
      if (key == "length_factor") return number_in(value) == factor_of(record, point);
      const auto ours = config_text(record, key);
      return !ours || same_text(*ours, value);
    });
    if (here) return &one;
  }
  return nullptr;
}

/// Runs of the point, each once, and in what they differ where they may.
RecordList runs_of(const PublishedPoint& point, const std::map<std::string, Record>& records,
                   const std::vector<std::string>& allowed, std::set<std::string>& deviations) {
  PublishedPoint wanted = point;
  if (is_by_length(point, metric_of(point))) wanted.known.erase("task.length");
  RecordList runs;
  std::set<std::string> ids;
  for (const auto& [key, record] : records) {
    if (record.status == RunStatus::failed || ids.count(record.id) != 0) continue;
    if (count_differences(record, wanted, false, allowed, 1) > 0) continue;
    const std::vector<std::string> differ = differences(record, wanted);
    ids.insert(record.id);
    runs.push_back(&record);
    deviations.insert(differ.begin(), differ.end());
  }
  return runs;
}

/// Those at the best values, if there are several.
RecordList at_best(const RecordList& runs, const ReplayOptions& options, Comparison& row) {
  std::vector<std::string> varying;
  for (const std::string& key : options.best) {
    std::set<std::string> values;
    for (const Record* record : runs) values.insert(config_text(*record, key).value_or(""));
    if (values.size() > 1) varying.push_back(key);
  }
  const RecordList best = varying.empty() ? runs : choose_best(runs, varying, options.best_by);
  if (std::ranges::find(varying, "train.learning_rate") != varying.end())
    row.edges = edge_choices(runs, varying, "train.learning_rate", options.best_by);
  std::vector<std::string> values;
  for (const std::string& key : options.best)
    values.push_back(best.empty() ? "" : config_text(*best.front(), key).value_or(""));
  row.chosen = fmt::format("{}", fmt::join(values, ", "));
  return best;
}

bool agrees(const Comparison& row) {
  const Agreement agreement = row.published.agreement.empty() ? Agreement::usual(row.is_loss)
                                                              : Agreement::parse(row.published.agreement);
  const double best = row.is_loss ? row.lowest : row.highest;
  // Numbers of tables are rounded: what is as far off as the tolerance is near enough.
  const auto near = [&](double ours) { return std::abs(ours - row.value) <= agreement.number + 1e-9; };
  const bool inside = agreement.in_range && row.lowest <= row.value && row.value <= row.highest;
  switch (agreement.of) {
    case Agreement::Of::nothing:
      return inside;
    case Agreement::Of::median:
      return inside || near(row.median);
    case Agreement::Of::best:
      return inside || near(best);
    case Agreement::Of::each:
      return row.lowest >= agreement.number;
    case Agreement::Of::loss:
      return inside || is_within(row.median, row.value);
  }
  return false;
}

/// What a model reads that guesses, or answers nothing; nothing where the record does not say it.
std::optional<double> guess_of(const Record& record, const Comparison& row) {
  if (row.metric == "scaled_accuracy" || row.metric == "exact") return 0;
  const auto known = record.metrics.find(row.is_loss ? "constant_loss" : "chance_accuracy");
  return known == record.metrics.end() ? std::nullopt : std::optional(counted(known->second, row.published));
}

/// Whether the rule would be met if all our seeds had this value.
bool would_agree(const Comparison& row, double value) {
  Comparison other;
  other.published = row.published, other.value = row.value, other.is_loss = row.is_loss;
  other.lowest = other.median = other.highest = value;
  return agrees(other);
}

/// Refuses runs of one point that differ in anything but seeds: their median would mean nothing.
void check_pooled_seeds(const Comparison& row, bool chosen) {
  const Pooled pooled = pooled_differences(row.runs);
  if (pooled.differing.empty()) return;
  std::vector<std::string> place;
  for (const auto& [key, value] : row.published.known) place.push_back(fmt::format("{} {}", key, value));
  throw std::invalid_argument(fmt::format(
      "the {} runs of \"{}\"{} differ in {}, and a comparison pools over seeds only: {}--where {}={} takes those of "
      "one value, a column {} of the published file tells points apart",
      row.runs.size(), row.published.label, place.empty() ? "" : fmt::format(" ({})", fmt::join(place, ", ")),
      fmt::join(pooled.differing, " and "),
      chosen ? "" : fmt::format("--best {} takes the best on validation data, ", pooled.key), pooled.key,
      pooled.value, pooled.key));
}

/// What the runs do otherwise than the study that replays the point, what `deviations` say aside.
void hold_against_studies(Comparison& row, const ReplayOptions& options) {
  std::set<Otherwise> found;
  for (const Record* record : row.runs)
    for (const Otherwise& one : otherwise_than(*record, row.published, options.studies))
      if (std::ranges::none_of(row.deviations, [&](const std::string& deviation) {
            return deviation.starts_with(one.key + " (");
          }))
        found.insert(one);
  row.otherwise.assign(found.begin(), found.end());
  row.trained_otherwise = std::ranges::any_of(found, [&](const Otherwise& one) {
    return std::ranges::find(options.allowed, one.key) == options.allowed.end();
  });
}

/// Keys that tell the rows apart, the fewest in this order.
std::vector<std::string> differing_keys(const std::vector<Comparison>& rows) {
  std::vector<std::string> order = {"task.group",  "task.name",   "task.associations", "task.pairs",
                                    "task.length", "model.width", "model.d_key"};
  for (const Comparison& row : rows)
    for (const auto& [key, value] : row.published.known)
      if (std::ranges::find(order, key) == order.end()) order.push_back(key);
  const auto kinds = [&](const std::vector<std::string>& keys) {
    std::set<std::vector<std::string>> seen;
    for (const Comparison& row : rows) {
      std::vector<std::string> cells = {row.published.label};
      for (const std::string& key : keys) {
        const auto known = row.published.known.find(key);
        cells.push_back(known == row.published.known.end() ? "" : known->second);
      }
      seen.insert(cells);
    }
    return seen.size();
  };
  std::vector<std::string> keys;
  for (const std::string& key : order) {
    std::vector<std::string> more = keys;
    more.push_back(key);
    if (kinds(more) > kinds(keys)) keys = more;
  }
  return keys;
}

}  // namespace

bool is_within(double ours, double published) {
  if (!std::isfinite(published)) return !std::isfinite(ours);
  if (published <= published_solved) return ours <= published_solved;
  return std::abs(ours - published) <= std::max(0.1 * published, 0.01);
}

Agreement Agreement::parse(const std::string& text) {
  const auto wrong = [&]() -> Agreement {
    throw std::invalid_argument(
        fmt::format("agreement '{}': it is \"median within 0.02\", \"best within 0.02\" (either with \"or in "
                    "range\"), \"in range\", \"each at least 0.99\" or \"loss\"",
                    printable_line(text)));
  };
  Agreement agreement;
  std::string rest = text;
  const std::string range = "in range", other = " or in range";
  if (rest == range) {
    agreement.in_range = true;
    return agreement;
  }
  if (rest.ends_with(other)) {
    agreement.in_range = true;
    rest.resize(rest.size() - other.size());
  }
  if (rest == "loss") {
    agreement.of = Of::loss;
    return agreement;
  }
  for (const auto& [begin, of] :
       {std::pair{"median within ", Of::median}, {"best within ", Of::best}, {"each at least ", Of::each}}) {
    if (!rest.starts_with(begin)) continue;
    const auto number = number_in(std::string_view(rest).substr(std::string_view(begin).size()));
    if (!number || !(*number >= 0) || (of == Of::each && agreement.in_range)) return wrong();
    agreement.of = of;
    agreement.number = *number;
    return agreement;
  }
  return wrong();
}

void Agreement::check(bool is_loss) const {
  if ((of == Of::each && is_loss) || (of == Of::loss && !is_loss))
    throw std::invalid_argument(fmt::format(
        "agreement '{}' is a rule for {}: this row is compared by its {}",
        of == Of::each ? "each at least" : "loss",
        is_loss
            ? "accuracies; losses agree by \"loss\", \"median within 0.02\", \"best within 0.02\" or \"in range\""
            : "losses; accuracies agree by \"median within 0.02\", \"best within 0.02\", \"in range\" or \"each at least 0.99\"",
        is_loss ? "eval_loss" : "accuracy"));
}

Agreement Agreement::usual(bool is_loss) {
  if (is_loss) return {.of = Of::loss};
  return {.of = Of::median, .number = 0.02, .in_range = true};
}

std::vector<FigurePoint> read_figure(const std::filesystem::path& path) {
  static const std::string what = "points of a figure";
  std::vector<FigurePoint> points;
  read_csv(text_of(path), path.string(), [&](const CsvRow& row) {
    FigurePoint point;
    point.label = row.text("label", what);
    for (const char* column : {"n", "median", "lo", "hi"}) row.text(column, what);
    if (!row.has("median") || point.label.starts_with("theory") || point.label.starts_with("published"))
      return;
    point.seeds = static_cast<int>(row.integer("n", what));
    if (point.seeds >= seeds_of_an_interval)
      row.fail(
          fmt::format("{} seeds: lo and hi are an interval of confidence, not the range; give the runs with "
                      "their profiles (a store, or an export with NAME.curves.csv beside it)",
                      point.seeds));
    point.median = row.number("median", what);
    point.lowest = row.has("lo") ? row.number("lo", what) : point.median;
    point.highest = row.has("hi") ? row.number("hi", what) : point.median;
    for (std::size_t i = 0; i < row.columns().size(); ++i) {
      const std::string& column = row.columns()[i];
      if (column == "length_factor" || column.find('.') != std::string::npos) point.at[column] = row.cell(i);
    }
    points.push_back(point);
  });
  return points;
}

std::vector<Comparison> compare(const std::vector<PublishedPoint>& points,
                                const std::map<std::string, Record>& records, const ReplayOptions& options) {
  std::vector<Comparison> rows;
  for (const PublishedPoint& point : points) {
    Comparison row;
    row.metric = metric_of(point);
    if (row.metric.empty()) continue;
    row.published = point;
    row.number = static_cast<std::size_t>(&point - points.data());
    row.is_loss = row.metric == "eval_loss";
    row.value = row.is_loss ? point.loss : point.metrics.at(row.metric);
    std::set<std::string> deviations;
    const RecordList runs = at_best(runs_of(point, records, options.allowed, deviations), options, row);
    std::vector<double> values, steps;
    RecordList with_value;
    for (const Record* record : runs) {
      const double value = value_of(*record, point, row.metric);
      if (std::isnan(value)) continue;
      values.push_back(value);
      with_value.push_back(record);
      steps.push_back(static_cast<double>(record->steps));
    }
    row.deviations.assign(deviations.begin(), deviations.end());
    row.runs = values.empty() ? runs : with_value;
    if (!values.empty()) {
      check_pooled_seeds(row, !options.best.empty());
      row.seeds = static_cast<int>(values.size());
      row.lowest = *std::ranges::min_element(values);
      row.highest = *std::ranges::max_element(values);
      row.median = median(values);
      row.steps = median(steps);
    } else if (const FigurePoint* drawn =
                   runs.empty() ? nullptr : figure_point_of(options.figure, *runs.front(), point)) {
      row.seeds = drawn->seeds;
      row.lowest = drawn->lowest, row.median = drawn->median, row.highest = drawn->highest;
      row.steps = static_cast<double>(runs.front()->steps);
    } else {
      continue;
    }
    row.read = read_of(*row.runs.front(), point, row.metric);
    hold_against_studies(row, options);
    row.agrees = !row.trained_otherwise && agrees(row);
    row.perfect_agrees = would_agree(row, row.is_loss ? 0 : 1);
    if (const auto guess = guess_of(*row.runs.front(), row)) row.guess_agrees = would_agree(row, *guess);
    rows.push_back(row);
  }
  std::ranges::stable_sort(rows, [](const Comparison& a, const Comparison& b) {
    const auto key = [](const Comparison& row) {
      return std::tie(row.published.setting, row.published.label, row.published.associations);
    };
    return key(a) < key(b);
  });
  return rows;
}

void check_metric(const std::vector<PublishedPoint>& points, const std::string& metric) {
  for (const PublishedPoint& point : points) {
    const std::string by = metric_of(point);
    if (by.empty() || by == metric || (by == "eval_accuracy" && metric == "test_accuracy")) continue;
    throw std::invalid_argument(fmt::format(
        "--metric {}: these points were measured by {}, the column of their file, and another number of "
        "ours says nothing about them; leave --metric out",
        metric, by));
  }
}

std::vector<std::string> without_runs(const std::vector<PublishedPoint>& points,
                                      const std::map<std::string, Record>& records,
                                      const ReplayOptions& options, const std::vector<Comparison>& rows) {
  std::set<std::size_t> met;
  for (const Comparison& row : rows) met.insert(row.number);
  std::vector<PublishedPoint> left;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (met.count(i) != 0) continue;
    left.push_back(points[i]);
    if (is_by_length(points[i], metric_of(points[i]))) left.back().known.erase("task.length");
  }
  std::map<std::string, int> unread;  // points whose runs lack the number
  std::erase_if(left, [&](const PublishedPoint& point) {
    std::set<std::string> ignored;
    if (runs_of(point, records, options.allowed, ignored).empty()) return false;
    ++unread[metric_of(point)];
    return true;
  });
  std::vector<std::string> lines = without_partner(left, records, false, points.size(), options.allowed);
  for (const auto& [metric, count] : unread)
    lines.push_back(
        metric.empty()
            ? fmt::format("{} published points have no number that is compared, which is eval_accuracy, "
                          "scaled_accuracy, test_class_accuracy, exact or, with task.associations, eval_loss",
                          count)
        : metric == "test_class_accuracy"
            ? fmt::format(
                  "{} published points have runs here without {}, by which they were measured: they were trained before records had it",
                  count, metric)
            : fmt::format(
                  "{} published points have runs here that were not read for {} there (eval.length_factors says at which lengths)",
                  count, metric));
  return lines;
}

std::string power_text(const std::vector<Comparison>& rows) {
  std::ptrdiff_t known = 0, guessed = 0, perfect = 0;
  std::map<int, std::ptrdiff_t> by_seeds;
  for (const Comparison& row : rows) {
    known += row.guess_agrees.has_value(), guessed += row.guess_agrees.value_or(false);
    perfect += row.perfect_agrees;
    ++by_seeds[row.seeds];
  }
  std::string text = fmt::format("a perfect model would pass {}", perfect);
  if (known > 0)
    text = fmt::format(
        "a guessing model would pass {}{}, a perfect one {}", guessed,
        known == std::ssize(rows) ? "" : fmt::format(" of the {} whose chance is known", known), perfect);
  const auto most =
      std::ranges::max_element(by_seeds, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::ptrdiff_t added = 0, added_agree = 0;
  for (const Comparison& row : rows)
    if (row.seeds > most->first) ++added, added_agree += row.agrees;
  if (added > 0)
    text += fmt::format("; {} of the {} with more than {} seed{} agree{}", added_agree, added, most->first,
                        most->first == 1 ? "" : "s", added_agree == 1 ? "s" : "");
  return text;
}

std::string comparison_table(const std::vector<Comparison>& rows) {
  const std::vector<std::string> keys = differing_keys(rows);
  const bool chosen = std::ranges::any_of(rows, [](const auto&row) { return !row.chosen.empty(); }),
             losses = std::ranges::any_of(rows, [](const auto&row) { return row.is_loss; });
  const auto text = [](const Comparison& row, double value) {
    if (!std::isfinite(value)) return std::string("diverged");
    return fmt::format("{:.{}f}", value, row.is_loss ? 5 : 3);
  };
  std::string out = "| memory |";
  for (const std::string& key : keys) out += fmt::format(" {} |", printable_line(key));
  out += fmt::format(" published |{} ours: lowest | median | highest | seeds |{}{} agrees |\n",
                     losses ? " its steps |" : "", losses ? " steps |" : "", chosen ? " best |" : "");
  out += "|---|";
  for (std::size_t i = 0; i < keys.size(); ++i) out += "---|";
  out += fmt::format("--:|{}--:|--:|--:|--:|{}{}---|\n", losses ? "--:|" : "", losses ? "--:|" : "",
                     chosen ? "--:|" : "");
  for (const Comparison& row : rows) {
    const PublishedPoint& point = row.published;
    out += fmt::format("| {} |", printable_line(point.label));
    for (const std::string& key : keys) {
      const auto known = point.known.find(key);
      out += fmt::format(" {} |", known == point.known.end() ? "" : printable_line(known->second));
    }
    out += fmt::format(" {} |", text(row, row.value));
    if (losses) out += point.steps > 0 ? fmt::format(" {} |", point.steps) : " |";
    out += fmt::format(" {} | {} | {} | {} |", text(row, row.lowest), text(row, row.median),
                       text(row, row.highest), row.seeds);
    if (losses) out += fmt::format(" {:.0f} |", row.steps);
    if (chosen) out += fmt::format(" {} |", printable_line(row.chosen));
    out += row.trained_otherwise ? " trained otherwise |\n" : row.agrees ? " yes |\n" : " **no** |\n";
  }
  return out;
}

std::string edges_of(const std::vector<Comparison>& rows) {
  std::map<std::string, EdgeChoice> of_label;
  for (const Comparison& row : rows) {
    EdgeChoice& all = of_label[row.published.label];
    all.label = row.published.label;
    all.choices += 1;
    for (const EdgeChoice& edge : row.edges) all.smallest += edge.smallest, all.largest += edge.largest;
  }
  std::vector<EdgeChoice> edges;
  for (const auto& [label, edge] : of_label) edges.push_back(edge);
  return edges_text(edges);
}

std::string not_compared(const std::vector<Comparison>& rows) {
  std::map<std::string, std::set<std::size_t>> points;
  for (const Comparison& row : rows)
    for (const auto& [key, value] : row.published.known)
      if (std::ranges::none_of(row.runs, [&, &name = key](const Record* record) {
            return config_text(*record, name).has_value();
          }))
        points[fmt::format("{} ({})", printable_line(key), printable_line(value))].insert(row.number);
  std::vector<std::string> parts;
  for (const auto& [key, numbers] : points)
    parts.push_back(numbers.size() == rows.size()
                        ? key
                        : fmt::format("{}: {} of {} points", key, numbers.size(), rows.size()));
  return parts.empty() ? ""
                       : fmt::format("Not compared, for no run here has it: {}.", fmt::join(parts, "; "));
}

std::vector<std::string> deviations_of(const std::vector<Comparison>& rows) {
  std::map<std::string, int> counts;
  for (const Comparison& row : rows)
    for (const std::string& deviation : row.deviations) ++counts[deviation];
  std::vector<std::string> lines;
  for (const auto& [deviation, count] : counts)
    lines.push_back(count == static_cast<int>(rows.size())
                        ? deviation
                        : fmt::format("{}: {} of {} points", deviation, count, rows.size()));
  return lines;
}

std::vector<std::string> provenance_of(const std::filesystem::path& export_path) {
  std::filesystem::path path = export_path;
  path.replace_extension(".provenance.csv");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  using Span = std::pair<std::time_t, std::time_t>;
  struct Source {
    std::string first;
    std::vector<Span> spans;  // of each run
  };
  std::map<std::pair<std::string, std::string>, Source> sources;
  static const std::string what = "exports with --provenance";
  const auto moment = [&](const std::string& text) {
    std::tm time = {};
    int year = 0;
    if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d", &year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
                    &time.tm_min, &time.tm_sec) != 6)
      throw std::invalid_argument(fmt::format("{}: '{}' is no time", path.string(), printable_line(text)));
    time.tm_year = year - 1900;
    time.tm_mon -= 1;
    return timegm(&time);
  };
  read_csv(text_of(path), path.string(), [&](const CsvRow& row) {
    Source& source =
        sources[{row.text("provenance.commit", what).substr(0, 7), row.text("provenance.device", what)}];
    const std::string& started = row.text("provenance.started", what);
    source.first = source.spans.empty() ? started : std::min(source.first, started);
    source.spans.emplace_back(moment(started), moment(row.text("provenance.finished", what)));
  });
  const auto seconds = [](std::vector<Span> spans) {
    std::ranges::sort(spans);
    std::time_t all = 0, last = spans.front().first;
    for (const auto& [from, to] : spans) {
      if (to <= last) continue;
      all += from - last > longest_pause ? to - from : to - last;
      last = to;
    }
    return all;
  };
  std::vector<std::string> lines;
  for (const auto& [of, source] : sources)
    lines.push_back(fmt::format("{}: {} runs, commit {}, {}, {} s on {}", export_path.filename().string(),
                                source.spans.size(), of.first, of.second, seconds(source.spans),
                                source.first.substr(0, 10)));
  return lines;
}

}  // namespace crosstalk
