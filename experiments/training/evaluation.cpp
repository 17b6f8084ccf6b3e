// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/evaluation.h"

#include <algorithm>
#include <map>

namespace crosstalk {

EvalSummary summarise(const QueryResults& results) {
  double loss = 0, right = 0, queries = 0, exact = 0;
  for (int s = 0; s < results.sequences; ++s) {
    bool all_right = true;
    for (int i = 0; i < results.Q; ++i) {
      const auto at =
          static_cast<std::size_t>(s) * static_cast<std::size_t>(results.Q) + static_cast<std::size_t>(i);
      if (results.correct[at] < 0) continue;
      loss += results.loss[at];
      right += results.correct[at];
      queries += 1;
      all_right &= results.correct[at] == 1;
    }
    exact += all_right;
  }
  return {loss / queries, right / queries, exact / results.sequences};
}

std::map<std::string, double> metric_means(const QueryResults& results) {
  std::map<std::string, double> means;
  const auto used = [](std::int32_t correct) { return correct >= 0; };
  const auto queries =
      static_cast<double>(std::count_if(results.correct.begin(), results.correct.end(), used));
  for (const auto& [name, values] : results.metrics) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += used(results.correct[i]) ? values[i] : 0;
    means[name] = sum / queries;
  }
  return means;
}

OperationProfile by_operations(const QueryResults& results, const std::vector<std::int32_t>& operations) {
  struct Bucket {
    double right = 0, queries = 0, exact = 0;
  };
  std::map<std::int32_t, Bucket> buckets;
  for (std::size_t i = 0; i < results.correct.size(); ++i) {
    if (results.correct[i] < 0) continue;
    Bucket& bucket = buckets[operations[i]];
    bucket.right += results.correct[i];
    bucket.queries += 1;
  }
  for (int s = 0; s < results.sequences; ++s) {  // up to where is the sequence right?
    const auto begin = static_cast<std::size_t>(s) * static_cast<std::size_t>(results.Q);
    std::int32_t first_wrong = buckets.empty() ? 0 : buckets.rbegin()->first + 1;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(results.Q); ++i) {
      if (results.correct[i] == 0) first_wrong = std::min(first_wrong, operations[i]);
    }
    for (auto& [operation, bucket] : buckets) bucket.exact += operation < first_wrong;
  }
  OperationProfile profile;
  for (const auto& [operation, bucket] : buckets) {
    profile.accuracy.x.push_back(operation);
    profile.accuracy.y.push_back(bucket.right / bucket.queries);
    profile.exact.x.push_back(operation);
    profile.exact.y.push_back(bucket.exact / results.sequences);
  }
  return profile;
}

std::vector<std::int32_t> operations_before_reads(const Task& task, const Run& run, int sequences) {
  const SequenceShape shape = task.shape(Split::test);
  const auto T = static_cast<std::size_t>(shape.T), C = static_cast<std::size_t>(shape.C),
             Q = static_cast<std::size_t>(shape.Q);
  std::vector<std::int32_t> tokens(T * C), query(Q), position(Q), target(Q), meta(Q * meta_count), result;
  std::vector<std::int32_t> scratch(static_cast<std::size_t>(task.scratch_size()));
  const SequenceView view{shape,           tokens.data(), nullptr,    query.data(),
                          position.data(), target.data(), meta.data()};
  const auto seed = static_cast<std::uint64_t>(run.config.get_int("data_seed"));
  for (int s = 0; s < sequences; ++s) {
    task.sequence(seed, Split::test, static_cast<std::uint64_t>(s), view, scratch.data());
    for (std::size_t q = 0; q < Q; ++q) result.push_back(meta[q * meta_count + meta_operations]);
  }
  return result;
}

}  // namespace crosstalk
