// A record as one line of JSON, and back.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "results/json_bounds.h"
#include "results/store/crc32c.h"
#include "results/store/record_io.h"
#include "results/store/record_scan.h"

namespace crosstalk {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view crc_key = ",\"crc\":\"";
constexpr std::size_t crc_digits = 8;
constexpr std::size_t seal_size = crc_key.size() + crc_digits + 2;  // the closing quote and brace

// Why a line holds no record; the message goes to the user.
struct BadRecord : std::runtime_error {
  using std::runtime_error::runtime_error;
};

ordered_json number(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json numbers(const std::vector<double>& values) {
  ordered_json out = ordered_json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

ordered_json series(const std::map<std::string, Series>& all) {
  ordered_json out = ordered_json::object();
  for (const auto& [name, one] : all) out[name] = {{"x", numbers(one.x)}, {"y", numbers(one.y)}};
  return out;
}

// Everything that must come out equal when the same run is trained again.
void add_result(ordered_json& out, const Record& record) {
  out["d_dot"] = record.d_dot;
  out["state_size"] = record.state_size;
  out["steps"] = record.steps;
  out["eval_loss"] = number(record.eval_loss);
  out["best_eval_loss"] = number(record.best_eval_loss);
  out["eval_accuracy"] = number(record.eval_accuracy);
  ordered_json& metrics = out["metrics"] = ordered_json::object();
  for (const auto& [name, value] : record.metrics) metrics[name] = number(value);
  out["curves"] = series(record.curves);
  out["profiles"] = series(record.profiles);
  out["message"] = record.message;
}

std::string text_of(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

const json& field(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw BadRecord(fmt::format("field '{}' is missing", key));
  return *found;
}

[[noreturn]] void wrong_type(const char* key, const char* wanted, const json& found) {
  throw BadRecord(fmt::format("field '{}' must be {}, but is {}", key, wanted, found.type_name()));
}

std::string read_text(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_string()) wrong_type(key, "a string", value);
  return value.get<std::string>();
}

std::int64_t read_integer(const json& object, const char* key) {
  const json& value = field(object, key);
  const std::optional<std::int64_t> number = integer_of(value);
  if (!number) wrong_type(key, "a 64-bit integer", value);
  return *number;
}

double as_number(const json& value, const char* key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) wrong_type(key, "a number or null", value);
  return value.get<double>();
}

double read_number(const json& object, const char* key) { return as_number(field(object, key), key); }

const json& read_object(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_object()) wrong_type(key, "an object", value);
  return value;
}

std::vector<double> read_numbers(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_array()) wrong_type(key, "a list", value);
  std::vector<double> out;
  out.reserve(value.size());
  for (const json& one : value) out.push_back(as_number(one, key));
  return out;
}

std::map<std::string, Series> read_series(const json& object, const char* key) {
  std::map<std::string, Series> out;
  for (const auto& [name, one] : read_object(object, key).items()) {
    if (!one.is_object()) wrong_type(key, "an object of objects", one);
    Series& made = out[name];
    made.x = read_numbers(one, "x");
    made.y = read_numbers(one, "y");
    if (made.x.size() != made.y.size()) {
      throw BadRecord(
          fmt::format("'{}' of '{}' has {} x and {} y values", name, key, made.x.size(), made.y.size()));
    }
  }
  return out;
}

RunStatus read_status(const json& object) {
  const std::string text = read_text(object, "status");
  for (const RunStatus status : {RunStatus::done, RunStatus::diverged, RunStatus::failed}) {
    if (text == to_text(status)) return status;
  }
  throw BadRecord(fmt::format("status '{}' is none of done, diverged, failed", text));
}

