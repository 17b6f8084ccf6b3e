// Book-keeping of training on the device: steps, losses, norms of gradients and the sums of an evaluation, so that the host
// need not look at every step. One report of report_size() doubles a replica is all that the host reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "kernels/base/exec.h"

namespace crosstalk {

/// Numbers of a report [R,report_size(period)]; behind it the norms of gradients.
enum Report : int {
  report_loss_sum = 0,  ///< evaluation: sum of losses (of chunk means, where the protocol cuts into chunks)
  report_loss_weight = 1,    ///< evaluation: what to divide it by
  report_right = 2,          ///< evaluation: queries answered right
  report_queries = 3,        ///< evaluation: queries
  report_exact = 4,          ///< evaluation: sequences with every query right
  report_train_loss = 5,     ///< training: sum of losses since the last evaluation
  report_train_steps = 6,    ///< training: steps since then
  report_diverged_step = 7,  ///< training: first step whose loss was not finite; 0 = none
  report_norms = 8,          ///< training: steps since the last evaluation whose gradient's norm was taken
  report_largest_norm = 9,   ///< training: the largest of them; NaN where one was
};
constexpr int kReportSize = 10;

/// Norms of gradients that are kept of the steps between two evaluations, `period` steps apart: of every step, or of every
/// norm_stride()-th where that would be more than kMostNorms.
constexpr int kMostNorms = 1024;
CT_HD constexpr int norm_stride(int period) { return (period + kMostNorms - 1) / kMostNorms; }
CT_HD constexpr int norm_slots(int period) {
  return (period + norm_stride(period) - 1) / norm_stride(period);
}
constexpr int report_size(int period) { return kReportSize + norm_slots(period); }

/// Tells whether the norm of the step that was counted last, the `step`-th, was not taken yet.
CT_HD inline bool lacks_norm(const double* report, int period, std::int32_t step) {
  return step > 0 && report[report_norms] == static_cast<double>((step - 1) % period);
}

/// Takes it: the norm over all parameters, before any clipping, whose square is given.
CT_HD inline void take_norm(double* report, int period, std::int32_t step, double square) {
  const int i = (step - 1) % period;
  const double norm = sqrt(square);
  report[report_norms] = i + 1;
  if (i % norm_stride(period) == 0) report[kReportSize + i / norm_stride(period)] = norm;
  if (i == 0 || norm > report[report_largest_norm] || norm != norm) report[report_largest_norm] = norm;
}

/// Factors of a learning rate, step by step: a linear warm-up and half a cosine or a line down, or one cycle.
struct RateSchedule {
  std::int32_t warmup = 0;   ///< step t of so many, counted from 1, takes t / warmup of it
  std::int32_t periods = 0;  ///< 0: constant; else those of the decline, which changes once in each
  std::int32_t period = 1;   ///< steps
  std::int32_t start = 0;    ///< steps before the decline begins
  double least = 0;          ///< what it comes down to
  bool line = false;         ///< a line down, in place of half a cosine
  std::int32_t cycle = 0;    ///< steps of one cycle, of which warmup (at least 2) rise; 0: none

  /// Factor of PyTorch's CosineAnnealingLR (closed form) or LinearLR, stepped after every `period` updates, or as its OneCycleLR.
  CT_HD double factor(std::int32_t step) const {
    constexpr double pi = 3.141592653589793;
    if (cycle > 0) {
      constexpr double first = 1 / 25.0, last = first / 1e4;
      const std::int32_t at = step - 1, top = warmup - 1;
      if (at <= top) return 1 + (first - 1) / 2 * (1 + cos(pi * at / top));
      const double passed = at < cycle ? static_cast<double>(at - top) / (cycle - 1 - top) : 1;
      return last + (1 - last) / 2 * (1 + cos(pi * passed));
    }
    double factor = step < warmup ? static_cast<double>(step) / warmup : 1.0;
    if (periods > 0 && step > start) {
      const std::int32_t passed = (step - 1 - start) / period;
      const double left =
          line ? 1 - static_cast<double>(passed) / periods : 0.5 * (1 + cos(pi * passed / periods));
      factor *= passed < periods ? least + (1 - least) * left : least;
    }
    return factor;
  }
};

/// Counts a step after a training forward pass: step += 1, loss [R,1] joins the report. `period`: training sums start anew
/// when step is a multiple of it. rate [R,1], where it is not absent: what `schedule` makes of learning_rate
/// [R,1] for the update of this step. squares [R,N], where it is not absent: the square of the norm of the step before, in
/// parts (AdamStep, ClipScale), which is taken here, so that it costs no launch of its own.
template <class Real>
struct CountStep {
  int period = 1;
  Tensor<Real> loss;
  Tensor<std::int32_t> step;  ///< [R,1] steps done
  Tensor<double> report;
  RateSchedule schedule = {};
  Tensor<double> learning_rate = {}, rate = {}, squares = {};

