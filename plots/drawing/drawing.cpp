// Parts of settings that figures share: legends, footnotes, ranges, what counts as solved.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

/// Axis limits are read by people.
double three_digits(double value) { return std::stod(fmt::format("{:.3g}", value)); }

struct KnownMetric {
  const char *name, *axis;
  bool is_loss;
};
// Behind a loss stands what it is, loss_formula(): half the squared error, summed over the values and averaged over
// queries, or a cross-entropy.
constexpr KnownMetric kMetrics[] = {{"eval_loss", "Evaluation loss", true},
                                    {"best_eval_loss", "Best evaluation loss", true},
                                    {"test_loss", "Test loss", true},
                                    {"eval_accuracy", "Evaluation accuracy", false},
                                    {"test_accuracy", "Test accuracy", false},
                                    {"test_scaled_accuracy", "Test accuracy, 0 at chance", false},
                                    {"scaled_accuracy_last_quarter", "Scaled accuracy, last quarter", false},
                                    {"test_class_accuracy", "Test accuracy, mean over classes", false},
                                    {"test_bits_per_token", "Test loss in bits a token", true},
                                    {"test_perplexity", "Test perplexity", true},
                                    {"context_gap", "Test accuracy minus that for the next context", false},
                                    {"eval_exact", "Sequences with every answer right", false},
                                    {"test_exact", "Test sequences with every answer right", false},
                                    {"steps", "Training steps", true}};

double raw_value(const Record& record, const std::string& name) {
  if (name == "eval_loss") return record.eval_loss;
  if (name == "best_eval_loss") return record.best_eval_loss;
  if (name == "eval_accuracy") return record.eval_accuracy;
  if (name == "steps") return static_cast<double>(record.steps);
  return metric_in(record, name);
}

}  // namespace

std::string loss_formula(const RecordList& records) {
  static const std::string squared = " $\\frac{1}{2}|y-\\hat{y}|^2$", entropy = " (cross-entropy)";
  std::set<std::string> formulas;
  for (const Record* record : records) {
    const std::string model = config_text(*record, "model.name").value_or(""),
                      task = config_text(*record, "task.name").value_or("");
    const bool codes = config_number(*record, "model.value_codes").value_or(0) > 0;
    // Tables may say the task alone: values that are vectors are those of these two.
    const bool vectors = !model.empty() || task == "recall" || task == "reassign";
    formulas.insert(model == "language" || codes ? entropy : vectors ? squared : "");
  }
  return formulas.size() == 1 ? *formulas.begin() : "";
}

Metric metric_of(const FigureInput& input) {
  const std::string& asked = input.options.metric;
  const std::string name = !asked.empty() ? asked : input.options.best.empty() ? "eval_loss" : "test_loss";
  std::set<std::string> names;
  bool found = false;
  for (const Record* record : input.records) {
    found = found || std::isfinite(raw_value(*record, name));
    for (const auto& [metric, value] : record->metrics) names.insert(metric);
  }
  for (const KnownMetric& metric : kMetrics)
    if (metric.name == name && (found || name == "eval_loss")) {
      const bool loss = name.ends_with("_loss");  // of tokens another one than of vectors
      return {name, metric.axis + (loss ? loss_formula(input.records) : ""), metric.is_loss};
    }
  if (found) return {name, name, name.find("loss") != std::string::npos};
  names.insert({"eval_loss", "best_eval_loss", "eval_accuracy", "steps"});
  std::string nearest = nearest_of(name, {names.begin(), names.end()});
  std::vector<std::string> whole;  // accuracy: of which split?
  for (const char* split : {"eval_", "test_"})
    if (names.count(split + name) != 0) whole.push_back(split + name);
  if (!whole.empty()) nearest = fmt::format("{}", fmt::join(whole, " or "));
  if (name == "test_loss" || name == "test_accuracy")
    throw std::invalid_argument(
        fmt::format("no record has a {}: they were trained before records had one; train them again, or draw "
                    "--metric {}, which the selection has seen",
                    name, name == "test_loss" ? "eval_loss" : "eval_accuracy"));
  throw std::invalid_argument(fmt::format("--metric {}: no record has it{}", name,
                                          nearest.empty()
                                              ? fmt::format("; there are {}", fmt::join(names, ", "))
                                              : fmt::format("; did you mean {}?", nearest)));
}

