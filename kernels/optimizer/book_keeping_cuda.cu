// Counters of a run on CUDA: a thread a replica; of an evaluation a thread a sequence, then one a sum.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/optimizer/book_keeping.h"

namespace crosstalk {
namespace {

template <class Real>
__global__ void count_step_kernel(const __grid_constant__ CountStep<Real> a) {
  const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= a.loss.R) return;
  double* report = a.report.at(r);
  std::int32_t step = *a.step.at(r);
  if (step % a.period == 0) report[report_train_loss] = report[report_train_steps] = 0;
  *a.step.at(r) = ++step;
  const double loss = static_cast<double>(*a.loss.at(r));
  report[report_train_loss] += loss;
  report[report_train_steps] += 1;
  if (!isfinite(loss) && report[report_diverged_step] == 0) report[report_diverged_step] = step;
  if (a.rate) *a.rate.at(r) = *a.learning_rate.at(r) * a.schedule.factor(step);
}

template <class Real>
__global__ void count_batches_kernel(const __grid_constant__ CountBatches<Real> a) {
  const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r < a.step.R) *a.batch.at(r) = a.of(*a.step.at(r));
}

// One thread a sequence, then one thread a sum, which adds up the sequences in order.
template <class Real>
__global__ void count_evaluation_kernel(const __grid_constant__ CountEvaluation<Real> a) {
  constexpr int kSums = report_exact + 1;
  const int r = static_cast<int>(blockIdx.x), B = a.query_loss.dim(0), Q = a.query_loss.dim(1);
  const int n = min(B, a.sequences);
  for (int b = static_cast<int>(threadIdx.x); b < n; b += static_cast<int>(blockDim.x)) {
    count_sequence(a.query_loss.at(r) + b * Q, a.correct.at(r) + b * Q, Q, a.chunk, a.by_sequence,
                   a.workspace.at(r) + b * kSums);
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (i < kSums) {
    double sum = a.first ? 0.0 : a.report.at(r)[i];
    for (int b = 0; b < n; ++b) sum += a.workspace.at(r)[b * kSums + i];
    a.report.at(r)[i] = sum;
  }
  if (i == 0 && a.last) ++*a.evaluations.at(r);
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const CountStep<Real>& a) {
  count_step_kernel<<<device::blocks_for(a.loss.R, 128), 128, 0, device::stream_of(exec)>>>(a);
  device::check_launch("count_step");
}

template <class Real>
void run_cuda(const Exec& exec, const CountBatches<Real>& a) {
  count_batches_kernel<<<device::blocks_for(a.step.R, 128), 128, 0, device::stream_of(exec)>>>(a);
  device::check_launch("count_batches");
}

template <class Real>
void run_cuda(const Exec& exec, const CountEvaluation<Real>& a) {
  count_evaluation_kernel<<<static_cast<unsigned>(a.query_loss.R), 64, 0, device::stream_of(exec)>>>(a);
  device::check_launch("count_evaluation");
}

CROSSTALK_INSTANTIATE_STEP(cuda, CountBatches)
CROSSTALK_INSTANTIATE_STEP(cuda, CountStep)
CROSSTALK_INSTANTIATE_STEP(cuda, CountEvaluation)

}  // namespace crosstalk
