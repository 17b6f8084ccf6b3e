// Adam and AdamW over the flat parameter block: one pass, 28 bytes a parameter in fp32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/early_launch.cuh"
#include "kernels/optimizer/adam.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;
static_assert(4 * kThreads == kAdamBlock);

/// x^n by squaring: some 20 roundings, where the library's power takes longer than the rest of the block.
__device__ double power(double x, std::int32_t n) {
  double result = 1;
  for (; n > 0; n /= 2, x *= x)
    if (n % 2 == 1) result *= x;
  return result;
}

// Four neighbouring parameters a thread; the bias corrections are made while those arrive.
template <class Real>
__global__ void __launch_bounds__(kThreads) adam(const __grid_constant__ AdamStep<Real> a) {
  wait_for_earlier();
  __shared__ Real rate, root, keep, scale;
  __shared__ double squares[kThreads / 32];
  const int r = blockIdx.y;
  const std::int64_t n = a.parameter.size(), i = 4 * (std::int64_t{blockIdx.x} * kThreads + threadIdx.x);
  const int valid = n - i >= 4 ? 4 : n > i ? static_cast<int>(n - i) : 0;
  Real* p = a.parameter.at(r) + i;
  Real* m = a.m.at(r) + i;
  Real* v = a.v.at(r) + i;
  Real pi[4], gi[4], mi[4], vi[4];
  load4(p, valid, true, pi);
  load4(a.gradient.at(r) + i, valid, true, gi);
  load4(m, valid, true, mi);
  load4(v, valid, true, vi);
  if (threadIdx.x == 0)
    rate = static_cast<Real>(*a.learning_rate.at(r) / (1 - power(a.beta1, *a.step.at(r))));
  if (threadIdx.x == 32) root = static_cast<Real>(sqrt(1 - power(a.beta2, *a.step.at(r))));
  if (a.weight_decay && threadIdx.x == 64)
    keep = static_cast<Real>(1 - *a.learning_rate.at(r) * *a.weight_decay.at(r));
  if (a.gradient_scale && threadIdx.x == 96) scale = static_cast<Real>(*a.gradient_scale.at(r));
  if (a.squares) {
    double sum = 0;
    CT_FOR(j, 4) sum += static_cast<double>(gi[j]) * static_cast<double>(gi[j]);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) squares[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (a.squares && threadIdx.x == 0) {
    double sum = 0;
    CT_FOR(w, kThreads / 32) sum += squares[w];
    a.squares.at(r)[blockIdx.x] = sum;
  }
  if (a.weight_decay)
    CT_FOR(j, 4) pi[j] *= keep;
  if (a.gradient_scale)
    CT_FOR(j, 4) gi[j] *= scale;
  const Real b1 = static_cast<Real>(a.beta1), b2 = static_cast<Real>(a.beta2), eps = static_cast<Real>(a.eps);
  const Real c1 = static_cast<Real>(1 - a.beta1), c2 = static_cast<Real>(1 - a.beta2);
  CT_FOR(j, 4) {
    mi[j] = b1 * mi[j] + c1 * gi[j];
    vi[j] = b2 * vi[j] + c2 * gi[j] * gi[j];
    pi[j] -= rate * mi[j] / (sqrt(vi[j]) / root + eps);
  }
  if (valid == 4) {
    *reinterpret_cast<Four<Real>*>(m) = {{mi[0], mi[1], mi[2], mi[3]}};
    *reinterpret_cast<Four<Real>*>(v) = {{vi[0], vi[1], vi[2], vi[3]}};
    *reinterpret_cast<Four<Real>*>(p) = {{pi[0], pi[1], pi[2], pi[3]}};
    return;
  }
  CT_FOR(j, 3) {
    if (j >= valid) break;
    m[j] = mi[j];
    v[j] = vi[j];
    p[j] = pi[j];
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const AdamStep<Real>& a) {
  launch_early(exec, "adam", adam<Real>,
               per_replica(blocks_for(a.parameter.size(), 4 * kThreads), a.parameter.R), kThreads, 0, a);
}

CROSSTALK_INSTANTIATE_STEP(cuda, AdamStep)

}  // namespace crosstalk
