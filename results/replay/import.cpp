// Tables as records.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>

#include "results/csv.h"
#include "results/numbers/select.h"
#include "results/numbers/verdict.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// A value of a configuration: as JSON has it.
nlohmann::json value_in(const std::string& text) {
  if (const auto whole = whole_in(text)) return *whole;  // 20.0 is 20: exports write both so
  if (const auto number = number_in(text)) return *number;
  if (text == "true" || text == "false") return text == "true";
  return text;
}

std::string file_text(const fs::path& path) {
  try {
    return read_file(FileSystem::real(), path);
  } catch (const StoreError& error) {
    throw std::invalid_argument(error.what());
  }
}

RunStatus status_in(const CsvRow& row, const Record& record) {
  if (!row.has("status"))
    return !row.has("eval_loss") || std::isfinite(record.eval_loss) ? RunStatus::done : RunStatus::diverged;
  const std::string& text = row.text("status", "runs");
  for (const RunStatus status : {RunStatus::done, RunStatus::diverged, RunStatus::failed})
    if (to_text(status) == text) return status;
  row.fail(fmt::format("column 'status': '{}' is none of done, diverged, failed", text));
}

std::string verdict_in(const CsvRow& row) {
  const std::string& word = row.text("verdict", "runs");
  std::vector<std::string> words;
  for (const Verdict verdict : verdicts()) words.push_back(to_text(verdict));
  if (std::ranges::find(words, word) == words.end())
    row.fail(fmt::format("column 'verdict': '{}' is none of {}; leave the cell empty where it is not known",
                         word, fmt::join(words, ", ")));
  return word;
}

bool is_marginal(const std::string& column) {
  return column.starts_with("provenance.") || column.starts_with("metric.");
}

/// A mean of shares may end up so far above 1.
constexpr double kRounding = 1e-9;

/// Refuses what no run measures: another unit, or another number's column.
void check_values(const CsvRow& row, const Record& record) {
  std::map<std::string, double> values = record.metrics;
  values["eval_loss"] = record.eval_loss;
  values["best_eval_loss"] = record.best_eval_loss;
  values["eval_accuracy"] = record.eval_accuracy;
  for (const auto& [name, value] : values) {
    if (name.ends_with("accuracy") && value > 1 + kRounding)
      row.fail(fmt::format("column '{}': {} is more than 1; accuracies are shares, 0.975 for 97.5 %", name,
                           value));
    if (name.ends_with("accuracy") && value < 0 && name.find("scaled") == std::string::npos)
      row.fail(fmt::format("column '{}': {} is below 0; accuracies are shares from 0 to 1", name, value));
    if (name == "eval_loss" || name == "best_eval_loss" || name == "test_loss") check_loss(row, name, value);
  }
  for (const char* key : {"task.associations", "task.pairs", "task.length", "model.width", "model.d_key"}) {
    const auto* value = record.config.find(key);
    if (value == nullptr || (value->is_number_integer() && value->get<std::int64_t>() > 0)) continue;
    row.fail(fmt::format(
        "column '{}': '{}' is no whole number above 0, such as 1024 (without separators of thousands)", key,
        row.text(key, "runs")));
  }
  for (const auto& [name, value] :
       {std::pair{"d_dot", record.d_dot}, {"state_size", record.state_size}, {"steps", record.steps}})
    if (value < 0)
      row.fail(
          fmt::format("column '{}': {} is no size; leave the cell empty where it is not known", name, value));
}

