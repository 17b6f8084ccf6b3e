// Stores, studies and tables as columns of one type each, filled row by row, so that a large store needs little memory.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "experiments/program/row_stream.h"
#include "python/core/convert.h"
#include "results/numbers/verdict.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

using nlohmann::json;

/// Texts, each kept once.
class Texts {
 public:
  void add(const std::string& text) {
    const auto [at, is_new] = places_.try_emplace(text, static_cast<std::int32_t>(categories_.size()));
    if (is_new) categories_.push_back(text);
    codes_.push_back(at->second);
  }
  void skip() { codes_.push_back(-1); }
  std::size_t size() const { return codes_.size(); }
  nb::object take() { return nb::make_tuple("text", array_of(std::move(codes_)), nb::cast(categories_)); }

 private:
  std::unordered_map<std::string, std::int32_t> places_;
  std::vector<std::string> categories_;
  std::vector<std::int32_t> codes_;
};

/// Values of one name. A column that holds values of several types becomes one of numbers, or else one of texts.
class Column {
 public:
  /// The value of row `row`; rows before it that were left out are missing.
  void add(std::size_t row, const json& value) {
    if (value.is_null()) return;
    const Type type = value.is_boolean()          ? Type::boolean
                      : value.is_number_integer() ? Type::integer
                      : value.is_number()         ? Type::number
                                                  : Type::text;
    if (type_ == Type::none)
      type_ = type;
    else if (type != type_)
      widen((type == Type::integer && type_ == Type::number) ||
                    (type == Type::number && type_ == Type::integer)
                ? Type::number
                : Type::text);
    fill(row);
    switch (type_) {
      case Type::boolean:
        integers_.push_back(value.get<bool>());
        break;
      case Type::integer:
        integers_.push_back(value.get<std::int64_t>());
        break;
      case Type::number:
        numbers_.push_back(value.get<double>());
        break;
      default:
        texts_.add(value.is_string() ? value.get<std::string>() : value.dump());
    }
    there_.push_back(1);
  }
  void add(std::size_t row, double value) {
    if (std::isnan(value)) return;
    add(row, json(value));
  }

  /// (type, values, which are there), or (text, codes, categories).
  nb::object take(std::size_t rows) {
    fill(rows);
    switch (type_) {
      case Type::boolean:
        return nb::make_tuple("bool", array_of(std::move(integers_)), array_of(std::move(there_)));
      case Type::integer:
        return nb::make_tuple("int", array_of(std::move(integers_)), array_of(std::move(there_)));
      case Type::text:
        return texts_.take();
      default:
        numbers_.resize(rows, std::nan(""));
        return nb::make_tuple("float", array_of(std::move(numbers_)), array_of(std::move(there_)));
    }
  }

 private:
  enum class Type { none, boolean, integer, number, text };

  void fill(std::size_t rows) {
    while (there_.size() < rows) {
      there_.push_back(0);
      if (type_ == Type::boolean || type_ == Type::integer) integers_.push_back(0);
      if (type_ == Type::number) numbers_.push_back(std::nan(""));
      if (type_ == Type::text) texts_.skip();
    }
  }
  void widen(Type type) {
    if (type == type_) return;
    for (std::size_t i = 0; i < there_.size(); ++i) {
      const double number = type_ == Type::number ? numbers_[i] : 0;
      if (type == Type::number)
        numbers_.push_back(there_[i] ? static_cast<double>(integers_[i]) : std::nan(""));
      else if (!there_[i])
        texts_.skip();
      else
        texts_.add(type_ == Type::boolean  ? json(integers_[i] != 0).dump()
                   : type_ == Type::number ? json(number).dump()
                                           : json(integers_[i]).dump());
    }
    if (type_ == Type::number) numbers_.clear();
    integers_.clear();
    type_ = type;
  }

  Type type_ = Type::none;
  std::vector<std::int64_t> integers_;
  std::vector<double> numbers_;
  std::vector<std::uint8_t> there_;
  Texts texts_;
};

/// What a command of the program would be given, and what it would warn of.
struct Request {
  Request(const std::vector<std::string>& names_, const std::vector<std::string>& where,
          const std::vector<std::string>& set, const std::optional<std::string>& store)
      : names(names_) {
    if (!where.empty()) arguments.options["where"] = where;
    if (!set.empty()) arguments.options["set"] = set;
    if (store) arguments.options["store"] = {*store};
    arguments.positional = names;
  }
  /// Calls `add` for every record, one at a time; of what is none, a warning says so.
  void read(program::RowStream::Part part, const auto& add) {
    const nb::gil_scoped_release release;
    program::RowStream stream(names, arguments, console);
    const RowSource source = stream.source(part);
    for (const auto& [key, head] : *source.heads) {
      Record record;
      try {
        record = source.whole(head);
      } catch (const std::runtime_error& error) {
        source.left_out(error.what());
        continue;
      }
      add(record);
    }
  }
  std::vector<std::string> names;
  program::Arguments arguments;
  std::ostringstream out, err;
  program::Console console{.out = out, .err = err, .arguments = {}};
};

