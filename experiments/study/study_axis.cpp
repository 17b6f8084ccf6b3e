// Ranges of a grid: counted at once, spelled out value by value.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "experiments/study/study_file.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kMany = std::numeric_limits<std::int64_t>::max();

bool is_integer(const OptionValue& value) { return std::holds_alternative<std::int64_t>(value); }

double number_of(const OptionValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  throw std::invalid_argument(fmt::format("wants numbers, got {}", to_text(value)));
}

/// What a person would write for a + i step: 0.3, not 0.30000000000000004, so that a range and a list with
/// the same values have the same run ids.
double rounded(double value) { return std::strtod(fmt::format("{:.12g}", value).c_str(), nullptr); }

std::int64_t bounded(double count) { return count >= 9e18 ? kMany : static_cast<std::int64_t>(count); }

std::int64_t integer_count(std::int64_t first, std::int64_t last, std::int64_t step) {
  if (step > 0 ? first > last : first < last) return 0;
  const auto unsign = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  const std::uint64_t span = step > 0 ? unsign(last) - unsign(first) : unsign(first) - unsign(last);
  const std::uint64_t count = span / (step > 0 ? unsign(step) : 0 - unsign(step));
  return count >= unsign(kMany) ? kMany : static_cast<std::int64_t>(count) + 1;
}

/// Throws where a range does not end where it says, or its values do not differ.
void check_end(const AxisValues& axis, const OptionValue& end) {
  const OptionValue last = axis.value(axis.range_count - 1).value;
  if (axis.range_count > 1 && axis.value(axis.range_count - 2).value == last)
    throw std::invalid_argument(
        fmt::format("has steps of {}, by which numbers of 12 digits near {} do not change",
                    to_text(axis.step), to_text(last)));
  const double at = number_of(last), step = number_of(axis.step), wanted = number_of(end);
  if (std::abs(at - wanted) <= 1e-9 * std::max(std::abs(wanted), std::abs(number_of(axis.begin)))) return;
  throw std::invalid_argument(
      fmt::format("does not end at {}: {} {} lead to {} and then to {}; let it end at one of these",
                  to_text(end), axis.logarithmic ? "factors of" : "steps of", to_text(axis.step),
                  to_text(last), axis.logarithmic ? at * step : at + step));
}

}  // namespace

Setting AxisValues::value(std::int64_t index) const {
  if (!ranged) return list.at(static_cast<std::size_t>(index));
  if (logarithmic) {
    if (is_integer(begin)) {
      std::int64_t value = std::get<std::int64_t>(begin);
      for (std::int64_t i = 0; i < index; ++i) value *= std::get<std::int64_t>(step);
      return {value, from};
    }
    return {rounded(number_of(begin) * std::pow(number_of(step), static_cast<double>(index))), from};
  }
  if (is_integer(begin)) return {std::get<std::int64_t>(begin) + index * std::get<std::int64_t>(step), from};
  return {rounded(number_of(begin) + static_cast<double>(index) * number_of(step)), from};
}

AxisValues make_range(const std::vector<OptionValue>& numbers) {
  if (numbers.size() != 2 && numbers.size() != 3) {
    throw std::invalid_argument("wants [first, last] or [first, last, step]");
  }
  AxisValues axis;
  axis.ranged = true;
  axis.begin = numbers[0];
  axis.step = numbers.size() == 3 ? numbers[2] : OptionValue(std::int64_t{1});
  const double first = number_of(numbers[0]), last = number_of(numbers[1]), step = number_of(axis.step);
  if (step == 0) throw std::invalid_argument("has step 0; a step moves from the first value to the last");
  if (is_integer(numbers[0]) && is_integer(numbers[1]) && is_integer(axis.step)) {
    axis.range_count = integer_count(std::get<std::int64_t>(numbers[0]), std::get<std::int64_t>(numbers[1]),
                                     std::get<std::int64_t>(axis.step));
  } else {
    axis.begin = first;
    axis.step = step;
    const double steps = (last - first) / step + 1e-9;
    axis.range_count = steps < 0 ? 0 : bounded(std::floor(steps) + 1);
  }
  if (axis.range_count == 0) {
    throw std::invalid_argument(fmt::format("is empty: no steps of {} lead from {} to {}", to_text(axis.step),
                                            to_text(numbers[0]), to_text(numbers[1])));
  }
  // Three rising numbers, the third of which is no step: a list of values was meant.
  if (axis.range_count == 1 && numbers.size() == 3 && first < last && last < step) {
    throw std::invalid_argument(fmt::format(
        "is its first value alone: [first, last, step] with step {} leads from {} past {}; values are listed without range: {}, {}, {}",
        to_text(axis.step), to_text(numbers[0]), to_text(numbers[1]), to_text(numbers[0]),
        to_text(numbers[1]), to_text(numbers[2])));
  }
  if (axis.range_count != kMany) check_end(axis, numbers[1]);
  return axis;
}

AxisValues make_logrange(const std::vector<OptionValue>& numbers, const OptionValue& base) {
  if (numbers.size() != 2) throw std::invalid_argument("wants [first, last] and base = 2 beside it");
  const double first = number_of(numbers[0]), last = number_of(numbers[1]), factor = number_of(base);
  if (!(first > 0)) throw std::invalid_argument("must begin above 0");
  if (!(factor > 1)) throw std::invalid_argument("needs a base above 1");
  if (last < first) {
    throw std::invalid_argument(
        fmt::format("is empty: {} lies above {}", to_text(numbers[0]), to_text(numbers[1])));
  }
  AxisValues axis;
  axis.ranged = axis.logarithmic = true;
  if (is_integer(numbers[0]) && is_integer(numbers[1]) && is_integer(base)) {
    axis.begin = numbers[0];
    axis.step = base;
    std::int64_t value = std::get<std::int64_t>(numbers[0]);
    const std::int64_t end = std::get<std::int64_t>(numbers[1]), times = std::get<std::int64_t>(base);
    for (axis.range_count = 1; value <= end / times; ++axis.range_count) value *= times;
  } else {
    axis.begin = first;
    axis.step = factor;
    axis.range_count = bounded(std::floor(std::log(last / first) / std::log(factor) + 1e-9) + 1);
  }
  check_end(axis, numbers[1]);
  return axis;
}

std::int64_t missing_step(const std::string& key, const std::vector<OptionValue>& numbers) {
  if (key != "task.associations" && key != "task.pairs") return 0;
  if (numbers.size() != 2 || !is_integer(numbers[0]) || !is_integer(numbers[1])) return 0;
  const std::int64_t first = std::get<std::int64_t>(numbers[0]), last = std::get<std::int64_t>(numbers[1]);
  if (integer_count(first, last, 1) <= 20) return 0;
  std::int64_t coarse = 0;
  for (std::int64_t ten = 1; ten < kMany / 100; ten *= 10) {
    for (const std::int64_t digit : {1, 2, 4, 5, 8}) {
      const std::int64_t step = digit * ten;
      if (integer_count(first, last, step) > 12) continue;
      if (coarse == 0) coarse = step;
      if ((last - first) % step == 0) return step;  // one that ends where the range ends
      if (integer_count(first, last, step) < 5) return coarse;
    }
  }
  return coarse;
}

}  // namespace crosstalk
