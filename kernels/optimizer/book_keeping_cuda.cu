// Counters of a run on CUDA: a warp a replica; of an evaluation a thread a sequence, then one a sum.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/optimizer/book_keeping.h"

namespace crosstalk {
namespace {

constexpr int kCountThreads = 128;  // four replicas

/// Sum of the parts of replica r over the warp, in a fixed order.
__device__ double sum_of_parts(const Tensor<double>& parts, int r) {
  const double* const part = parts.at(r);
  const int n = static_cast<int>(parts.size());
  double sum = 0;
#pragma unroll 8
  for (int i = static_cast<int>(threadIdx.x % 32); i < n; i += 32) sum += part[i];
  return device::warp_sum(sum);
}

// The parts of the norm do not wait for the step: what is read of the two arrives together.
template <class Real>
__global__ void count_step_kernel(const __grid_constant__ CountStep<Real> a) {
  const int r = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (r >= a.loss.R) return;
  const double square = a.squares ? sum_of_parts(a.squares, r) : 0.0;
  if (threadIdx.x % 32 == 0) a.count(r, square);
}

template <class Real>
__global__ void take_norm_kernel(const __grid_constant__ TakeNorm<Real> a) {
  const int r = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  if (r >= a.step.R) return;
  const double square = sum_of_parts(a.squares, r);
  if (threadIdx.x % 32 == 0) a.take(r, square);
}

template <class Real>
__global__ void count_batches_kernel(const __grid_constant__ CountBatches<Real> a) {
  const int r = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (r < a.step.R) *a.batch.at(r) = a.of(*a.step.at(r));
}

template <class Real>
__global__ void count_places_kernel(const __grid_constant__ CountPlaces<Real> a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, n = a.places.size();
  if (i < n * a.places.R) a.count(static_cast<int>(i / n), i % n);
}

// One thread a sequence, then one thread a sum, which adds up the sequences in order.
template <class Real>
__global__ void count_evaluation_kernel(const __grid_constant__ CountEvaluation<Real> a) {
  constexpr int kSums = report_exact + 1;
  const int r = static_cast<int>(blockIdx.x), B = a.query_loss.dim(0), Q = a.query_loss.dim(1);
  const int n = min(B, a.sequences);
  for (int b = CT_THREAD; b < n; b += static_cast<int>(blockDim.x)) {
    count_sequence(a.query_loss.at(r) + b * Q, a.correct.at(r) + b * Q, Q, a.chunk, a.by_sequence,
                   a.workspace.at(r) + b * kSums);
  }
  __syncthreads();
  const int i = CT_THREAD;
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
  device::launch(exec, "count_step", count_step_kernel<Real>,
                 device::blocks_for(32 * std::int64_t{a.loss.R}, kCountThreads), kCountThreads, 0, a);
}

template <class Real>
void run_cuda(const Exec& exec, const TakeNorm<Real>& a) {
  device::launch(exec, "take_norm", take_norm_kernel<Real>,
                 device::blocks_for(32 * std::int64_t{a.step.R}, kCountThreads), kCountThreads, 0, a);
}

template <class Real>
void run_cuda(const Exec& exec, const CountBatches<Real>& a) {
  device::launch(exec, "count_batches", count_batches_kernel<Real>, device::blocks_for(a.step.R, 128), 128, 0,
                 a);
}

template <class Real>
void run_cuda(const Exec& exec, const CountPlaces<Real>& a) {
  device::launch(exec, "count_places", count_places_kernel<Real>,
                 device::blocks_for(a.places.size() * a.places.R, 128), 128, 0, a);
}

template <class Real>
void run_cuda(const Exec& exec, const CountEvaluation<Real>& a) {
  device::launch(exec, "count_evaluation", count_evaluation_kernel<Real>,
                 static_cast<unsigned>(a.query_loss.R), 64, 0, a);
}

CROSSTALK_INSTANTIATE_STEP(cuda, CountBatches)
CROSSTALK_INSTANTIATE_STEP(cuda, CountPlaces)
CROSSTALK_INSTANTIATE_STEP(cuda, CountStep)
CROSSTALK_INSTANTIATE_STEP(cuda, TakeNorm)
CROSSTALK_INSTANTIATE_STEP(cuda, CountEvaluation)

}  // namespace crosstalk