double value_of(const Record& record, const Metric& metric) {
  if (has_diverged(record)) return metric.is_loss ? kInfinity : 0;
  return raw_value(record, metric.name);
}

namespace {

/// A loss on other sequences than those that ended training lies on either side of train.stop_loss.
constexpr double kSolvedFactor = 2;
constexpr double kUsualStopLoss = 1e-3;

std::set<double> stops_of(const FigureInput& input, const std::string& key) {
  std::set<double> stops;
  for (const Record* record : input.of_all_panels != nullptr ? *input.of_all_panels : input.records)
    if (const auto stop = config_number(*record, key); stop && *stop > 0) stops.insert(*stop);
  return stops;
}

std::set<double> stop_losses(const FigureInput& input) { return stops_of(input, "train.stop_loss"); }

double solved_at(const FigureInput& input, const std::set<double>& stops) {
  if (std::isfinite(input.options.threshold)) return input.options.threshold;
  return kSolvedFactor * (stops.empty() ? kUsualStopLoss : *stops.rbegin());
}

}  // namespace

namespace {

/// The smallest loss of answering nothing where the threshold is not below it: what is then solved says nothing.
std::optional<double> nothing_solves(const FigureInput& input, double threshold) {
  std::optional<double> least;
  for (const Record* record : input.records)
    for (const char* name : {"constant_loss", "chance_loss"})
      if (const auto nothing = record->metrics.find(name); nothing != record->metrics.end()) {
        if (threshold >= nothing->second && (!least || nothing->second < *least)) least = nothing->second;
        break;
      }
  return least;
}

}  // namespace

double threshold_of(const FigureInput& input) {
  const std::set<double> stops = stop_losses(input);
  if (std::isfinite(input.options.threshold)) {
    if (!stops.empty() && input.options.threshold < *stops.rbegin())
      throw std::invalid_argument(fmt::format(
          "--threshold {} is below train.stop_loss = {}, at which these runs stop training: whether "
          "they would get there is not known; give at least {}",
          input.options.threshold, *stops.rbegin(), *stops.rbegin()));
  } else if (stops.size() > 1) {
    input.notes << fmt::format(
        "solved: a loss of at most {}, twice the largest train.stop_loss of these runs ({})\n",
        solved_at(input, stops), fmt::join(stops, ", "));
  }
  if (const auto nothing = nothing_solves(input, solved_at(input, stops)))
    input.notes << fmt::format(
        "warning: solved is a loss of at most {}, and answering nothing has {:.3g}: whoever learns nothing is solved; give a smaller --threshold\n",
        solved_at(input, stops), *nothing);
  return solved_at(input, stops);
}

std::optional<double> solved_accuracy(const FigureInput& input) {
  const std::set<double> stops = stops_of(input, "train.stop_accuracy");
  if (stops.empty() || std::isfinite(input.options.threshold) || !stop_losses(input).empty())
    return std::nullopt;
  return *stops.begin();
}

std::string solved_text(const FigureInput& input, const Metric& metric) {
  if (const auto accuracy = solved_accuracy(input); accuracy && !metric.is_loss)
    return fmt::format("median validation accuracy at least {}, at which training stops", *accuracy);
  const std::set<double> stops = stop_losses(input);
  const char* rule = std::isfinite(input.options.threshold) ? ""
                     : stops.empty()                        ? ", as these runs have no train.stop_loss"
                     : stops.size() > 1                     ? ", twice the largest train.stop_loss"
                                                            : ", twice train.stop_loss";
  const auto nothing = nothing_solves(input, solved_at(input, stops));
  return fmt::format("median {} at most {}{}{}", metric.name == "test_loss" ? "test loss" : "validation loss",
                     solved_at(input, stops), rule,
                     nothing ? fmt::format(", which answering nothing reaches ({:.3g})", *nothing) : "");
}