  /// Counts replica r; `square`: sum of its squares.
  CT_HD void count(int r, double square) const {
    double* to = report.at(r);
    std::int32_t now = *step.at(r);
    if (now % period == 0)
      to[report_train_loss] = to[report_train_steps] = to[report_norms] = 0;
    else if (squares && lacks_norm(to, period, now))
      take_norm(to, period, now, square);
    *step.at(r) = ++now;
    const double x = static_cast<double>(*loss.at(r));
    to[report_train_loss] += x;
    to[report_train_steps] += 1;
    if (!(x - x == 0) && to[report_diverged_step] == 0) to[report_diverged_step] = now;  // not finite
    if (rate) *rate.at(r) = *learning_rate.at(r) * schedule.factor(now);
  }
};

/// Takes the norm of the last step before an evaluation, or before training pauses.
template <class Real>
struct TakeNorm {
  int period = 1;
  Tensor<double> squares;     ///< [R,N] parts of the square of the norm
  Tensor<std::int32_t> step;  ///< [R,1] steps done
  Tensor<double> report;

  CT_HD void take(int r, double square) const {
    if (lacks_norm(report.at(r), period, *step.at(r))) take_norm(report.at(r), period, *step.at(r), square);
  }
};

/// Place of training in a part of an epoch (experiments/training/epoch.h): of its batches, the one that
/// step [R,1] is to take, batch [R,1] = step / epoch * steps + step % epoch - start.
template <class Real>
struct CountBatches {
  std::int32_t epoch = 1, start = 0, steps = 1;
  Tensor<std::int32_t> step, batch;

  CT_HD std::int32_t of(std::int32_t at) const { return at / epoch * steps + at % epoch - start; }
};

/// Tokens of a lane up to each of a window, [R,B,T], where the window that step [R,1] takes is the (step % windows)-th of the lane.
template <class Real>
struct CountPlaces {
  std::int32_t windows = 1;
  Tensor<std::int32_t> step, places;

  CT_HD void count(int r, std::int64_t i) const {
    const int T = places.columns();
    places.at(r)[i] = *step.at(r) % windows * T + static_cast<std::int32_t>(i % T) + 1;
  }
};

/// Counts an evaluation forward pass over sequences of which the first `sequences` count: query_loss [R,B,Q]
/// and correct [R,B,Q] (-1: slot not used) join the report. chunk 0: mean over queries; chunk n: mean over
/// chunks of n used queries of a sequence, a short last chunk weighing as much as a full one. by_sequence:
/// loss and right are means over the queries of a sequence, and each counts once. `first`: sums start anew;
/// `last`: evaluations += 1.
template <class Real>
struct CountEvaluation {
  int sequences = 0, chunk = 0;
  bool by_sequence = false;
  bool first = true, last = true;
  Tensor<Real> query_loss;
  Tensor<std::int32_t> correct, evaluations;  ///< evaluations [R,1]
  Tensor<double> workspace;                   ///< [R,B,5]: sums of single sequences
  Tensor<double> report;
};

CROSSTALK_STEP(CountStep)

CROSSTALK_STEP(TakeNorm)

CROSSTALK_STEP(CountBatches)

CROSSTALK_STEP(CountPlaces)

CROSSTALK_STEP(CountEvaluation)

/// Sums of one sequence, the same arithmetic on every device: [loss sum, weight, right, queries, exact].
CT_HD inline void count_sequence(const auto* loss, const std::int32_t* correct, int Q, int chunk,
                                 bool by_sequence, double* sums) {
  double total = 0, weight = 0, right = 0, queries = 0, part = 0;
  int in_part = 0;
  bool exact = true;
  for (int i = 0; i < Q; ++i) {
    if (correct[i] >= 0) {
      right += correct[i];
      queries += 1;
      exact = exact && correct[i] == 1;
      part += static_cast<double>(loss[i]);
      ++in_part;
    }
    if (in_part > 0 && (in_part == chunk || i == Q - 1)) {
      total += chunk > 0 ? part / in_part : part;
      weight += chunk > 0 ? 1 : in_part;
      part = 0;
      in_part = 0;
    }
  }
  if (by_sequence && queries > 0) {
    total /= weight;
    right /= queries;
    weight = queries = 1;
  }
  sums[report_loss_sum] = total;
  sums[report_loss_weight] = weight;
  sums[report_right] = right;
  sums[report_queries] = queries;
  sums[report_exact] = exact ? 1 : 0;
}

}  // namespace crosstalk
