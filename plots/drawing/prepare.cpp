// Records made ready for figures and tables.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plots/report/report_parts.h"
#include "results/csv.h"
#include "results/numbers/unequal.h"
#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

/// In which order lines of one label stand: numbers by size, words as the study gives them, else by the alphabet.
class ValueOrder {
 public:
  ValueOrder(const RecordList& records, const std::vector<std::string>& ids,
             const std::vector<std::string>& keys)
      : first_(keys.size()) {
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < ids.size(); ++i) places.emplace(ids[i], i);
    for (const Record* record : records) {
      const auto place = places.find(record->id);
      if (place == places.end()) continue;
      for (std::size_t key = 0; key < keys.size(); ++key) {
        const auto [at, is_new] =
            first_[key].emplace(field_text(*record, keys[key]).value_or(""), place->second);
        at->second = std::min(at->second, place->second);
      }
    }
  }

  bool operator()(const std::vector<std::string>& a, const std::vector<std::string>& b) const {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (a[i] == b[i]) continue;
      if (number_in(a[i]) && number_in(b[i])) return *number_in(a[i]) < *number_in(b[i]);
      const std::size_t at_a = place_of(i, a[i]), at_b = place_of(i, b[i]);
      return at_a != at_b ? at_a < at_b : sorted_values({a[i], b[i]}).front() == a[i];
    }
    return a.size() < b.size();
  }

 private:
  std::size_t place_of(std::size_t key, const std::string& value) const {
    const auto found = first_[key].find(value);
    return found == first_[key].end() ? std::string::npos : found->second;
  }

  std::vector<std::map<std::string, std::size_t>> first_;  ///< by key: value -> its first place
};

/// Puts every record under a label that names its values of `keys` too.
void split_by(Prepared& prepared, const LabelledRecords& rows, const std::vector<std::string>& keys,
              std::vector<std::string>& order, std::map<std::string, std::string>& titles) {
  prepared.by.keys = keys;
  for (const std::string& key : keys) check_key(prepared.records, "--by", key);
  using OfValues = std::map<std::vector<std::string>, std::string, ValueOrder>;
  const ValueOrder in_order(prepared.records, rows.order, keys);
  std::map<std::string, OfValues> of_label;
  std::set<std::string> plain;
  for (const Record*& record : prepared.records) {
    std::vector<std::string> values, words, title;
    for (const std::string& key : keys) {
      values.push_back(field_text(*record, key).value_or(""));
      if (key == "label" || values.back().empty()) continue;
      words.push_back(fmt::format("{} = {}", key, values.back()));
      title.push_back(fmt::format("{} = {}", symbol_of(key), values.back()));
    }
    plain.insert(record->label);
    prepared.owned.push_back(*record);
    std::string& label = prepared.owned.back().label;
    const std::string before = label;
    if (!words.empty()) label += fmt::format(", {}", fmt::join(words, ", "));
    of_label.try_emplace(before, in_order).first->second[values] = label;
    prepared.by.values[label] = values;
    titles[label] = fmt::format("{}", fmt::join(title, ", "));
    record = &prepared.owned.back();
  }
  std::vector<std::string> split;
  const auto base_name = [&](const std::string& label) {
    const auto title = titles.find(label);
    return title != titles.end() && !title->second.empty() ? title->second : label_name(label);
  };
  const auto add = [&](const std::string& label) {
    const auto found = of_label.find(label);
    if (found == of_label.end()) return;
    for (const auto& [values, composite] : found->second) {
      split.push_back(composite);
      prepared.by.names[composite] = base_name(label);
      // One label alone needs not be said with every line.
      std::string& title = titles[composite];
      if (title.empty())
        title = base_name(label);
      else if (plain.size() > 1)
        title = base_name(label) + ", " + title;
    }
    of_label.erase(found);
  };
  for (const std::string& label : order) add(label);
  while (!of_label.empty()) add(std::string(of_label.begin()->first));
  order = split;
}

}  // namespace

void check_against(const std::string& name, const FigureOptions& options) {
  if (!options.against.empty() && name != "difference")
    throw std::invalid_argument(fmt::format(
        "--against {}: {} holds no label against another; 'difference' does", options.against, name));
}

