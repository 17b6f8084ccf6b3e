// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/profiles.h"

#include <algorithm>
#include <bit>
#include <map>

namespace crosstalk {
namespace {

constexpr int kMostPositions = 256;  ///< points of a profile over positions, at most

struct Tally {
  double right = 0, queries = 0;
};

/// Accuracy by key over all parts, if there are two keys at least.
void add_tallies(Record& record, const char* name, const std::vector<QueryResults>& results,
                 const std::vector<QueryFacts>& facts, Meta which, std::int32_t (*key_of)(std::int32_t)) {
  std::map<std::int32_t, Tally> tallies;
  for (std::size_t part = 0; part < results.size(); ++part) {
    const std::vector<std::int32_t> keys = facts[part].column(which);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (results[part].correct[i] < 0) continue;
      Tally& tally = tallies[key_of(keys[i])];
      tally.right += results[part].correct[i];
      tally.queries += 1;
    }
  }
  if (tallies.size() < 2) return;
  Series& series = record.profiles[name];
  for (const auto& [key, tally] : tallies) {
    series.x.push_back(key);
    series.y.push_back(tally.right / tally.queries);
  }
}

}  // namespace

KeyProfile by_key(const QueryResults& results, const std::vector<std::int32_t>& keys) {
  struct Bucket {
    double right = 0, queries = 0, exact = 0;
  };
  std::map<std::int32_t, Bucket> buckets;
  for (std::size_t i = 0; i < results.correct.size(); ++i) {
    if (results.correct[i] < 0) continue;
    Bucket& bucket = buckets[keys[i]];
    bucket.right += results.correct[i];
    bucket.queries += 1;
  }
  for (int s = 0; s < results.sequences; ++s) {  // up to where is the sequence right?
    const auto begin = static_cast<std::size_t>(s) * static_cast<std::size_t>(results.Q);
    std::int32_t first_wrong = buckets.empty() ? 0 : buckets.rbegin()->first + 1;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(results.Q); ++i) {
      if (results.correct[i] == 0) first_wrong = std::min(first_wrong, keys[i]);
    }
    for (auto& [key, bucket] : buckets) bucket.exact += key < first_wrong;
  }
  KeyProfile profile;
  for (const auto& [key, bucket] : buckets) {
    profile.accuracy.x.push_back(key);
    profile.accuracy.y.push_back(bucket.right / bucket.queries);
    profile.exact.x.push_back(key);
    profile.exact.y.push_back(bucket.exact / results.sequences);
  }
  return profile;
}

double exact_prefix(const QueryResults& results, int answers) {
  int right = 0;
  for (int s = 0; s < results.sequences; ++s) {
    const auto first = results.correct.begin() + std::ptrdiff_t{s} * results.Q;
    right +=
        std::find(first, first + std::min(answers, results.Q), 0) == first + std::min(answers, results.Q);
  }
  return static_cast<double>(right) / results.sequences;
}

std::vector<std::int32_t> QueryFacts::column(Meta which) const {
  std::vector<std::int32_t> values;
  for (std::size_t i = static_cast<std::size_t>(which); i < meta.size(); i += meta_count)
    values.push_back(meta[i]);
  return values;
}

QueryFacts query_facts(const Task& task, std::uint64_t data_seed, int sequences) {
  const SequenceShape shape = task.shape(Split::test);
  const auto T = static_cast<std::size_t>(shape.T), C = static_cast<std::size_t>(shape.C),
             Q = static_cast<std::size_t>(shape.Q), n = static_cast<std::size_t>(sequences);
  std::vector<std::int32_t> tokens(T * C), query(Q), scratch(static_cast<std::size_t>(task.scratch_size()));
  QueryFacts facts{std::vector<std::int32_t>(n * Q), std::vector<std::int32_t>(n * Q * meta_count),
                   std::vector<std::int32_t>(n * Q)};
  for (std::size_t s = 0; s < n; ++s) {
    const SequenceView view{shape,
                            tokens.data(),
                            nullptr,
                            query.data(),
                            facts.position.data() + s * Q,
                            facts.target.data() + s * Q,
                            facts.meta.data() + s * Q * meta_count};
    task.sequence(data_seed, Split::test, s, view, scratch.data());
  }
  return facts;
}

double scaled_accuracy_last_quarter(const QueryResults& results, const QueryFacts& facts, int T,
                                    double chance) {
  Tally tally;
  for (std::size_t i = 0; i < results.correct.size(); ++i) {
    if (results.correct[i] < 0 || 4 * static_cast<std::int64_t>(facts.position[i]) <= 3 * std::int64_t{T})
      continue;
    tally.right += results.correct[i];
    tally.queries += 1;
  }
  return (tally.right / tally.queries - chance) / (1 - chance);
}

void add_token_profiles(Record& record, const std::vector<QueryResults>& results,
                        const std::vector<QueryFacts>& facts) {
  const auto itself = [](std::int32_t value) { return value; };
  const auto power = [](std::int32_t value) {
    return value <= 0 ? 0 : static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(value)));
  };
  add_tallies(record, "accuracy_by_gap", results, facts, meta_gap, power);
  add_tallies(record, "accuracy_by_writes", results, facts, meta_writes, itself);
  add_tallies(record, "accuracy_by_touches", results, facts, meta_touches, itself);
  if (results.size() != 1) return;
  std::vector<std::int32_t> positions = facts[0].position;
  const std::int32_t longest = *std::max_element(positions.begin(), positions.end());
  const std::int32_t width = (longest + kMostPositions - 1) / kMostPositions;
  for (std::int32_t& position : positions) position = (position + width - 1) / width * width;
  const KeyProfile profile = by_key(results[0], positions);
  if (profile.accuracy.x.size() < 2) return;
  record.profiles["accuracy_by_position"] = profile.accuracy;
  record.profiles["exact_by_position"] = profile.exact;
}

void add_segment_profiles(Record& record, const std::vector<SplitPart>& parts,
                          const std::vector<QueryResults>& results) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const EvalSummary summary = summarise_mixture({results[i]});
    const auto point = [&](const char* name, double y) {
      record.profiles[name].x.push_back(static_cast<double>(i + 1));
      record.profiles[name].y.push_back(y);
    };
    point("loss_by_segment", summary.loss);
    point("accuracy_by_segment", summary.accuracy);
    point("exact_by_segment", summary.exact);
    record.metrics["test_accuracy_" + parts[i].name] = summary.accuracy;
  }
}

}  // namespace crosstalk
