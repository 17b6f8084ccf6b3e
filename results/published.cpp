// Published results beside ours. SPDX-License-Identifier: Apache-2.0
#include "results/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "results/printable.h"
#include "results/statistics.h"

namespace crosstalk {
namespace {

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

class Row {
 public:
  Row(const std::vector<std::string>& columns, std::string where)
      : columns_(columns), where_(std::move(where)) {}

  void read(const std::string& line) {
    cells_ = split_cells(line);
    if (cells_.size() != columns_.size()) {
      fail(fmt::format("has {} cells, the head has {}", cells_.size(), columns_.size()));
    }
  }
  bool has(const std::string& column) const {
    return std::find(columns_.begin(), columns_.end(), column) != columns_.end() && !text(column).empty();
  }
  const std::string& text(const std::string& column) const {
    const auto found = std::find(columns_.begin(), columns_.end(), column);
    if (found == columns_.end())
      fail(fmt::format("published points need a column '{}'; there are {}", column,
                       fmt::join(columns_, ", ")));
    return cells_[static_cast<std::size_t>(found - columns_.begin())];
  }
  template <typename Number>
  Number number(const std::string& column) const {
    const std::string& cell = text(column);
    Number value{};
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc() || end != cell.data() + cell.size()) {
      fail(fmt::format("column '{}': '{}' is not a number", column, cell));
    }
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::invalid_argument(where_ + ": " + what); }

  const std::vector<std::string>& columns_;
  std::string where_;
  std::vector<std::string> cells_;
};

std::string task_of(int setting) { return setting == 1 ? "recall" : "reassign"; }

bool belongs(const Record& record, const PublishedPoint& point) {
  if (record.status == RunStatus::failed || record.label != point.label) return false;
  if (!record.config.is_object()) return false;
  return record.config.value("task.associations", nlohmann::json()) == point.associations &&
         record.config.value("task.name", nlohmann::json()) == task_of(point.setting);
}

}  // namespace

std::vector<PublishedPoint> read_published(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    throw std::invalid_argument(fmt::format("published points: \"{}\" is no regular file", path.string()));
  std::ifstream in(path);
  if (!in) throw std::invalid_argument(fmt::format("published points: \"{}\" cannot be read", path.string()));
  std::vector<std::string> columns;
  std::vector<PublishedPoint> points;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    if (columns.empty()) {
      columns = split_cells(line);
      continue;
    }
    Row row(columns, fmt::format("{}:{}", path.string(), number));
    row.read(line);
    PublishedPoint point;
    point.label = row.text("label");
    point.setting = row.number<int>("setting");
    point.associations = row.number<std::int64_t>("S_unique_keys");
    point.loss = row.number<double>("final_eval_loss");
    if (row.has("d_dot")) point.d_dot = row.number<std::int64_t>("d_dot");
    if (row.has("best_eval_loss")) point.best_loss = row.number<double>("best_eval_loss");
    if (row.has("steps")) point.steps = row.number<std::int64_t>("steps");
    points.push_back(point);
  }
  if (points.empty()) throw std::invalid_argument(fmt::format("{}: holds no rows", path.string()));
  return points;
}

bool is_within(double ours, double published) {
  if (!std::isfinite(published)) return !std::isfinite(ours);
  if (published <= published_solved) return ours <= published_solved;
  return std::abs(ours - published) <= std::max(0.1 * published, 0.01);
}

std::vector<Comparison> compare(const std::vector<PublishedPoint>& points,
                                const std::map<std::string, Record>& records) {
  std::vector<Comparison> rows;
  for (const PublishedPoint& point : points) {
    std::vector<double> losses;
    std::vector<double> steps;
    for (const auto& [id, record] : records) {
      if (!belongs(record, point)) continue;
      losses.push_back(std::isfinite(record.eval_loss) ? record.eval_loss
                                                       : std::numeric_limits<double>::infinity());
      steps.push_back(static_cast<double>(record.steps));
    }
    if (losses.empty()) continue;
    Comparison row;
    row.published = point;
    row.seeds = static_cast<int>(losses.size());
    row.loss = median(losses);
    row.steps = median(steps);
    row.difference = row.loss - point.loss;
    row.within = is_within(row.loss, point.loss);
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Comparison& a, const Comparison& b) {
    const auto key = [](const Comparison& row) {
      return std::tie(row.published.setting, row.published.label, row.published.associations);
    };
    return key(a) < key(b);
  });
  return rows;
}

std::string comparison_table(const std::vector<Comparison>& rows) {
  const auto loss_text = [](double loss) {
    return std::isfinite(loss) ? fmt::format("{:.5f}", loss) : "diverged";
  };
  std::string out =
      "| setting | memory | S | ours (median) | seeds | steps | published | steps | difference | within |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Comparison& row : rows) {
    const PublishedPoint& point = row.published;
    out += fmt::format("| {} | {} | {} | {} | {} | {:.0f} | {} | {} | {} | {} |\n", point.setting,
                       printable_line(point.label), point.associations, loss_text(row.loss), row.seeds,
                       row.steps, loss_text(point.loss), point.steps,
                       std::isfinite(row.difference) ? fmt::format("{:+.5f}", row.difference) : "",
                       row.within ? "yes" : "**no**");
  }
  return out;
}

}  // namespace crosstalk