Drawing begin_drawing(const std::string& script, const FigureOptions& options, const std::string& x_column) {
  Drawing drawing;
  drawing.script = script;
  drawing.x_column = x_column;
  drawing.figure["title"] = options.title;
  drawing.figure["x"] = x_column;
  return drawing;
}

void set_axes(Drawing& drawing, const std::string& xlabel, const std::string& ylabel,
              const std::string& xscale, const std::string& yscale, std::pair<double, double> xlim,
              std::pair<double, double> ylim) {
  drawing.figure["xlabel"] = xlabel;
  drawing.figure["ylabel"] = ylabel;
  drawing.figure["xscale"] = xscale;
  drawing.figure["yscale"] = yscale;
  drawing.figure["xlim"] = {xlim.first, xlim.second};
  drawing.figure["ylim"] = {ylim.first, ylim.second};
  drawing.figure["ticks_at_d_dot"] = false;
  drawing.figure["vertical"] = nlohmann::ordered_json::array();
  drawing.figure["vertical_name"] = "";
  drawing.figure["solved"] = nullptr;
}

void sort_lines(std::vector<RecordLine>& lines, const std::map<std::string, LabelStyle>& styles) {
  std::ranges::stable_sort(lines, [&](const RecordLine& a, const RecordLine& b) {
    return std::tuple(styles.at(a.label).rank, a.d_dot, a.d_key) <
           std::tuple(styles.at(b.label).rank, b.d_dot, b.d_key);
  });
}

std::string legend_name(const std::string& name, const std::string& size, const SeedCount& seeds) {
  std::vector<std::string> remarks;
  if (!size.empty()) remarks.push_back(size);
  if (!seeds.complete())
    remarks.push_back(seeds.least == seeds.most
                          ? fmt::format("{}/{} seeds", seeds.most, seeds.expected)
                          : fmt::format("{}-{}/{} seeds", seeds.least, seeds.most, seeds.expected));
  if (seeds.diverged > 0) remarks.push_back(fmt::format("{}/{} diverged", seeds.diverged, seeds.runs));
  if (remarks.empty()) return name;
  return fmt::format("{} ({})", name, fmt::join(remarks, ", "));
}

std::string d_dot_text(std::int64_t d_dot) { return fmt::format("$d_{{\\mathrm{{dot}}}}$ = {}", d_dot); }

void add_legend(Drawing& drawing, const std::vector<RecordLine>& lines,
                const std::map<std::string, LabelStyle>& styles, int expected, bool always_d_dot) {
  static const char* const kDashes[] = {"-", "--", "-.", ":"};
  std::map<std::string, int> of_label, seen;
  for (const RecordLine& line : lines) ++of_label[line.label];
  for (const RecordLine& line : lines) {
    const bool with_d_dot = line.d_dot > 0 && (always_d_dot || of_label[line.label] > 1);
    drawing.lines.push_back(
        {line.label, line.d_dot, with_d_dot ? d_dot_text(line.d_dot) : "", count_seeds(line, expected),
         of_label[line.label] > 1 ? kDashes[seen[line.label]++ % 4] : styles.at(line.label).dash});
  }
}

FigureRow row_of(const RecordLine& line, double x, const RecordList& records, const Metric& metric) {
  FigureRow row{line.label, line.d_dot, x, 0};
  std::vector<double> values;
  std::size_t solved = 0;
  for (const Record* record : results_of(records))
    if (const double value = value_of(*record, metric); !std::isnan(value)) {
      values.push_back(value);
      row.seeds.push_back({seeds_of(*record), value});
      solved += verdict_of(*record) == Verdict::solved;
    }
  if (values.empty()) return row;
  row.solved = 2 * solved >= values.size() && metric.name != "steps";
  const Summary summary = summarise(values);
  row.n = summary.n;
  row.median = summary.median;
  row.lo = summary.lo;
  row.hi = summary.hi;
  if (mostly_diverged(records)) {
    row.median = kInfinity;
    row.lo = row.hi = kNone;
  }
  return row;
}

