// Counters of a run on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/book_keeping.h"

#include "kernels/base/parallel.h"

namespace crosstalk {

namespace {

double sum(const Tensor<double>& parts, int r) {
  double total = 0;
  for (std::int64_t i = 0; i < parts.size(); ++i) total += parts.at(r)[i];
  return total;
}

}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const CountStep<Real>& a) {
  parallel_items(exec, a.loss.R, 1,
                 [&](int r, std::int64_t) { a.count(r, a.squares ? sum(a.squares, r) : 0.0); });
}

template <class Real>
void run_cpu(const Exec& exec, const TakeNorm<Real>& a) {
  parallel_items(exec, a.step.R, 1, [&](int r, std::int64_t) { a.take(r, sum(a.squares, r)); });
}

template <class Real>
void run_cpu(const Exec& exec, const CountEvaluation<Real>& a) {
  const int B = a.query_loss.dim(0), Q = a.query_loss.dim(1);
  parallel_items(exec, a.query_loss.R, 1, [&](int r, std::int64_t) {
    double* report = a.report.at(r);
    for (int i = 0; i <= report_exact && a.first; ++i) report[i] = 0;
    for (int b = 0; b < std::min(B, a.sequences); ++b) {
      double* sums = a.workspace.at(r) + b * (report_exact + 1);
      count_sequence(a.query_loss.at(r) + b * Q, a.correct.at(r) + b * Q, Q, a.chunk, a.by_sequence, sums);
      for (int i = 0; i <= report_exact; ++i) report[i] += sums[i];
    }
    if (a.last) ++*a.evaluations.at(r);
  });
}

template <class Real>
void run_cpu(const Exec& exec, const CountBatches<Real>& a) {
  parallel_items(exec, a.step.R, 1, [&](int r, std::int64_t) { *a.batch.at(r) = a.of(*a.step.at(r)); });
}

template <class Real>
void run_cpu(const Exec& exec, const CountPlaces<Real>& a) {
  parallel_items(exec, a.step.R, 1, [&](int r, std::int64_t) {
    for (std::int64_t i = 0; i < a.places.size(); ++i) a.count(r, i);
  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, CountBatches)
CROSSTALK_INSTANTIATE_STEP(cpu, CountPlaces)
CROSSTALK_INSTANTIATE_STEP(cpu, CountStep)
CROSSTALK_INSTANTIATE_STEP(cpu, TakeNorm)
CROSSTALK_INSTANTIATE_STEP(cpu, CountEvaluation)

}  // namespace crosstalk
