// Every op: CROSSTALK_OPS(X) expands X(Args) for each argument struct.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/ops/adam.h"
#include "kernels/ops/attend.h"
#include "kernels/ops/attend_mix.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/book_keeping.h"
#include "kernels/ops/clip.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/diagonal_read.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/favor_features.h"
#include "kernels/ops/feature_map.h"
#include "kernels/ops/fwm.h"
#include "kernels/ops/gated_conv.h"
#include "kernels/ops/joined_linear.h"
#include "kernels/ops/level_gain.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/lookup.h"
#include "kernels/ops/network_read.h"
#include "kernels/ops/normalize.h"
#include "kernels/ops/pick.h"
#include "kernels/ops/pointwise.h"
#include "kernels/ops/prefix_dot.h"
#include "kernels/ops/read_weights.h"
#include "kernels/ops/readout.h"
#include "kernels/ops/recurrence.h"
#include "kernels/ops/rescaled_read.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/ridge_read.h"
#include "kernels/ops/rotate.h"
#include "kernels/ops/scan.h"
#include "kernels/ops/short_conv.h"
#include "kernels/ops/state_read.h"
#include "kernels/ops/table_features.h"
#include "kernels/ops/table_scores.h"
#include "kernels/ops/wkv_read.h"

// clang-format off
#define CROSSTALK_OPS(X)                                                       \
  X(AdamStep) X(BucketIds) X(ClipScale) X(CountBatches) X(CountStep)             \
  X(CountEvaluation)                                                           \
  X(FavorFeatures)                                                             \
  X(FeatureMapForward) X(FeatureMapBackward)                                   \
  X(SquaredLossForward) X(SquaredLossBackward)                                 \
  X(TableFeaturesForward) X(TableFeaturesBackward)                             \
  X(TableScoresForward) X(TableScoresBackward)

/// Ops of one struct (kernels/base/op.h), one a line.
#define CROSSTALK_WHOLE_OPS(X) \
  X(Attend) \
  X(AttendMix) \
  X(Combine) \
  X(Constant) \
  X(CrossEntropy) \
  X(DiagonalRead) \
  X(Dropout) \
  X(EraseRatio) \
  X(Expand) \
  X(Fold) \
  X(FwmRead) \
  X(GatedConv) \
  X(GatherValues) \
  X(JoinedLinear) \
  X(LevelGain) \
  X(Linear) \
  X(LogScan) \
  X(Lookup) \
  X(Map) \
  X(Mix) \
  X(NetworkRead) \
  X(Normalize) \
  X(OneHot) \
  X(Pick) \
  X(Pointwise) \
  X(PrefixDot) \
  X(ReadWeights) \
  X(RecurrentRead) \
  X(RescaledRead) \
  X(ResidualNorm) \
  X(RidgeRead) \
  X(Rotate) \
  X(RowDivide) \
  X(Scan) \
  X(Scores) \
  X(ShortConv) \
  X(Signs) \
  X(Softmax) \
  X(Solve) \
  X(StateRead) \
  X(Swap) \
  X(WkvRead)
// clang-format on
