// Shares of runs.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "experiments/training/pack.h"

namespace crosstalk::program {
namespace {

/// Runs that one pack trains at most on a GPU, one after the other in its slots.
constexpr std::size_t kLargestPack = std::size_t{default_replicas} * refills;
/// Least number of uncut packs in a GPU's share.
constexpr double kPacksOfAShare = 4;
/// Packs of a round, in multiples of those side by side: the barrier after a round costs a tail.
constexpr std::size_t kOwnRounds = 8;

/// Runs with equal pack keys.
struct Group {
  double cost;  ///< of one run
  Unit ids;
  double whole() const { return cost * static_cast<double>(ids.size()); }
};

/// The units of a share that still have something to train.
Share what_is_left(const Share& share, const std::function<bool(const std::string&)>& recorded) {
  Share left;
  for (const Unit& unit : share) {
    Unit rest;
    for (const std::string& id : unit)
      if (!recorded(id)) rest.push_back(id);
    if (!rest.empty()) left.push_back(std::move(rest));
  }
  return left;
}

std::vector<std::string> flat(Share::const_iterator begin, Share::const_iterator end) {
  std::vector<std::string> ids;
  for (; begin != end; ++begin) ids.insert(ids.end(), begin->begin(), begin->end());
  return ids;
}

}  // namespace

std::vector<Share> share_out(const std::vector<Run>& runs, int workers, const TrainingOptions& options) {
  const auto n = static_cast<std::size_t>(workers);
  std::map<std::string, std::vector<const Run*>> by_key;
  for (const Run& run : runs) by_key[pack_key(run.config)].push_back(&run);
  std::vector<Group> groups;
  for (auto& [key, members] : by_key) {
    Group group{estimated_cost(*members[0], options.device), {}};
    for (const Run* run : members) group.ids.push_back(run->id);
    // Ids are hashes: in their order, no share has all runs of one seed or rate.
    std::ranges::sort(group.ids);
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    const double x = a.whole(), y = b.whole();
    return x != y ? x > y : a.ids[0] < b.ids[0];
  });

  // Longest first to the smallest share: within a third of the optimum (Graham 1969). The cost of a group is an
  // estimate, since its number of steps is unknown. Errors of many small groups cancel; a large
  // one is cut into as few parts as are no longer large, since a GPU trains halves of two packs slower than one
  // of them.
  double total = 0;
  for (const Group& group : groups) total += group.whole();
  std::vector<Share> shares(n);
  std::vector<double> load(n, 0);
  const double large = total / (static_cast<double>(n) * kPacksOfAShare);
  for (const Group& group : groups) {
    const std::size_t runs_here = group.ids.size();
    std::size_t size = options.pack > 0 ? static_cast<std::size_t>(options.pack) : 1, parts = 0;
    if (options.device == Device::cuda) {
      size = kLargestPack;
      parts = std::min({n, runs_here, static_cast<std::size_t>(std::ceil(group.whole() / large))});
    }
    parts = std::max(parts, (runs_here + size - 1) / size);
    for (std::size_t part = 0; part < parts; ++part) {
      const auto from = group.ids.begin() + static_cast<std::ptrdiff_t>(part * runs_here / parts),
                 to = group.ids.begin() + static_cast<std::ptrdiff_t>((part + 1) * runs_here / parts);
      const auto least = static_cast<std::size_t>(std::ranges::min_element(load) - load.begin());
      load[least] += group.cost * static_cast<double>(to - from);
      shares[least].emplace_back(from, to);
    }
  }
  return shares;
}

std::string plan_text(const WorkerPlan& plan) {
  return nlohmann::json{{"command", plan.command},
                        {"since", plan.since},
                        {"black_hole", plan.black_hole},
                        {"shares", plan.shares}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

WorkerPlan worker_plan(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {json.at("command").get<std::string>(), json.at("since").get<ShardPositions>(),
            json.at("black_hole").get<std::int64_t>(), json.at("shares").get<std::vector<Share>>()};
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("the workers' plan cannot be read: ") + error.what());
  }
}

std::vector<std::string> next_round(const std::vector<Share>& shares, std::size_t i, std::size_t at_once,
                                    const std::function<bool(const std::string& id)>& taken) {
  const Share own = what_is_left(shares.at(i), taken);
  if (!own.empty()) {
    const std::size_t take = std::min(own.size(), std::max(kOwnRounds * at_once, own.size() / 2));
    return flat(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(take));
  }
  const std::size_t workers = shares.size();
  std::size_t owner = i, most = 0;
  for (std::size_t other = 0; other < workers; ++other) {
    const std::size_t left = what_is_left(shares[other], taken).size();
    if (left > most) most = left, owner = other;
  }
  if (most == 0) return {};
  // Each of several helpers begins with another part, from the end on.
  const Share& share = shares[owner];
  for (std::size_t part = 0; part < workers; ++part) {
    Share candidates;
    for (std::size_t u = share.size(); u-- > 0;)
      if (u % workers == (i + part) % workers) candidates.push_back(share[u]);
    const Share left = what_is_left(candidates, taken);
    if (left.empty()) continue;
    const std::size_t take = std::min(left.size(), std::max(at_once, left.size() / 2));
    return flat(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(take));
  }
  return {};
}

}  // namespace crosstalk::program
