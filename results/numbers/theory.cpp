// Bounds that are theorems for a task, a protocol and a memory.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/theory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

#include "results/numbers/select.h"

namespace crosstalk {
namespace {

/// Beyond this nothing is trained, and a number in somebody's store may be any.
constexpr std::int64_t kLargest = std::int64_t{1} << 24;
constexpr int kSimulated = 2000;  // sequences; the standard error is 0.0005 or less at the loads of the paper

/// What a bound depends on.
struct Setting {
  bool reassign = false, with_replacement = false;
  std::int64_t associations = 0, values = 0, length = 0;  ///< length: of an evaluation sequence
  std::int64_t updates = 0;                               ///< where keys are not drawn with replacement
  std::int64_t chunk = 0;                                 ///< 0: uniform mean over queries
  std::int64_t max_queries = 0;
  bool operator<(const Setting& other) const { return key() < other.key(); }

 private:
  std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>
  key() const {
    return {reassign, with_replacement, associations, values, length, updates, chunk, max_queries};
  }
};

/// -1, which is no size, where the number is far out.
std::int64_t whole(double value) {
  return std::abs(value) <= static_cast<double>(kLargest) ? std::llround(value) : -1;
}

std::int64_t integer(const Record& record, const char* key, std::int64_t fallback = 0) {
  const auto value = config_number(record, key);
  return value ? whole(*value) : fallback;
}

/// The setting of a run at a load (its own, or another one); nothing where the task has no such bounds.
std::optional<Setting> setting_of(const Record& record, double at) {
  const std::string task = config_text(record, "task.name").value_or("");
  if (config_text(record, "model.name").value_or("retrieval") != "retrieval") return std::nullopt;
  if (config_number(record, "model.heads").value_or(1) != 1)
    return std::nullopt;                                              // each reads a part of the value
  if (integer(record, "model.value_codes") > 0) return std::nullopt;  // values are not one-hot
  if (task != "recall" && task != "reassign") return std::nullopt;
  Setting setting;
  setting.reassign = task == "reassign";
  const std::int64_t own = integer(record, "task.associations");
  setting.associations = whole(at);
  if (own < 1 || setting.associations < 1) return std::nullopt;
  // What follows from the load by default (0) is its own value in a resolved configuration.
  const auto following = [&](const char* key, std::int64_t by_default, std::int64_t here) {
    const std::int64_t given = integer(record, key);
    return given == 0 || given == by_default ? here : given;
  };
  setting.values = following("task.values", own, setting.associations);
  const double fraction = config_number(record, "task.update_fraction").value_or(-1);
  setting.with_replacement = setting.reassign && fraction < 0;
  if (setting.with_replacement)
    setting.length = following("task.eval_length", own, setting.associations);
  else if (setting.reassign)
    setting.updates = whole(fraction * static_cast<double>(setting.associations));
  if (config_text(record, "eval.protocol").value_or("uniform") == "schlag2021") {
    setting.chunk = integer(record, "train.batch", 32);
    setting.max_queries = schlag_max_queries;
    if (setting.chunk < 1) return std::nullopt;
  }
  if (setting.values < 1 || setting.length < (setting.with_replacement ? 1 : 0) || setting.updates < 0)
    return std::nullopt;
  return setting;
}

/// How much each of `asked` queries of a sequence weighs, and all of them together.
std::vector<double> weights_of(const Setting& setting, std::int64_t asked, double& total) {
  const std::int64_t counted = setting.max_queries > 0 ? std::min(asked, setting.max_queries) : asked;
  std::vector<double> weights(static_cast<std::size_t>(counted), 1.0);
  total = static_cast<double>(counted);
  if (setting.chunk <= 0) return weights;
  total = 0;
  for (std::int64_t begin = 0; begin < counted; begin += setting.chunk, total += 1) {
    const std::int64_t end = std::min(counted, begin + setting.chunk);
    for (std::int64_t i = begin; i < end; ++i)
      weights[static_cast<std::size_t>(i)] = 1.0 / static_cast<double>(end - begin);
  }
  return weights;
}

/// 0 <= index < n, the same with every standard library (std distributions are not).
std::int64_t draw(std::mt19937_64& random, std::int64_t n) {
  return static_cast<std::int64_t>(static_cast<double>(random() >> 11) * 0x1p-53 * static_cast<double>(n));
}

/// How often each key is written in an evaluation sequence, in the order of the keys; those that occur.
std::vector<std::int64_t> draw_writes(const Setting& setting, std::mt19937_64& random) {
  std::vector<std::int64_t> writes(static_cast<std::size_t>(setting.associations), 0);
  if (setting.with_replacement) {
    for (std::int64_t t = 0; t < setting.length; ++t)
      ++writes[static_cast<std::size_t>(draw(random, setting.associations))];
    std::erase(writes, 0);
    return writes;
  }
  for (std::size_t i = 0; i < writes.size(); ++i)
    writes[i] = static_cast<std::int64_t>(i) < setting.updates ? 2 : 1;
  for (std::size_t i = writes.size(); i > 1; --i)
    std::swap(writes[i - 1], writes[static_cast<std::size_t>(draw(random, static_cast<std::int64_t>(i)))]);
  return writes;
}

/// The sum of all but the d largest, added up from the largest on.
double tail(std::vector<double> weights, std::int64_t d) {
  if (d >= std::ssize(weights)) return 0;
  std::nth_element(weights.begin(), weights.begin() + d, weights.end(), std::greater<>());
  std::sort(weights.begin() + d, weights.end(), std::greater<>());
  return std::accumulate(weights.begin() + d, weights.end(), 0.0);
}

double rank_bound_in(const Setting& setting, std::int64_t d) {
  if (!setting.reassign) {
    double total = 0;
    return rank_bound_of(weights_of(setting, setting.associations, total), d);
  }
  thread_local std::map<std::pair<Setting, std::int64_t>, double>
      known;  // drawing asks for the same ones often
  const auto [at, is_new] = known.try_emplace({setting, d}, 0);
  if (!is_new) return at->second;
  std::mt19937_64 random(0x5EED);
  double left = 0, all = 0;
  std::vector<double> of_value(static_cast<std::size_t>(setting.values));
  // Long sequences differ little from each other.
  const auto simulated =
      std::clamp<std::int64_t>(4'000'000 / (setting.associations + setting.length), 50, kSimulated);
  for (std::int64_t n = 0; n < simulated; ++n) {
    double total = 0;
    const auto weights = weights_of(setting, std::ssize(draw_writes(setting, random)), total);
    std::fill(of_value.begin(), of_value.end(), 0.0);
    for (const double weight : weights)
      of_value[static_cast<std::size_t>(draw(random, setting.values))] += weight;
    left += tail(of_value, d);
    all += total;
  }
  return at->second = 0.5 * left / all;
}

/// E[1/m], m ~ Bin(length, 1/S) given m >= 1: how often a key that occurs is written. By recurrence from the most
/// likely m on, which takes the four operations only: those of the mathematics library differ in last digits.
double mean_inverse_writes(std::int64_t length, std::int64_t S) {
  if (S == 1) return 1 / static_cast<double>(length);
  const auto N = static_cast<double>(length), others = static_cast<double>(S - 1);
  const double mode = std::max(1.0, std::floor((N + 1) / static_cast<double>(S)));
  double sum = 1 / mode, weight = 1;
  double ratio = 1;  // of its probability to that of the mode
  for (double m = mode; m < N && ratio > 0; ++m) {
    ratio *= (N - m) / ((m + 1) * others);
    sum += ratio / (m + 1);
    weight += ratio;
  }
  ratio = 1;
  for (double m = mode; m > 1 && ratio > 0; --m) {
    ratio *= m * others / (N - m + 1);
    sum += ratio / (m - 1);
    weight += ratio;
  }
  return sum / weight;
}

std::string model_part(const Record& record, const char* key) {
  return config_text(record, key).value_or("none");
}

bool is_bounded_by_rank(const Record& record, const MemoryFacts& facts) {
  const std::string memory = config_text(record, "memory.name").value_or("");
  if (memory == "rule") return facts.is_bounded_law && facts.is_bounded_law(record);
  return facts.bounded_by_rank.count(memory) != 0;
}

/// A gate is another factor for every query, LayerNorm's bias is a dimension more, and a function of what is read keeps no rank;
/// RMSNorm is c_j and a part of W.
bool reads_through_features(const Record& record, const MemoryFacts& facts) {
  const std::string norm = model_part(record, "model.out_norm");
  return record.d_dot > 0 && is_bounded_by_rank(record, facts) && (norm == "none" || norm == "rms") &&
         model_part(record, "model.out_gate") == "none" && model_part(record, "model.out_act") == "none";
}

/// A short convolution or a shift of keys tells tokens by those before them.
bool blind_to_order(const Record& record, const MemoryFacts& facts) {
  const auto is_off = [&](const char* key) {
    const std::string value = model_part(record, key);
    return value == "none" || value.empty() || value == "0";
  };
  return facts.order_free.count(config_text(record, "memory.name").value_or("")) != 0 &&
         is_off("model.short_conv") && is_off("model.token_shift") && is_off("model.input_conv") &&
         is_off("model.blocks");
}

double own_load(const Record& record) { return config_number(record, "task.associations").value_or(0); }

}  // namespace

double rank_bound_of(std::vector<double> weights, std::int64_t d) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  return all > 0 ? 0.5 * tail(std::move(weights), d) / all : 0;
}