Record read_record(const json& object) {
  if (!object.is_object()) throw BadRecord("not a JSON object");
  if (const std::int64_t version = read_integer(object, "v"); version != record_version) {
    throw BadRecord(
        fmt::format("record of version {}; this program reads version {}", version, record_version));
  }
  Record record;
  record.id = read_text(object, "id");
  if (record.id.empty()) throw BadRecord("field 'id' is empty");
  record.study = read_text(object, "study");
  record.label = read_text(object, "label");
  record.status = read_status(object);
  record.seed = read_integer(object, "seed");
  record.config = read_object(object, "config");
  record.d_dot = read_integer(object, "d_dot");
  record.state_size = read_integer(object, "state_size");
  record.steps = read_integer(object, "steps");
  record.eval_loss = read_number(object, "eval_loss");
  record.best_eval_loss = read_number(object, "best_eval_loss");
  record.eval_accuracy = read_number(object, "eval_accuracy");
  for (const auto& [name, value] : read_object(object, "metrics").items()) {
    record.metrics[name] = as_number(value, "metrics");
  }
  record.curves = read_series(object, "curves");
  record.profiles = read_series(object, "profiles");
  record.message = read_text(object, "message");
  record.provenance = read_object(object, "provenance");
  return record;
}

std::string unquoted(std::string_view text) {
  if (text.find('\\') != text.npos) return json::parse(text).get<std::string>();
  return std::string(text.substr(1, text.size() - 2));
}

/// The record of a line that is_written_record(), without JSON of the whole; nothing where keys have escapes or stand in another
/// order.
std::optional<Record> read_written(std::string_view line) {
  const RecordTexts texts = texts_of_line(line);
  for (const auto* members : {&texts.config, &texts.metrics, &texts.curves, &texts.profiles})
    for (std::size_t i = 0; i < members->size(); ++i)
      if ((*members)[i].first.find('\\') != line.npos ||
          (i > 0 && (*members)[i].first <= (*members)[i - 1].first))
        return std::nullopt;
  std::map<std::string_view, std::string_view> fields(texts.fields.begin(), texts.fields.end());
  const auto integer = [&](const char* key) {
    const std::string_view text = fields.at(key);
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  };
  Record record;
  record.id = unquoted(fields.at("id"));
  record.study = unquoted(fields.at("study"));
  record.label = unquoted(fields.at("label"));
  record.message = unquoted(fields.at("message"));
  const std::string status = unquoted(fields.at("status"));
  for (const RunStatus one : {RunStatus::diverged, RunStatus::failed})
    if (status == to_text(one)) record.status = one;
  if (record.id.empty() || status != to_text(record.status))
    return std::nullopt;  // from_intact_line() says why
  record.seed = integer("seed"), record.d_dot = integer("d_dot");
  record.state_size = integer("state_size"), record.steps = integer("steps");
  record.eval_loss = number_of(fields.at("eval_loss"));
  record.best_eval_loss = number_of(fields.at("best_eval_loss"));
  record.eval_accuracy = number_of(fields.at("eval_accuracy"));
  record.config = Configuration(texts.config);
  for (const auto& [name, value] : texts.metrics)
    record.metrics.emplace_hint(record.metrics.end(), name, number_of(value));
  for (const auto& [name, value] : texts.curves)
    record.curves.emplace_hint(record.curves.end(), name, series_in(value));
  for (const auto& [name, value] : texts.profiles)
    record.profiles.emplace_hint(record.profiles.end(), name, series_in(value));
  record.provenance = json::object();
  for (const auto& [name, value] : texts.provenance)
    record.provenance[json::parse(fmt::format("\"{}\"", name)).get<std::string>()] = json::parse(value);
  return record;
}

}  // namespace

std::string to_text(RunStatus status) {
  switch (status) {
    case RunStatus::done:
      return "done";
    case RunStatus::diverged:
      return "diverged";
    case RunStatus::failed:
      return "failed";
  }
  throw std::logic_error("unknown RunStatus");
}

std::string seal(std::string_view object) {
  return fmt::format("{}{}{:08x}\"}}", object.substr(0, object.size() - 1), crc_key, crc32c(object));
}

bool is_intact(std::string_view line) {
  if (line.size() < seal_size + 2 || line.front() != '{') return false;
  const std::string_view tail = line.substr(line.size() - seal_size);
  const std::uint32_t crc = crc32c("}", crc32c(line.substr(0, line.size() - seal_size)));
  return tail == fmt::format("{}{:08x}\"}}", crc_key, crc);
}

std::string to_line(const Record& record) {
  ordered_json out;
  out["v"] = record_version;
  out["id"] = record.id;
  out["study"] = record.study;
  out["label"] = record.label;
  out["status"] = to_text(record.status);
  out["seed"] = record.seed;
  out["config"] = record.config.object();
  add_result(out, record);
  out["provenance"] = record.provenance.is_null() ? ordered_json::object() : ordered_json(record.provenance);
  return seal(text_of(out));
}

