// Tests of replicas at the end of training: the test split, and longer sequences.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/profiles.h"

namespace crosstalk {

/// A replica whose training is done, and where its numbers go.
struct TestedRun {
  int replica = 0;
  const Run* run = nullptr;
  Record* record = nullptr;  ///< has the baselines of its task
};

/// Other lengths at which runs of this configuration are read; 1 where all that is asked for is operations.
std::vector<int> tested_lengths(const Options& config);

/// Adds metrics of the test split beyond loss and accuracy, of a task of single tokens.
void add_token_test(Record& record, const Task& task, const EvalSummary& test,
                    const std::vector<SplitPart>& parts, const std::vector<QueryResults>& results,
                    const std::vector<QueryFacts>& facts);
/// And of another length: `task` is the lengthened one. `facts` are of tasks of single tokens or with operations.
void add_length(Record& record, const Options& config, const Task& task, int factor,
                const EvalSummary& summary, const std::vector<SplitPart>& parts,
                const std::vector<QueryResults>& results, const std::vector<QueryFacts>& facts);

/// Adds test_loss, test_accuracy, the metrics of the model and profiles to the records. All replicas are read at once: on a GPU
/// that costs as much as one.
template <class Real>
void read_test(const Options& config, const Task& task, Replicas<Real>& replicas,
               const std::vector<TestedRun>& runs);

/// Makes the graphs that read_test() would make, one after the other: for how much memory they need.
template <class Real>
void make_tests(const Options& config, const Task& task, Replicas<Real>& replicas);

}  // namespace crosstalk