void count_drawn_seeds(Drawing& drawing, const std::vector<RecordLine>& lines) {
  std::set<std::string> drawn;
  for (const RecordLine& line : lines) {
    drawn.insert(line.label);
    drawing.diverged += count_seeds(line, 0).diverged;
  }
  drawing.seeds.emplace();
  for (const FigureRow& row : drawing.rows)
    if (drawn.count(row.label) != 0) drawing.seeds->add(row.n);
}

std::pair<double, double> value_range(const std::vector<FigureRow>& rows, bool log, double threshold) {
  double low = kInfinity, high = 0;
  double band = 0;
  for (const FigureRow& row : rows) {
    if (!std::isfinite(row.median)) continue;
    high = std::max(high, row.median);
    if (std::isfinite(row.hi)) band = std::max(band, row.hi);
    if (row.median > 0) low = std::min(low, row.median);
  }
  high = std::min(std::max(band, high), (log ? 4 : 1.15) * high);  // one wild seed must not squeeze the rest
  if (!log) return {-0.01, high <= 0.49 ? 0.5 : three_digits(1.03 * high)};
  if (!std::isfinite(low)) return {1e-6, 1.0};
  low = std::max(low, 1e-12) / 1.6;
  high *= 1.6;
  low = std::min(low, std::pow(10.0, std::floor(std::log10(high))));  // at least one labelled tick
  if (std::isfinite(threshold)) low = std::max(low, threshold / 2);
  return {three_digits(low), three_digits(std::max(high, 2 * low))};
}

std::string what_they_are(const RecordList& records) {
  std::set<std::string> tasks;
  for (const Record* record : records)
    if (const auto task = config_text(*record, "task.name")) tasks.insert(*task);
  if (tasks.empty()) return "they name no task";
  return fmt::format("they have task.name = {}", fmt::join(tasks, ", "));
}

std::vector<RecordLine> lines_over_loads(const FigureInput& input, const char* figure, Apart apart) {
  const char* load = "task.associations";
  auto lines = make_lines(
      input.records, [&](const Record& record) { return config_number(record, load); }, load, apart);
  if (lines.empty())
    throw std::invalid_argument(
        fmt::format("{} needs records with {} (tasks recall and reassign); {}. Of other tasks, show "
                    "accuracy (crosstalk plot accuracy, crosstalk table final)",
                    figure, load, what_they_are(input.records)));
  sort_lines(lines, input.styles);
  return lines;
}

std::string what_series_they_have(const RecordList& records) {
  for (const Record* record : records)
    if (!record->curves.empty() || !record->profiles.empty()) return what_they_are(records);
  return "these have neither curves nor profiles, as rows of an export: 'crosstalk export STORE --curves "
         "--out NAME.curves.csv' beside NAME.csv keeps them";
}

std::string symbol_of(const std::string& key) {
  static const std::map<std::string, std::string> symbols = {
      {"memory.beta_max", "$\\beta_{\\max}$"},  {"memory.nu", "$\\nu$"},         {"memory.features", "$m$"},
      {"model.d_key", "$d_{\\mathrm{key}}$"},   {"task.associations", "$S$"},    {"task.operations", "$T$"},
      {"train.learning_rate", "learning rate"}, {"d_dot", "$d_{\\mathrm{dot}}$"}};
  if (const auto found = symbols.find(key); found != symbols.end()) return found->second;
  const std::size_t dot = key.find('.');
  if (dot != std::string::npos && key.substr(dot) == ".name")
    return key.substr(0, dot);  // task, memory, model
  std::string word = key.substr(dot == std::string::npos ? 0 : dot + 1);
  std::ranges::replace(word, '_', ' ');
  return word;
}

}  // namespace crosstalk