/// (columns in the order of `crosstalk export`, rows, warnings).
nb::tuple columns_of(const std::vector<std::string>& names, const std::vector<std::string>& where,
                     const std::vector<std::string>& set, const std::optional<std::string>& store,
                     bool provenance) {
  Request request(names, where, set, store);
  std::size_t rows = 0;
  std::map<std::string, Column> config, metrics, origin;
  Column id, study, label, status, seed, version, d_dot, state_size, steps, verdict, loss, best, accuracy;
  bool versions = false;
  std::string first;
  request.read(
      provenance ? program::RowStream::Part::results_and_provenance : program::RowStream::Part::results,
      [&](const Record& record) {
        if (rows == 0) first = record.version;
        versions |= record.version != first;
        id.add(rows, json(record.id)), study.add(rows, json(record.study)),
            label.add(rows, json(record.label));
        status.add(rows, json(to_text(record.status))), seed.add(rows, json(record.seed));
        version.add(rows, json(record.version));
        for (const auto& [name, value] : record.config) config[name].add(rows, value);
        d_dot.add(rows, json(record.d_dot));
        state_size.add(rows, record.state_size > 0 ? json(record.state_size) : json());
        steps.add(rows, json(record.steps)), verdict.add(rows, json(to_text(verdict_of(record))));
        loss.add(rows, record.eval_loss), best.add(rows, record.best_eval_loss),
            accuracy.add(rows, record.eval_accuracy);
        for (const auto& [name, value] : record.metrics) metrics[name].add(rows, value);
        if (provenance && record.provenance.is_object())
          for (const auto& [name, value] : record.provenance.items())
            origin["provenance." + name].add(rows, value);
        ++rows;
      });
  nb::list all;
  const auto take = [&](const std::string& name, Column& column) {
    all.append(nb::make_tuple(name, column.take(rows)));
  };
  take("id", id), take("study", study), take("label", label), take("status", status), take("seed", seed);
  if (versions) take("study_version", version);
  for (auto& [name, column] : config) take(name, column);
  take("d_dot", d_dot), take("state_size", state_size), take("steps", steps), take("verdict", verdict);
  take("eval_loss", loss), take("best_eval_loss", best), take("eval_accuracy", accuracy);
  for (auto& [name, column] : metrics) take(name, column);
  for (auto& [name, column] : origin) take(name, column);
  return nb::make_tuple(all, rows, request.err.str());
}

/// Learning curves and profiles in long form: id, label, seed, step (of a profile its x), metric, value.
nb::tuple curves_of(const std::vector<std::string>& names, const std::vector<std::string>& where,
                    const std::vector<std::string>& set, const std::optional<std::string>& store) {
  Request request(names, where, set, store);
  Texts id, label, metric;
  std::vector<std::int64_t> seed;
  std::vector<double> step, value;
  request.read(program::RowStream::Part::all, [&](const Record& record) {
    for (const auto* all : {&record.curves, &record.profiles})
      for (const auto& [name, series] : *all)
        for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
          id.add(record.id), label.add(record.label), metric.add(name);
          seed.push_back(record.seed), step.push_back(series.x[i]), value.push_back(series.y[i]);
        }
  });
  const std::size_t rows = value.size();
  const std::vector<std::uint8_t> there(rows, 1);
  const auto number = [&](std::vector<double>&& values) {
    return nb::make_tuple("float", array_of(std::move(values)), array_of(std::vector<std::uint8_t>(there)));
  };
  nb::list all;
  const auto add = [&](const char* name, nb::object column) {
    all.append(nb::make_tuple(name, std::move(column)));
  };
  add("id", id.take()), add("label", label.take());
  add("seed", nb::make_tuple("int", array_of(std::move(seed)), array_of(std::vector<std::uint8_t>(there))));
  add("step", number(std::move(step))), add("metric", metric.take()), add("value", number(std::move(value)));
  return nb::make_tuple(all, rows, request.err.str());
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("columns", &columns_of, "names"_a, "where"_a, "set"_a, "store"_a.none(), "provenance"_a);
  m.def("curves", &curves_of, "names"_a, "where"_a, "set"_a, "store"_a.none());
}

}  // namespace crosstalk::python