Prepared prepare(const std::string& name, const LabelledRecords& rows, const FigureOptions& options) {
  if (rows.rows.empty()) throw std::invalid_argument(fmt::format("{}: there are no records to draw", name));
  Prepared prepared;
  prepared.records = choose_records(list_of(rows.rows), options.where);
  if (results_of(prepared.records).empty())
    throw std::invalid_argument(
        fmt::format("{}: all {} runs failed; nothing to draw", name, prepared.records.size()));
  for (const Record& run : rows.missing)
    if (matches_all(run, options.where)) prepared.missing.push_back(&run);
  prepared.recorded = prepared.records.size();
  const std::string rate = "train.learning_rate";
  if (std::ranges::find(options.best, rate) != options.best.end())
    prepared.edges = edge_choices(prepared.records, options.best, rate, options.best_by);
  if (!options.best.empty()) {
    prepared.unequal_seeds = unequal_seeds_text(prepared.records, options.best);
    prepared.records = choose_best(prepared.records, options.best, options.best_by);
  }
  std::vector<std::string> order;
  std::map<std::string, std::string> titles;
  for (const AskedLabel& label : rows.labels) {
    order.push_back(label.label);
    titles[label.label] = label.title;
  }
  const std::vector<std::string> given = order;
  // Colours come from all labels, so that a part of a study is drawn in the colours of the whole; of a part of
  // very many, which share colours, each gets one of its own.
  std::set<std::string> labels(order.begin(), order.end());
  if (options.by.empty()) {
    for (const auto& [key, record] : rows.rows) labels.insert(record.label);
    if (labels.size() > kColours) {
      labels.clear();
      for (const Record* record : prepared.records) labels.insert(record->label);
    }
  } else {
    split_by(prepared, rows, options.by, order, titles);
    labels = {order.begin(), order.end()};
  }
  std::ranges::stable_sort(prepared.edges, [&](const EdgeChoice& a, const EdgeChoice& b) {
    return std::ranges::find(given, a.label) < std::ranges::find(given, b.label);
  });
  for (EdgeChoice& edge : prepared.edges) {
    const auto title = titles.find(edge.label);
    edge.label = title != titles.end() && !title->second.empty() ? title->second : label_name(edge.label);
  }
  std::map<std::string, std::string> memories;
  const auto add_memory = [&](const Record& record) {
    if (const auto memory = config_text(record, "memory.name")) memories.emplace(record.label, *memory);
  };
  for (const auto& [key, record] : rows.rows) add_memory(record);
  for (const Record& run : rows.missing) add_memory(run);
  for (const Record* record : prepared.records) add_memory(*record);  // under the labels of --by
  prepared.styles = label_styles(labels, order, titles, memories);
  // First what may be drawn here: points of other tasks shall not use up the colours that are told apart best.
  std::set<std::string> tasks, of_these_tasks, elsewhere;
  std::map<std::string, std::string> published;  // the memories of its labels
  for (const Record* record : prepared.records) tasks.insert(config_text(*record, "task.name").value_or(""));
  for (const PublishedPoint& point : options.published) {
    const auto task = point.known.find("task.name");
    elsewhere.insert(point.label);
    if (const auto memory = point.known.find("memory.name"); memory != point.known.end())
      published.emplace(point.label, memory->second);
    if (task == point.known.end() || tasks.count(task->second) != 0) of_these_tasks.insert(point.label);
  }
  add_styles(prepared.styles, of_these_tasks, published);
  add_styles(prepared.styles, elsewhere, published);
  return prepared;
}

namespace {

/// The records that a row was drawn of.
RecordList records_of(const FigureRow& row, const Drawing& drawing, const Prepared& prepared) {
  const std::string facet = drawing.figure.value("facet", std::string());
  RecordList records;
  for (const Record* record : prepared.records) {
    const bool of_label = row.d_dot == 0;  // a line of all sizes (figure accuracy), or a memory without d_dot
    if (record->label != row.label || (!of_label && record->d_dot != row.d_dot)) continue;
    if (!facet.empty() && field_text(*record, facet) != row.facet) continue;
    const auto place =
        place_on_axis(*record, drawing.x_column == "associations" ? "task.associations" : drawing.x_column);
    if (!place || *place == row.x) records.push_back(record);
  }
  return records;
}

/// Of tracking and length, which show profiles, that of the split on which these are read.
std::string metric_shown(const Drawing& drawing, const FigureOptions& options) {
  if (!drawing.metric.empty()) return drawing.metric;
  if (drawing.x_column == "step") return options.metric.empty() ? "eval_loss" : options.metric;
  return !options.metric.empty() ? options.metric : options.best.empty() ? "eval_loss" : "test_loss";
}

}  // namespace