Record record_in(const CsvRow& row, const std::string& made_up_id) {
  static const std::string what = "runs";
  static const std::set<std::string> known = {"id",        "study",          "label",         "status",
                                              "seed",      "d_dot",          "state_size",    "steps",
                                              "eval_loss", "best_eval_loss", "eval_accuracy", "study_version",
                                              "data_seed", "init_seed",      "verdict"};
  const auto number = [&](const char* column) {
    return row.has(column) ? row.number(column, what) : std::nan("");
  };
  const auto whole = [&](const char* column) {
    return row.has(column) ? row.integer(column, what) : std::int64_t{0};
  };
  Record record;
  record.id = row.has("id") ? row.text("id", what) : made_up_id;
  record.study = row.has("study") ? row.text("study", what) : "";
  record.label = row.text("label", what);
  record.version = row.has("study_version") ? row.text("study_version", what) : "";
  record.eval_loss = number("eval_loss");
  record.best_eval_loss = number("best_eval_loss");
  record.eval_accuracy = number("eval_accuracy");
  record.seed = whole("seed");
  record.d_dot = whole("d_dot");
  record.state_size = whole("state_size");
  record.steps = whole("steps");
  for (std::size_t i = 0; i < row.columns().size(); ++i) {
    const std::string &column = row.columns()[i], &cell = row.cell(i);
    const bool is_seed = column == "data_seed" || column == "init_seed";
    if (is_seed || (column.find('.') != std::string::npos && !is_marginal(column))) {
      if (!cell.empty()) record.config[column] = value_in(cell);
    } else if (known.count(column) == 0 && !column.starts_with("provenance.")) {
      if (const auto metric = number_in(cell))
        record.metrics[column.starts_with("metric.") ? column.substr(7) : column] = *metric;
      else if (!cell.empty() && !column.starts_with("metric."))
        record.config[column] = value_in(cell);  // a word is no number that was measured: it tells rows apart
    }
  }
  check_values(row, record);
  if (row.has("verdict")) record.provenance["verdict"] = verdict_in(row);
  if (row.has("provenance.semantics"))
    record.provenance["semantics"] = value_in(row.text("provenance.semantics", what));
  if (record.config.empty())
    row.fail("runs need at least one column of a configuration, such as task.associations");
  const auto& columns = row.columns();
  record.status = status_in(row, record);
  if (record.status == RunStatus::done && !lacks_loss(record) &&
      std::ranges::find(columns, "eval_loss") == columns.end())
    row.fail(fmt::format(
        "runs need a column 'eval_loss' (or 'eval_accuracy', where that is what is known); there are {}",
        fmt::join(columns, ", ")));
  // An empty loss is one that is missing; a run that diverged says so.
  if (record.status == RunStatus::done && !row.has("eval_loss") && !lacks_loss(record))
    record.status = RunStatus::failed;
  // A loss that is given as none is that of a run that diverged, whatever its status says.
  if (row.has("eval_loss") && record.status == RunStatus::done && !std::isfinite(record.eval_loss))
    record.eval_loss = std::numeric_limits<double>::infinity();
  if (const double bytes = metric_in(record, kStateBytes); bytes <= 0)
    row.fail(fmt::format("column 'state_bytes': {} is no size", bytes));
  return record;
}

/// id -> series of that name, from the long form.
void add_curves(const fs::path& path, LabelledRecords& rows) {
  std::map<std::string, std::map<std::string, Series>> all;
  read_csv(file_text(path), path.string(), [&](const CsvRow& row) {
    Series& series = all[row.text("id", "curves")][row.text("metric", "curves")];
    series.x.push_back(row.number("step", "curves"));
    series.y.push_back(row.has("value") ? row.number("value", "curves") : std::nan(""));
  });
  for (auto& [key, record] : rows.rows)
    for (const auto& [name, series] : all[record.id])
      (name.find("_by_") == std::string::npos ? record.curves : record.profiles)[name] = series;
}

/// Our word for a state of Weights & Biases; "" while a run is going.
std::string status_word(const std::string& state) {
  static const std::map<std::string, std::string> words = {{"finished", "done"}, {"crashed", "failed"},
                                                           {"failed", "failed"}, {"killed", "failed"},
                                                           {"running", ""},      {"pending", ""}};
  const auto word = words.find(state);
  return word == words.end() ? state : word->second;
}

void add_row(LabelledRecords& rows, Record record, const std::string& where) {
  std::string key = record.id + '\t' + record.label;
  rows.places[key] = where;
  if (!rows.rows.emplace(key, std::move(record)).second)
    throw std::invalid_argument(fmt::format("{}: a second row of this id and label", where));
}

std::optional<std::size_t> column_of(const std::vector<std::string>& columns, const std::string& name) {
  const auto at = std::ranges::find(columns, name);
  if (at == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(at - columns.begin());
}

/// A table whose rows are steps: "Step", and a column a curve. Each curve is one of `label`.
struct CurveColumn {
  std::size_t column;
  std::string label, name;
};
std::vector<CurveColumn> curve_columns(const std::vector<std::string>& columns, const Renaming& renaming,
                                       const std::string& stem) {
  std::vector<CurveColumn> curves;
  if (!column_of(columns, "Step")) return curves;
  for (const auto& [own, theirs] : renaming.columns) {
    if (theirs == "Value" && column_of(columns, "Wall time"))
      if (const auto value = column_of(columns, theirs)) curves.push_back({*value, stem, own});
    const std::string ending = " - " + theirs;
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (columns[i].ends_with(ending))
        curves.push_back({i, columns[i].substr(0, columns[i].size() - ending.size()), own});
  }
  return curves;
}

}  // namespace

