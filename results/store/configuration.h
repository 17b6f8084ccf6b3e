// The resolved options of a record: a flat object of JSON, of which each key and value is stored once for the whole program.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crosstalk {

/// Dotted key -> resolved value ("task.associations": 20, ...), sorted. An option takes 16 bytes, and equal values of two
/// records are one: stores of 100,000 runs name the same hundred keys and few values.
class Configuration {
 public:
  /// A value, and as config_text() says it: a string without quotes, a number as it stands in a study file.
  struct Value {
    nlohmann::json json;
    const std::string* text;  ///< the program's one copy: 1 and 1.0 are two values of one text
  };
  struct Entry {
    const std::string* key;
    const Value* value;  ///< the program's one value of this type and text
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  class Iterator {
   public:
    explicit Iterator(const Entry* at) : at_(at) {}
    std::pair<const std::string&, const nlohmann::json&> operator*() const {
      return {*at_->key, at_->value->json};
    }
    Iterator& operator++() { return ++at_, *this; }
    bool operator==(const Iterator&) const = default;

   private:
    const Entry* at_;
  };
  /// The place of a key that is written.
  class Place {
   public:
    Place(Configuration& owner, std::string key) : owner_(owner), key_(std::move(key)) {}
    Place& operator=(const nlohmann::json& value) { return owner_.set(key_, value), *this; }
    template <class T>
    T get() const {
      return owner_.at(key_).template get<T>();
    }
    template <class T>
    bool operator==(const T& value) const {
      const nlohmann::json* found = owner_.find(key_);
      return found != nullptr && *found == value;
    }

   private:
    Configuration& owner_;
    std::string key_;
  };

  Configuration() = default;
  /// Of an object of JSON, or of null (empty). Throws nlohmann::json::type_error for anything else.
  Configuration(const nlohmann::json& object);  // NOLINT: a literal of JSON is one
  Configuration(std::initializer_list<std::pair<std::string, nlohmann::json>> options);
  /// Of keys without escapes in order, and the JSON of their values, each of which is parsed once in the program; the order of
  /// an object that this program wrote. Throws nlohmann::json::parse_error.
  explicit Configuration(const std::vector<std::pair<std::string_view, std::string_view>>& texts);

  bool empty() const { return entries_.empty(); }
  const std::vector<Entry>& entries() const { return entries_; }
  Iterator begin() const { return Iterator(entries_.data()); }
  Iterator end() const { return Iterator(entries_.data() + entries_.size()); }
  /// Null where there is none.
  const Value* value_of(std::string_view key) const;
  const nlohmann::json* find(std::string_view key) const;
  bool contains(std::string_view key) const { return value_of(key) != nullptr; }
  /// Throws std::out_of_range.
  const nlohmann::json& at(std::string_view key) const;
  Place operator[](const std::string& key) { return Place(*this, key); }
  const nlohmann::json& operator[](const std::string& key) const { return at(key); }
  void set(const std::string& key, const nlohmann::json& value);
  void erase(std::string_view key);
  void clear() { entries_.clear(); }
  nlohmann::json object() const;

  friend bool operator==(const Configuration&, const Configuration&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace crosstalk
