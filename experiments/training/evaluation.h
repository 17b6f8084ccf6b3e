// From losses of single queries to the numbers of a record.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crosstalk {

/// Losses and hits of one replica over evaluation sequences, query by query.
struct QueryResults {
  int sequences = 0, Q = 0;
  std::vector<double> loss;           ///< [sequences, Q]
  std::vector<std::int32_t> correct;  ///< [sequences, Q]: 1, 0; -1 = slot not used
  std::map<std::string, std::vector<double>> metrics =
      {};                                 ///< [sequences, Q] each: ModelGraph::query_metrics
  std::vector<std::int32_t> answer = {};  ///< [sequences, Q]: classes answered, of the test split; else empty
};

struct EvalSummary {
  double loss = 0;      ///< as the protocol averages it
  double accuracy = 0;  ///< share of right queries
  double exact = 0;     ///< share of sequences with every query right
};

/// Means over all used queries (the protocol "uniform"). The evaluations during training are summed up where
/// the training runs (kernels/optimizer/book_keeping.h), whatever their protocol.
EvalSummary summarise(const QueryResults& results);
/// Of the parts of a mixture: means over the sequences of all, each of the mean over its queries.
EvalSummary summarise_mixture(const std::vector<QueryResults>& parts);
/// The mean over classes of the share of their queries that are right, as mad-lab scores (mad/metrics.py, torchmetrics'
/// MulticlassAccuracy): a class that is answered and never due counts 0, one neither due nor answered does not count. It is taken
/// of every 128 sequences, its batch, and averaged over them. `target` [sequences, Q]; needs results.answer, else NaN.
double class_accuracy(const QueryResults& results, const std::vector<std::int32_t>& target);
/// The mean of each of its metrics over all used queries.
std::map<std::string, double> metric_means(const QueryResults& results);

}  // namespace crosstalk
