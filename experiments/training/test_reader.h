// What the end of training reads of replicas: the test split, and longer sequences.
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

/// Adds test_loss, test_accuracy, the metrics of the model and profiles to the records. All replicas are read at once: on a GPU that costs what one
/// does.
template <class Real>
void read_test(const Options& config, const Task& task, Replicas<Real>& replicas,
               const std::vector<TestedRun>& runs);

/// Makes the graphs that read_test() would make, one after the other: for how much memory they need.
template <class Real>
void make_tests(const Options& config, const Task& task, Replicas<Real>& replicas);

}  // namespace crosstalk
