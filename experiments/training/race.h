// Races (train.race): runs of one seed that differ in their rates alone train side by side, and all end at the first evaluation at
// which one of them is solved.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/options.h"

namespace crosstalk {

/// In what siblings, the runs of a race, differ.
inline constexpr std::array kRates = {"train.learning_rate", "train.muon_rate", "train.weight_decay"};
inline constexpr std::int64_t kNeverSolved = std::numeric_limits<std::int64_t>::max();

/// The name of a run's race, equal for siblings; "" without train.race.
std::string race_of(const Options& config);

/// Siblings together, in the place of the first of them; every other item alone.
template <class Item, class RaceOf>
std::vector<std::vector<Item>> races_in(std::vector<Item> items, const RaceOf& race) {
  std::vector<std::vector<Item>> races;
  std::map<std::string, std::size_t> places;
  for (Item& item : items) {
    const std::string name = race(item);
    const std::size_t place = name.empty() ? races.size() : places.emplace(name, races.size()).first->second;
    if (place == races.size()) races.emplace_back();
    races[place].push_back(std::move(item));
  }
  return races;
}

/// Runs of the largest race: they train side by side, however few replicas a pack shall have.
template <class Item, class RaceOf>
std::size_t largest_race(const std::vector<Item>& items, const RaceOf& race) {
  std::map<std::string, std::size_t> sizes;
  std::size_t largest = 1;
  for (const Item& item : items)
    if (const std::string name = race(item); !name.empty()) largest = std::max(largest, ++sizes[name]);
  return largest;
}

}  // namespace crosstalk