ParsedLine from_line(std::string_view line) {
  if (!is_intact(line)) return {std::nullopt, "checksum does not match"};
  return from_intact_line(line);
}

std::optional<Record> head_of(std::string_view whole) {
  std::string_view line = whole;
  // Takes `prefix`, then a string without escapes and its closing quote.
  const auto text_after = [&](std::string_view prefix, std::string& text) {
    if (line.substr(0, prefix.size()) != prefix) return false;
    line.remove_prefix(prefix.size());
    const std::size_t end = line.find_first_of("\"\\");
    if (end == std::string_view::npos || line[end] == '\\') return false;
    text = line.substr(0, end);
    line.remove_prefix(end + 1);
    return true;
  };
  Record record;
  std::string status;
  static const std::string first = fmt::format("{{\"v\":{},\"id\":\"", record_version);
  if (!text_after(first, record.id) || record.id.empty() || !text_after(",\"study\":\"", record.study) ||
      !text_after(",\"label\":\"", record.label) || !text_after(",\"status\":\"", status))
    return std::nullopt;
  constexpr std::string_view seed = ",\"seed\":";
  if (line.substr(0, seed.size()) != seed) return std::nullopt;
  const char* begin = line.data() + seed.size();
  if (std::from_chars(begin, line.data() + line.size(), record.seed).ec != std::errc()) return std::nullopt;
  for (const RunStatus one : {RunStatus::done, RunStatus::diverged, RunStatus::failed}) {
    if (status != to_text(one)) continue;
    record.status = one;
    // A head whose record cannot be read would count as a run that is done, and be in no export.
    return is_written_record(whole) ? std::optional(record) : std::nullopt;
  }
  return std::nullopt;
}

std::string_view result_text(std::string_view line) {
  const std::size_t begin = line.find(",\"status\":\""), end = line.rfind(",\"provenance\":{");
  return begin == std::string_view::npos || end == std::string_view::npos || end < begin
             ? line
             : line.substr(begin, end - begin);
}

ParsedLine from_intact_line(std::string_view line) {
  if (nests_deeply(line))
    return {std::nullopt, fmt::format("lists and objects nested more than {} deep", max_json_depth)};
  try {
    if (is_written_record(line))
      if (std::optional<Record> record = read_written(line)) return {std::move(record), ""};
    return {read_record(json::parse(line)), ""};
  } catch (const BadRecord& error) {
    return {std::nullopt, error.what()};
  } catch (const json::exception& error) {
    return {std::nullopt, fmt::format("not JSON: {}", error.what())};
  }
}

bool same_result(const Record& a, const Record& b) {
  // Metrics and norms of gradients that only one has came with a later version; bounds and floors are theory, not results.
  static const std::set<std::string> theory = {"rank_bound", "sum_rule_floor", "sum_rule_floor_exact"};
  const auto result = [](const Record& record, const Record& other) {
    Record shared = record;
    std::erase_if(shared.metrics, [&](const auto& metric) {
      return other.metrics.count(metric.first) == 0 || theory.count(metric.first) != 0;
    });
    std::erase_if(shared.curves, [&](const auto& curve) {
      return other.curves.count(curve.first) == 0 && curve.first.starts_with("gradient_norm_");
    });
    ordered_json out;
    out["id"] = record.id;
    out["status"] = to_text(record.status);
    out["seed"] = record.seed;
    add_result(out, shared);
    return text_of(out);
  };
  return result(a, b) == result(b, a);
}

bool agree_where_known(const Record& a, const Record& b) {
  const auto known = [](Record one, const Record& other) {
    one.id.clear();
    one.message.clear();
    for (const auto field : {&Record::d_dot, &Record::state_size, &Record::steps})
      if (other.*field == 0) one.*field = 0;
    for (const auto field : {&Record::best_eval_loss, &Record::eval_accuracy})
      if (std::isnan(other.*field)) one.*field = other.*field;
    for (const auto field : {&Record::curves, &Record::profiles})
      std::erase_if(one.*field, [&](const auto& entry) { return (other.*field).count(entry.first) == 0; });
    return one;
  };
  return same_result(known(a, b), known(b, a));
}

}  // namespace crosstalk
