// The three trainings that are timed: shapes, studies and floating-point operations a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/study.h"

namespace crosstalk::benchmarks {

/// One model of Schlag, Irie, Schmidhuber 2021: batch 32, d_key 64, one query a sequence, Adam.
struct Case {
  std::string name;    ///< as in tables: "linear S=100"
  std::string task;    ///< recall (setting 1) or reassign (setting 2)
  std::string memory;  ///< body of the study's [memories.M] table
  int S = 100;         ///< keys, and values
  int L = 100;         ///< tokens of a training sequence
  int p = 64;          ///< features a key (softmax: d_key)
  /// Operations a token and feature of the reading, forward and backward: 6 for one product k.q a token, 14
  /// for the delta rule's two scans.
  int per_feature = 6;

  static constexpr int B = 32, d = 64;
  /// Width of key embeddings, int(1.1 (keys + values)).
  int embedding() const { return 11 * 2 * S / 10; }
  double flop_per_step() const;
};

const std::vector<Case>& cases();

/// `count` runs of the case that differ in their seed and never stop before `steps`; an evaluation, as small
/// as one can be, every `every` steps.
std::vector<Run> runs_of(const Case& c, int count, std::int64_t steps, std::int64_t every);

}  // namespace crosstalk::benchmarks
