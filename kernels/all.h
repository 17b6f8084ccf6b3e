// Every op and every step: CROSSTALK_OPS(X) and CROSSTALK_STEPS(X) expand X of each.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/attention/attend.h"
#include "kernels/attention/attend_mix.h"
#include "kernels/attention/level_gain.h"
#include "kernels/attention/solve.h"
#include "kernels/conv/long_conv.h"
#include "kernels/conv/short_conv.h"
#include "kernels/elementwise/delay.h"
#include "kernels/elementwise/dropout.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/largest.h"
#include "kernels/elementwise/map_chain.h"
#include "kernels/elementwise/pick.h"
#include "kernels/elementwise/rotate.h"
#include "kernels/elementwise/turn.h"
#include "kernels/embedding/lookup.h"
#include "kernels/embedding/token_numbers.h"
#include "kernels/feature_map/favor_features.h"
#include "kernels/feature_map/feature_map.h"
#include "kernels/fused/table_features.h"
#include "kernels/fused/table_scores.h"
#include "kernels/law/cell_read.h"
#include "kernels/law/diagonal_read.h"
#include "kernels/law/fwm.h"
#include "kernels/law/network_read.h"
#include "kernels/law/ridge_read.h"
#include "kernels/law/rule_read.h"
#include "kernels/law/wkv_read.h"
#include "kernels/linear/joined_linear.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/swiglu.h"
#include "kernels/loss/answers.h"
#include "kernels/loss/cross_entropy.h"
#include "kernels/loss/readout.h"
#include "kernels/norm/normalize.h"
#include "kernels/norm/residual_norm.h"
#include "kernels/optimizer/adam.h"
#include "kernels/optimizer/book_keeping.h"
#include "kernels/optimizer/clip.h"
#include "kernels/optimizer/muon.h"
#include "kernels/recurrence/read_weights.h"
#include "kernels/recurrence/scan.h"
#include "kernels/recurrence/state_read.h"

// clang-format off
/// Structs without a gradient (kernels/base/exec.h).
#define CROSSTALK_STEPS(X) \
  X(AdamStep) X(Answers) X(BucketIds) X(ClipScale) X(CountBatches) X(CountStep) X(CountEvaluation) X(FavorFeatures) X(MuonStep) \
  X(TakeNorm) X(TableFeaturesForward) X(TableFeaturesBackward) X(TableScoresForward) X(TableScoresBackward)

/// Ops (kernels/base/op.h), one a line.
#define CROSSTALK_OPS(X) \
  X(Attend) \
  X(AttendMix) \
  X(CellRead) \
  X(Combine) \
  X(Constant) \
  X(CrossEntropy) \
  X(Delay) \
  X(DiagonalRead) \
  X(Dropout) \
  X(Expand) \
  X(Fold) \
  X(FwmRead) \
  X(GatherValues) \
  X(JoinedLinear) \
  X(Largest) \
  X(LevelGain) \
  X(Linear) \
  X(LogScan) \
  X(LongConv) \
  X(Lookup) \
  X(Map) \
  X(MapChain) \
  X(MapFeatures) \
  X(MarkLargest) \
  X(Maximum) \
  X(Mix) \
  X(NetworkRead) \
  X(Normalize) \
  X(OneHot) \
  X(Pick) \
  X(ReadWeights) \
  X(ResidualNorm) \
  X(RidgeRead) \
  X(Rotate) \
  X(RuleRead) \
  X(Scan) \
  X(ShortConv) \
  X(Signs) \
  X(Solve) \
  X(SolveValues) \
  X(SquaredLoss) \
  X(StateRead) \
  X(Swap) \
  X(Swiglu) \
  X(TokenNumbers) \
  X(Turn) \
  X(WkvRead)
// clang-format on