void mark_selected(Drawing& drawing, const Prepared& prepared, const FigureOptions& options,
                   std::ostream& notes) {
  for (FigureRow& row : drawing.rows) {
    std::set<std::string> chosen;
    for (const Record* record : records_of(row, drawing, prepared)) {
      std::vector<std::string> words;
      for (const std::string& key : options.best)
        if (const auto value = config_text(*record, key)) words.push_back(fmt::format("{}={}", key, *value));
      if (!words.empty()) chosen.insert(fmt::format("{}", fmt::join(words, ";")));
    }
    row.selected = fmt::format("{}", fmt::join(chosen, " | "));
  }
  const std::string shown = metric_shown(drawing, options);
  const bool along =  // a line of one run, which goes through all x values
      std::ranges::any_of(drawing.needs, [](const std::string& need) {
        return need.starts_with("curves.") || need.starts_with("profiles.");
      });
  drawing.footnotes.push_back(fmt::format(
      "{}: the value with the {}, chosen for each line{}; shown is {}.", fmt::join(options.best, ", "),
      options.best_by == BestBy::loss ? "lowest median validation loss"
                                      : "highest median validation accuracy",
      along ? "" : " and each x value",
      options.metric.empty() && shown.starts_with("test") ? "the untouched test split" : shown));
  if (!prepared.unequal_seeds.empty()) drawing.footnotes.push_back(prepared.unequal_seeds);
  const std::string text = edges_text(prepared.edges);
  if (text.empty()) return;
  drawing.footnotes.push_back(text);
  notes << "warning: " << text << '\n';
}

void mark_chance(Drawing& drawing, const Prepared& prepared, const FigureOptions& options) {
  for (FigureRow& row : drawing.rows) {
    const auto [runs, within, text] =
        chance_of(records_of(row, drawing, prepared), metric_shown(drawing, options), options.answers);
    if (runs > 0) row.at_chance = within;
  }
}

void note_doubts(Drawing& drawing, const Prepared& prepared, const FigureOptions& options) {
  const RecordList runs = results_of(prepared.records);
  const std::size_t first = drawing.footnotes.size();
  bool counted = false;
  const auto add = [&](const std::string& sentence, const char* brief, std::size_t count, std::size_t of) {
    drawing.footnotes.push_back(sentence);
    drawing.brief[sentence] =
        counted ? fmt::format("{} {}.", count, brief) : fmt::format("{} of {} runs {}.", count, of, brief);
    counted = true;
  };
  if (const std::size_t missing = prepared.missing.size(); missing > 0) {
    const std::size_t all = missing + prepared.recorded;
    add(fmt::format("Not whole yet: {} of {} runs are missing.", missing, all), "missing", missing, all);
  }
  const ChanceCount chance = chance_of(runs, metric_shown(drawing, options), options.answers);
  if (!chance.text.empty() && chance.within == 0)
    drawing.footnotes.push_back(chance.text);
  else if (!chance.text.empty())
    add(chance.text, "at chance", static_cast<std::size_t>(chance.within),
        static_cast<std::size_t>(chance.runs));
  const auto falling = std::ranges::count_if(
      runs, [](const Record* record) { return verdict_of(*record) == Verdict::still_falling; });
  if (falling > 0)
    add(fmt::format("{} of {} ended at the last step while the loss still fell.", falling,
                    plural(runs.size(), "run")),
        "still falling", static_cast<std::size_t>(falling), runs.size());
  drawing.doubts.assign(drawing.footnotes.begin() + static_cast<std::ptrdiff_t>(first),
                        drawing.footnotes.end());
  if (chance.within == 0) std::erase(drawing.doubts, chance.text);
  if (const std::string text = semantics_text(runs); !text.empty()) {
    drawing.footnotes.push_back(text);
    drawing.doubts.push_back(text);
  }
  std::vector<std::string> swept = prepared.by.keys;
  swept.push_back(options.facet);
  swept.insert(swept.end(), options.best.begin(), options.best.end());
  if (std::string unequal = unequal_text(
          runs,
          [&](const std::string& label) {
            const auto base = prepared.by.names.find(label);
            return base == prepared.by.names.end() ? prepared.styles.at(label).name : base->second;
          },
          kMostUnequal, swept);
      !unequal.empty())
    drawing.footnotes.push_back(std::move(unequal));
}

double width_of(const FigureOptions& options) {
  if (options.venue.empty()) return options.width > 0 ? options.width : 5.5;
  const auto venue =
      std::ranges::find_if(venues(), [&](const Venue& one) { return one.name == options.venue; });
  if (venue == venues().end()) {
    std::vector<std::string> names;
    for (const Venue& one : venues()) names.push_back(one.name);
    throw std::invalid_argument(
        fmt::format("no venue \"{}\"; there are {}", options.venue, fmt::join(names, ", ")));
  }
  return options.width > 0 ? options.width : venue->column;
}

std::string styled(std::string script, const FigureOptions& options) {
  const auto replace = [&](const std::string& from, const std::string& to) {
    const auto at = script.find(from);
    if (at == std::string::npos) throw std::logic_error("a figure template lacks " + from);
    script.replace(at, from.size(), to);
  };
  if (!options.venue.empty())
    replace("\"font.family\": \"DejaVu Sans\", \"mathtext.fontset\": \"dejavusans\",",
            "\"font.family\": \"STIXGeneral\", \"mathtext.fontset\": \"stix\",");
  if (const double width = width_of(options); width != 5.5)
    replace("WIDTH = 5.5", fmt::format("WIDTH = {}", width));
  return script;
}

}  // namespace crosstalk