LabelledRecords read_foreign(const fs::path& path, const Renaming& renaming) {
  LabelledRecords rows;
  std::vector<std::string> names;
  for (const auto& [own, theirs] : renaming.columns) names.push_back(own);
  for (const auto& [own, value] : renaming.constants) names.push_back(own);
  std::map<std::string, std::map<std::string, Series>> curves;  // by label
  std::int64_t going = 0;
  read_csv(file_text(path), path.string(), [&](const CsvRow& row) {
    const std::string made_up_id = fs::path(row.where()).filename().string();
    const std::vector<CurveColumn> curve = curve_columns(row.columns(), renaming, path.stem().string());
    for (const CurveColumn& one : curve) {
      const auto value = number_in(row.cell(one.column));
      if (!value) continue;
      Series& series = curves[one.label][one.name];
      series.x.push_back(row.number("Step", "curves"));
      series.y.push_back(*value);
    }
    if (!curve.empty()) return;
    std::vector<std::string> cells;
    for (const auto& [own, theirs] : renaming.columns) {
      const auto column = column_of(row.columns(), theirs);
      if (!column)
        row.fail(fmt::format("there is no column '{}' for {}; there are {}", theirs, own,
                             fmt::join(row.columns(), ", ")));
      cells.push_back(own == "status" ? status_word(row.cell(*column)) : row.cell(*column));
      if (own == "status" && cells.back().empty()) return void(++going);
    }
    for (const auto& [own, value] : renaming.constants) cells.push_back(value);
    add_row(rows, record_in(CsvRow(names, std::move(cells), row.where()), made_up_id), row.where());
  });
  for (auto& [label, series] : curves) {
    std::vector<std::string> columns = {"label", "steps"}, cells = {label, ""};
    double last = 0;
    for (const auto& [name, one] : series) {
      last = std::max(last, one.x.back());
      columns.push_back(name);
      cells.push_back(fmt::format("{}", one.y.back()));
    }
    cells[1] = fmt::format("{}", last);
    for (const auto& [own, value] : renaming.constants) {
      const auto column = column_of(columns, own);
      if (column)
        cells[*column] = value;
      else
        columns.push_back(own), cells.push_back(value);
    }
    Record record = record_in(CsvRow(columns, cells, path.string()), path.filename().string() + ":" + label);
    record.curves = std::move(series);
    add_row(rows, std::move(record), path.string());
  }
  if (going > 0)
    rows.notes.push_back(fmt::format("{}: left out, since they are still going: {}", path.string(), going));
  if (rows.rows.empty()) throw std::invalid_argument(fmt::format("{}: holds no rows", path.string()));
  return rows;
}

LabelledRecords read_export(const fs::path& path) {
  LabelledRecords rows;
  std::set<std::string> keys;  // columns of the configuration, then those that are empty throughout
  std::map<std::string, std::string>& places = rows.places;
  read_csv(file_text(path), path.string(), [&](const CsvRow& row) {
    if (rows.rows.empty())
      for (const std::string& column : row.columns())
        if (column.find('.') != std::string::npos && !is_marginal(column)) keys.insert(column);
    Record record = record_in(row, fs::path(row.where()).filename().string());
    std::string key = record.id + '\t' + record.label;
    if (record.status == RunStatus::failed && !row.has("status"))
      rows.notes.push_back(row.where() +
                           ": no eval_loss: counted as a run that is missing (nan where it diverged)");
    while (rows.rows.count(key) != 0) key += '\t';
    places[key] = row.where();
    rows.rows.emplace(std::move(key), std::move(record));
  });
  if (rows.rows.empty()) throw std::invalid_argument(fmt::format("{}: holds no rows", path.string()));
  // An empty cell is a key that does not apply to that run, or an empty text; a column that is empty
  // throughout can only be the latter, or the export would not have it.
  for (const auto& [key, record] : rows.rows)
    std::erase_if(keys,
                  [&, &config = record.config](const std::string& one) { return config.contains(one); });
  for (auto& [key, record] : rows.rows)
    for (const std::string& empty : keys) record.config[empty] = "";
  if (const std::string told = drop_repeats(rows.rows, places); !told.empty()) rows.notes.push_back(told);
  for (const auto& [key, record] : rows.rows)
    if (key != record.id + '\t' + record.label)
      throw std::invalid_argument(places.at(key) + ": a second row of this id and label");
  fs::path curves = path;
  curves.replace_extension(".curves.csv");
  std::error_code error;
  if (fs::exists(curves, error)) add_curves(curves, rows);
  return rows;
}

}  // namespace crosstalk
