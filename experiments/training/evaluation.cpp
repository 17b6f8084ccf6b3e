// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/evaluation.h"

#include <cstddef>

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
