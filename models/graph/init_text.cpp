// How parameters start, as the text of model.init.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/init_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace crosstalk {
namespace {

/// The finite decimal numbers that stand in `text` where `pattern` has a '#'; nothing where it has another
/// form. Blanks may stand anywhere but within a number.
std::optional<std::vector<double>> numbers_of(std::string_view text, std::string_view pattern) {
  std::vector<double> numbers;
  const auto skip_blanks = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  };
  for (const char c : pattern) {
    skip_blanks();
    if (c != '#') {
      if (text.empty() || text.front() != c) return std::nullopt;
      text.remove_prefix(1);
      continue;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    numbers.push_back(number);
  }
  skip_blanks();
  return text.empty() ? std::optional(numbers) : std::nullopt;
}

}  // namespace

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? std::string() : text.substr(first, last - first + 1);
}

std::string Init::text() const {
  switch (law) {
    case Law::uniform:
      return fmt::format("U({:.4g}, {:.4g})", low, high);
    case Law::normal:
      return fmt::format("N({:.4g}, {:.4g}^2)", low, high);
    case Law::constant:
      return fmt::format("{:.4g}", low);
    case Law::log_uniform:
      return fmt::format("log U({:.4g}, {:.4g})", low, high);
    case Law::inverse_softplus:
      return fmt::format("softplus^-1(exp U(log {:.4g}, log {:.4g}))", low, high);
    case Law::logit_step:
      return fmt::format("logit(exp U(log {:.4g}, log {:.4g}) / 5)", low, high);
    case Law::signed_step:
      return fmt::format("+-2 artanh((e^-y - e^-5) / (1 - e^-5)), y = exp U(log {:.4g}, log {:.4g})", low,
                         high);
    case Law::orthogonal:
      return low == 1 ? "orthogonal" : fmt::format("orthogonal times {:.4g}", low);
    case Law::listed:
      return fmt::format("{:.4g} .. {:.4g} (listed)", list.front(), list.back());
  }
  return "";
}

Init Init::parse(const std::string& text) {
  const auto wrong = [&] {
    return std::invalid_argument(fmt::format(
        "'{}' is no law; write for example 0.5, U(-0.1, 0.1), N(0, 0.02^2), log U(1, 16) or softplus^-1(exp U(log 0.001, log 0.1))",
        text));
  };
  struct Pattern {
    const char* pattern;
    Law law;
  };
  for (const auto& [pattern, law] :
       {Pattern{"U(#,#)", Law::uniform}, Pattern{"N(#,#^2)", Law::normal},
        Pattern{"logU(#,#)", Law::log_uniform},
        Pattern{"softplus^-1(expU(log#,log#))", Law::inverse_softplus}, Pattern{"#", Law::constant}}) {
    const std::optional<std::vector<double>> numbers = numbers_of(text, pattern);
    if (!numbers) continue;
    if (law == Law::constant) return constant(numbers->at(0));
    const Init init{law, numbers->at(0), numbers->at(1)};
    const bool positive = law == Law::log_uniform || law == Law::inverse_softplus;
    if ((law == Law::normal ? init.high < 0 : init.low > init.high) || (positive && init.low < 0) ||
        (law == Law::inverse_softplus && init.low == 0))
      throw wrong();
    return init;
  }
  throw wrong();
}

std::map<std::string, Init> inits_of(const std::string& text) {
  std::map<std::string, Init> inits;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    const std::string entry = trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos)
      throw std::invalid_argument(fmt::format("'{}' is no 'PARAMETER = LAW'", entry));
    const std::string name = trimmed(entry.substr(0, equals));
    if (!inits.emplace(name, Init::parse(trimmed(entry.substr(equals + 1)))).second)
      throw std::invalid_argument(fmt::format("{} stands twice", name));
  }
  return inits;
}

}  // namespace crosstalk
