// SPDX-License-Identifier: Apache-2.0
#include "results/store/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace crosstalk {
namespace {

using nlohmann::json;

/// Written alike: 1 is not 1.0, nor 0.0 -0.0.
struct SameTypeAndValue {
  bool operator()(const json& a, const json& b) const {
    return a.type() == b.type() && a == b &&
           (!a.is_number_float() || std::signbit(a.get<double>()) == std::signbit(b.get<double>()));
  }
};

/// The program's keys and values. Locked once a configuration.
class Interned {
 public:
  static Interned& all() {
    static Interned one;
    return one;
  }
  std::mutex mutex;

  const std::string* key(std::string_view text) {
    const auto found = keys_.find(text);
    return found != keys_.end() ? &*found : &*keys_.emplace(text).first;
  }
  const Configuration::Value* parsed(std::string_view text) {
    const auto found = parsed_.find(text);
    if (found != parsed_.end()) return found->second;
    return parsed_.emplace(text, value(json::parse(text))).first->second;
  }

  const Configuration::Value* value(const json& given) {
    // Readers of JSON call whole numbers unsigned, programs signed ones.
    if (given.is_number_unsigned() &&
        given.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()})
      return stored(json(given.get<std::int64_t>()));
    return stored(given);
  }

 private:
  const Configuration::Value* stored(const json& given) {
    const auto [place, is_new] = values_.try_emplace(given);
    if (is_new) {
      place->second.json = given;
      place->second.text = key(given.is_string()         ? given.get<std::string>()
                               : given.is_number_float() ? fmt::format("{}", given.get<double>())
                                                         : given.dump());
    }
    return &place->second;
  }

  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::unordered_set<std::string, Hash, std::equal_to<>> keys_;  // nodes stay where they are, in both
  std::unordered_map<json, Configuration::Value, std::hash<json>, SameTypeAndValue> values_;
  std::unordered_map<std::string, const Configuration::Value*, Hash, std::equal_to<>> parsed_;
};

template <class Entries>
auto place_of(Entries& entries, std::string_view key) {
  return std::ranges::lower_bound(
      entries, key, {}, [](const Configuration::Entry& entry) -> std::string_view { return *entry.key; });
}

}  // namespace

Configuration::Configuration(const json& object) {
  if (object.is_null()) return;
  const auto& members = object.get_ref<const json::object_t&>();
  entries_.reserve(members.size());
  Interned& all = Interned::all();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, value] : members) entries_.push_back({all.key(key), all.value(value)});
}

Configuration::Configuration(std::initializer_list<std::pair<std::string, json>> options) {
  for (const auto& [key, value] : options) set(key, value);
}

Configuration::Configuration(const std::vector<std::pair<std::string_view, std::string_view>>& texts) {
  entries_.reserve(texts.size());
  Interned& all = Interned::all();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, text] : texts) entries_.push_back({all.key(key), all.parsed(text)});
}

const Configuration::Value* Configuration::value_of(std::string_view key) const {
  const auto place = place_of(entries_, key);
  return place == entries_.end() || *place->key != key ? nullptr : place->value;
}

const json* Configuration::find(std::string_view key) const {
  const Value* value = value_of(key);
  return value == nullptr ? nullptr : &value->json;
}

const json& Configuration::at(std::string_view key) const {
  const json* found = find(key);
  if (found == nullptr) throw std::out_of_range(fmt::format("the configuration has no {}", key));
  return *found;
}

void Configuration::set(const std::string& key, const json& value) {
  Interned& all = Interned::all();
  const std::lock_guard lock(all.mutex);
  const auto place = place_of(entries_, key);
  if (place != entries_.end() && *place->key == key)
    place->value = all.value(value);
  else
    entries_.insert(place, {all.key(key), all.value(value)});
}

void Configuration::erase(std::string_view key) {
  const auto place = place_of(entries_, key);
  if (place != entries_.end() && *place->key == key) entries_.erase(place);
}

json Configuration::object() const {
  json object = json::object();
  for (const auto& [key, value] : *this) object[key] = value;
  return object;
}

}  // namespace crosstalk
