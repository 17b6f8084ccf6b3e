// Walks over the text of a record's line.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/record_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "results/csv.h"
#include "results/json_bounds.h"
#include "results/store/record_io.h"

namespace crosstalk {
namespace {

/// Behind the closing quote of the string that opens at `at`; any bytes will do, the end of the text ends it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  const std::size_t quote = text.find('"', at + 1);
  if (quote != text.npos && text[quote - 1] != '\\') return quote + 1;  // nearly always
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return text.size();
}

/// Behind the object or list that opens at `at`; `at` itself if none does.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  if (at >= text.size() || (text[at] != '{' && text[at] != '[')) return at;
  for (int depth = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

/// Calls member(depth, key, at) for every member of an object, `at` being where its value begins, and goes on where
/// that returns.
template <class Member>
void walk(std::string_view line, const Member& member) {
  int depth = 0;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c != '"') {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at;
      continue;
    }
    const std::size_t end = end_of_string(line, at);
    if (end < line.size() && line[end] == ':')
      at = member(depth, line.substr(at + 1, end - at - 2), end + 1);
    else
      at = end;
  }
}

/// Takes a line's text from its begin. What is JSON but not written by this program need not be understood.
class Scan {
 public:
  explicit Scan(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  bool is_at_end() const { return at_ == end_; }
  bool take(std::string_view text) {
    if (static_cast<std::size_t>(end_ - at_) < text.size() || std::memcmp(at_, text.data(), text.size()) != 0)
      return false;
    at_ += text.size();
    return true;
  }
  /// Of printable ASCII without escapes of characters by their number.
  bool string() {
    if (!take("\"")) return false;
    const auto* stop = static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
    if (stop == nullptr) return false;
    bool plain = true;  // no way out of the loop: the compiler takes many letters at once
    for (const char* c = at_; c != stop; ++c) plain &= is_ascii(*c) & (*c != '\\');
    if (!plain) return escaped_string();
    at_ = stop + 1;
    return true;
  }
  /// Of few digits, so that it surely fits.
  bool integer() {
    take("-");
    const char* begin = at_;
    return digits(18) && (*begin != '0' || at_ - begin == 1);
  }
  bool number() {
    if (take("null")) return true;
    if (!integer()) return false;
    if (take(".") && !digits(40)) return false;
    if (at_ == end_ || *at_ != 'e') return true;
    ++at_;
    if (!take("-")) take("+");
    return digits(2);
  }
  bool value(int depth = 0) {
    if (at_ == end_ || depth > max_json_depth / 2) return false;
    switch (*at_) {
      case '"':
        return string();
      case '{':
        return object([&] { return value(depth + 1); });
      case '[':
        return list([&] { return value(depth + 1); }).has_value();
      case 't':
        return take("true");
      case 'f':
        return take("false");
      default:
        return number();
    }
  }
  /// member() takes the value of each.
  template <class Member>
  bool object(const Member& member) {
    if (!take("{")) return false;
    if (take("}")) return true;
    do {
      if (!string() || !take(":") || !member()) return false;
    } while (take(","));
    return take("}");
  }
  /// How many there are.
  template <class Item>
  std::optional<std::size_t> list(const Item& item) {
    if (!take("[")) return std::nullopt;
    if (take("]")) return 0;
    std::size_t count = 0;
    do {
      if (!item()) return std::nullopt;
      ++count;
    } while (take(","));
    if (!take("]")) return std::nullopt;
    return count;
  }
  bool series() {
    const auto numbers = [&] { return list([&] { return number(); }); };
    return object([&] {
      if (!take("{\"x\":")) return false;
      const auto x = numbers();
      if (!x || !take(",\"y\":")) return false;
      return numbers() == x && take("}");
    });
  }

 private:
  static bool is_ascii(char c) { return static_cast<unsigned char>(c - 0x20) < 0x60; }
  bool digits(int most) {
    const char* begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin && at_ - begin <= most;
  }
  /// Behind the opening quote, with escapes of one letter.
  bool escaped_string() {
    for (; at_ != end_ && *at_ != '"'; ++at_) {
      if (!is_ascii(*at_)) return false;
      if (*at_ == '\\' && (++at_ == end_ || std::strchr("\"\\/bfnrt", *at_) == nullptr)) return false;
    }
    return take("\"");
  }

  const char *at_, *end_;
};

}  // namespace

