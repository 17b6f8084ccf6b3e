// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/evaluation.h"

#include <algorithm>
#include <cstddef>
#include <limits>

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

double class_accuracy(const QueryResults& results, const std::vector<std::int32_t>& target) {
  constexpr int kBatch = 128;
  if (results.answer.size() != results.correct.size() || results.sequences == 0)
    return std::numeric_limits<double>::quiet_NaN();
  struct Class {
    double right = 0, due = 0;
  };
  double sum = 0;
  for (int from = 0; from < results.sequences; from += kBatch) {
    const int take = std::min(kBatch, results.sequences - from);
    const auto begin = static_cast<std::size_t>(from) * static_cast<std::size_t>(results.Q),
               end = begin + static_cast<std::size_t>(take) * static_cast<std::size_t>(results.Q);
    std::map<std::int32_t, Class> classes;
    for (std::size_t i = begin; i < end; ++i) {
      if (results.correct[i] < 0) continue;
      Class& due = classes[target[i]];
      due.due += 1;
      if (results.correct[i] == 1)
        due.right += 1;
      else
        classes.try_emplace(results.answer[i]);
    }
    double mean = 0;
    for (const auto& [name, one] : classes)
      mean += one.due > 0 ? one.right / one.due / static_cast<double>(classes.size()) : 0;
    sum += mean * take;
  }
  return sum / results.sequences;
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

EvalSummary summarise_mixture(const std::vector<QueryResults>& parts) {
  double loss = 0, right = 0, sequences = 0, exact = 0;
  for (const QueryResults& part : parts) {
    for (int i = 0; i < part.sequences; ++i) {
      const auto begin = static_cast<std::ptrdiff_t>(i) * part.Q;
      const EvalSummary one =
          summarise({1,
                     part.Q,
                     {part.loss.begin() + begin, part.loss.begin() + begin + part.Q},
                     {part.correct.begin() + begin, part.correct.begin() + begin + part.Q}});
      loss += one.loss;
      right += one.accuracy;
      exact += one.exact;
      sequences += 1;
    }
  }
  return {loss / sequences, right / sequences, exact / sequences};
}

}  // namespace crosstalk