std::optional<double> rank_bound_at(const Record& record, double load, const MemoryFacts& facts) {
  if (!reads_through_features(record, facts)) return std::nullopt;
  const auto setting = setting_of(record, load);
  if (!setting) return std::nullopt;
  return rank_bound_in(*setting, record.d_dot);
}

std::optional<double> rank_bound(const Record& record, const MemoryFacts& facts) {
  return rank_bound_at(record, own_load(record), facts);
}

std::optional<double> rank_capacity(const Record& record, double loss, const MemoryFacts& facts) {
  const auto d = static_cast<double>(record.d_dot);
  if (const auto far = rank_bound_at(record, 64 * d, facts); !far || *far <= loss) return std::nullopt;
  double low = 1, high = 64 * d;  // the bound grows with the load
  while (high - low > 1) {
    const double middle = std::floor((low + high) / 2);
    (rank_bound_at(record, middle, facts).value_or(0) <= loss ? low : high) = middle;
  }
  return low;
}

std::optional<double> sum_rule_floor_at(const Record& record, double load, const MemoryFacts& facts) {
  if (!blind_to_order(record, facts)) return std::nullopt;
  const auto setting = setting_of(record, load);
  if (!setting || !setting->reassign) return std::nullopt;
  // Two writes of an update never have the same value; values with replacement do once in `values` times.
  const double distinct = setting->with_replacement ? 1 - 1 / static_cast<double>(setting->values) : 1.0;
  if (!setting->with_replacement)
    return 0.25 * static_cast<double>(setting->updates) / static_cast<double>(setting->associations);
  if (setting->chunk <= 0)
    return 0.5 * (1 - mean_inverse_writes(setting->length, setting->associations)) * distinct;
  std::mt19937_64 random(0x5EED);
  double lost = 0, all = 0;
  for (int n = 0; n < kSimulated; ++n) {
    const auto writes = draw_writes(*setting, random);
    double total = 0;
    const auto weights = weights_of(*setting, std::ssize(writes), total);
    for (std::size_t i = 0; i < weights.size(); ++i)
      lost += weights[i] * (1 - 1 / static_cast<double>(writes[i]));
    all += total;
  }
  return 0.5 * lost / all * distinct;
}

std::optional<double> sum_rule_floor(const Record& record, const MemoryFacts& facts) {
  return sum_rule_floor_at(record, own_load(record), facts);
}

}  // namespace crosstalk
