// The figure that holds a synthetic task against text: for each memory its accuracy there and its bits a token here.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/numbers/statistics.h"

namespace crosstalk::figures {
namespace {

constexpr const char* kBits = "test_bits_per_token";
using BySeed = std::map<std::int64_t, double>;

/// What each label has of a metric by seed. Several runs of a label and seed are of settings that are not told apart here.
std::map<std::string, BySeed> values_by_label(const RecordList& records, const Metric& metric,
                                              std::ostream& notes) {
  std::map<std::string, BySeed> all;
  int without = 0;
  for (const Record* record : records) {
    const double value = value_of(*record, metric);
    if (std::isnan(value)) {
      ++without;
      continue;
    }
    if (!all[record->label].emplace(record->seed, value).second)
      throw std::invalid_argument(fmt::format(
          "recall-vs-text: label '{}' has several runs of seed {} with {}; choose one setting (--where KEY=VALUE), and rates by --best "
          "train.learning_rate",
          record->label, record->seed, metric.name));
  }
  if (without > 0) notes << fmt::format("left out: {} runs without {}\n", without, metric.name);
  return all;
}

Summary summary_of(const BySeed& values) {
  std::vector<double> all;
  for (const auto& [seed, value] : values) all.push_back(value);
  return summarise(all);
}

/// Where the axis of bits ends: memories more than three interquartile ranges above the upper quartile stand at its edge.
double edge_of(const std::vector<double>& bits) {
  const double lower = quantile(bits, 0.25), upper = quantile(bits, 0.75);
  double edge = 0;
  for (const double x : bits)
    if (x <= upper + 3 * (upper - lower)) edge = std::max(edge, x);
  return edge;
}

Drawing draw_recall_vs_text(const FigureInput& input) {
  const Metric bits = {kBits, "Text: test loss (bits a token)", true},
               metric = input.options.metric.empty() ? Metric{"test_accuracy", "Test accuracy", false}
                                                     : metric_of(input);
  RecordList texts, others;
  std::set<std::string> tasks;
  auto families = nlohmann::ordered_json::object();
  for (const Record* record : input.records) {
    const auto family =
        input.options.memories.families.find(config_text(*record, "memory.name").value_or(""));
    if (family != input.options.memories.families.end()) families[record->label] = family->second;
    const bool is_text = record->metrics.contains(kBits);
    (is_text ? texts : others).push_back(record);
    if (!is_text) tasks.insert(config_text(*record, "task.name").value_or(""));
  }
  const auto of_text = values_by_label(texts, bits, input.notes),
             of_task = values_by_label(others, metric, input.notes);
  std::vector<double> x, y;
  Drawing drawing = begin_drawing(kNamedTemplate, input.options, "bits");
  drawing.capacity_columns = true;
  std::vector<std::string> alone;
  double low = kInfinity, high = -kInfinity;
  SeedRange seeds;
  for (const auto& [label, values] : of_task) {
    const auto text = of_text.find(label);
    if (text == of_text.end()) {
      alone.push_back(label);
      continue;
    }
    const Summary there = summary_of(values), here = summary_of(text->second);
    FigureRow row{label, 0, here.median, there.n, there.median, there.lo, there.hi};
    drawing.rows.push_back(row);
    drawing.lines.push_back({label, 0, "", {there.n, there.n}, ""});
    x.push_back(here.median), y.push_back(there.median);
    low = std::min(low, here.median), high = std::max(high, here.median);
    seeds.add(there.n);
  }
  if (x.empty())
    throw std::invalid_argument(fmt::format(
        "recall-vs-text needs labels with runs of task text ({} here) and of one other task ({} here): crosstalk plot recall-vs-text "
        "runs/recall runs/text",
        texts.size(), others.size()));
  if (tasks.size() > 1)
    throw std::invalid_argument(
        fmt::format("recall-vs-text holds one task against text; here are {}: --where task.name={},text",
                    fmt::join(tasks, ", "), *tasks.begin()));
  if (!alone.empty())
    input.notes << fmt::format("without a run of text, left out: {}\n", fmt::join(alone, ", "));
  std::ranges::stable_sort(drawing.lines, [&](const LineEntry& a, const LineEntry& b) {
    return input.styles.at(a.label).rank < input.styles.at(b.label).rank;
  });
  const double edge = edge_of(x), room = edge > low ? 0.04 * (edge - low) : 0.005 * high;
  drawing.figure["xlabel"] = bits.axis;
  drawing.figure["ylabel"] = fmt::format("{}: {}", *tasks.begin(), metric.axis);
  drawing.figure["xscale"] = drawing.figure["yscale"] = "linear";
  drawing.figure["xlim"] = {low - room, high + room};
  drawing.figure["edge"] = edge + room;
  const auto [least, largest] = std::minmax_element(y.begin(), y.end());
  drawing.figure["ylim"] = metric.is_loss
                               ? std::vector<double>{0, 1.15 * *largest}
                               : std::vector<double>{std::min(0.0, *least) - 0.1, 1.15};  // room for names
  drawing.figure["families"] = families;
  const auto front = front_of(drawing.rows, metric.is_loss);
  drawing.rows.insert(drawing.rows.end(), front.begin(), front.end());
  if (front.size() > 1) drawing.overlays.push_back({"front", 0, "Front: no other is better at both"});
  const RankCorrelation rho = rank_correlation(x, y);
  const std::string text =
      rho.n < 4
          ? fmt::format("{} memories: too few for a rank correlation.", rho.n)
          : fmt::format(
                "Rank correlation {:.2f} [{:.2f}, {:.2f}] over {} memories (Spearman; 95 % interval of Bonett and Wright 2000).",
                rho.value, rho.lo, rho.hi, rho.n);
  drawing.footnotes = {text, fmt::format("Point: medians over seeds; bar: {}.", seeds.interval())};
  if (edge < high) drawing.footnotes.emplace_back("Arrows: beyond the axis, at the bits beside the name.");
  drawing.brief[drawing.footnotes[1]] = "";
  return drawing;
}

}  // namespace

Figure recall_vs_text() {
  return {
      .kind =
          {.name = "recall-vs-text",
           .summary = "Accuracy on a synthetic task against bits a token of text, one point a memory",
           .x =
               "test_bits_per_token of the runs of task text (two stores may be given: crosstalk plot recall-vs-text A B).",
           .y =
               "test_accuracy, or any --metric, of the runs of the other task with the same label; one setting of it.",
           .statistic =
               "Point: medians over seeds; bar: the interval of the task's; dashed: the front, memories that no other beats at both "
               "(rows 'front'). Rank correlation over memories with its 95 % "
               "interval: whether the task says anything of text.",
           .columns = columns_over("bits", {"censored", "unsolved"})},
      .draw = draw_recall_vs_text};
}

}  // namespace crosstalk::figures