bool is_written_record(std::string_view line) {
  Scan scan(line);
  static const std::string begin = fmt::format("{{\"v\":{},\"id\":", record_version);
  const auto integer = [&](const char* key) { return scan.take(key) && scan.integer(); };
  const auto number = [&](const char* key) { return scan.take(key) && scan.number(); };
  const auto text = [&](const char* key) { return scan.take(key) && scan.string(); };
  const auto anything = [&] { return scan.value(); };
  return scan.take(begin) && scan.string() && text(",\"study\":") && text(",\"label\":") &&
         text(",\"status\":") && integer(",\"seed\":") && scan.take(",\"config\":") &&
         scan.object(anything) && integer(",\"d_dot\":") && integer(",\"state_size\":") &&
         integer(",\"steps\":") && number(",\"eval_loss\":") && number(",\"best_eval_loss\":") &&
         number(",\"eval_accuracy\":") && scan.take(",\"metrics\":") &&
         scan.object([&] { return scan.number(); }) && scan.take(",\"curves\":") && scan.series() &&
         scan.take(",\"profiles\":") && scan.series() && text(",\"message\":") &&
         scan.take(",\"provenance\":") && scan.object(anything) && text(",\"crc\":") && scan.take("}") &&
         scan.is_at_end();
}

RecordKeys keys_of_line(std::string_view line) {
  RecordKeys keys;
  std::vector<std::string_view>* section = nullptr;
  walk(line, [&](int depth, std::string_view key, std::size_t at) {
    if (depth == 1) {
      section = key == "config"       ? &keys.config
                : key == "metrics"    ? &keys.metrics
                : key == "provenance" ? &keys.provenance
                                      : nullptr;
      return section == nullptr ? end_of_value(line, at) : at;
    }
    if (depth == 2 && section != nullptr) section->push_back(key);
    return end_of_value(line, at);
  });
  return keys;
}

RecordTexts texts_of_line(std::string_view line) {
  RecordTexts texts;
  RecordTexts::Members* section = nullptr;
  walk(line, [&](int depth, std::string_view key, std::size_t at) {
    if (depth == 1) {
      section = key == "config"       ? &texts.config
                : key == "metrics"    ? &texts.metrics
                : key == "provenance" ? &texts.provenance
                : key == "curves"     ? &texts.curves
                : key == "profiles"   ? &texts.profiles
                                      : nullptr;
      if (section != nullptr) return at;
    }
    std::size_t end = end_of_value(line, at);
    if (end == at && at < line.size())
      end = line[at] == '"' ? end_of_string(line, at) : std::min(line.find_first_of(",}]", at), line.size());
    RecordTexts::Members* to = depth == 1 ? &texts.fields : depth == 2 ? section : nullptr;
    if (to != nullptr) to->emplace_back(key, line.substr(at, end - at));
    return end;
  });
  return texts;
}

double number_of(std::string_view text) {
  return number_in(text).value_or(std::numeric_limits<double>::quiet_NaN());
}

Series series_in(std::string_view text) {
  Series made;
  const std::size_t end_of_x = text.find(']');
  for (auto* list : {&made.x, &made.y}) {
    std::size_t at = text.find('[', list == &made.x ? 0 : end_of_x) + 1;
    while (text[at] != ']') {
      const std::size_t end = text.find_first_of(",]", at);
      list->push_back(number_of(text.substr(at, end - at)));
      at = end + (text[end] == ',' ? 1 : 0);
    }
  }
  return made;
}

std::string without_series(std::string_view line, bool provenance) {
  std::string out;
  std::size_t copied = 0;
  walk(line, [&](int depth, std::string_view key, std::size_t at) {
    if (depth != 1) return at;
    const std::size_t end = end_of_value(line, at);
    const bool unwanted = key == "curves" || key == "profiles" || (key == "provenance" && !provenance);
    if (!unwanted || at >= line.size() || line[at] != '{') return end;
    out.append(line.substr(copied, at - copied)).append("{}");
    copied = end;
    return end;
  });
  return out.append(line.substr(copied));
}

}  // namespace crosstalk
