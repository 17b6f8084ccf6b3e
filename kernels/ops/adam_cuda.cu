// Adam over the flat parameter block: one pass, 28 bytes a parameter in fp32.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/ops/adam.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256, kPerThread = 8;

template <class Real>
__global__ void __launch_bounds__(kThreads) adam(const __grid_constant__ AdamStep<Real> a) {
  __shared__ Real rate, root;
  const int r = blockIdx.y;
  if (threadIdx.x == 0) {
    const double t = *a.step.at(r);
    rate = static_cast<Real>(*a.learning_rate.at(r) / (1 - pow(a.beta1, t)));
    root = static_cast<Real>(sqrt(1 - pow(a.beta2, t)));
  }
  __syncthreads();
  const Real b1 = static_cast<Real>(a.beta1), b2 = static_cast<Real>(a.beta2), eps = static_cast<Real>(a.eps);
  const Real c1 = static_cast<Real>(1 - a.beta1), c2 = static_cast<Real>(1 - a.beta2);
  Real* p = a.parameter.at(r);
  const Real* g = a.gradient.at(r);
  Real* m = a.m.at(r);
  Real* v = a.v.at(r);
  const std::int64_t n = a.parameter.size();
#pragma unroll
  for (int k = 0; k < kPerThread / 4; ++k) {
    const std::int64_t i =
        4 * ((static_cast<std::int64_t>(blockIdx.x) * (kPerThread / 4) + k) * kThreads + threadIdx.x);
    const int valid = n - i >= 4 ? 4 : static_cast<int>(n - i);
    if (valid <= 0) return;
    Real pi[4], gi[4], mi[4], vi[4];
    load4(p + i, valid, true, pi);
    load4(g + i, valid, true, gi);
    load4(m + i, valid, true, mi);
    load4(v + i, valid, true, vi);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      mi[j] = b1 * mi[j] + c1 * gi[j];
      vi[j] = b2 * vi[j] + c2 * gi[j] * gi[j];
      pi[j] -= rate * mi[j] / (sqrt(vi[j]) / root + eps);
    }
    if (valid == 4) {
      *reinterpret_cast<Four<Real>*>(m + i) = {{mi[0], mi[1], mi[2], mi[3]}};
      *reinterpret_cast<Four<Real>*>(v + i) = {{vi[0], vi[1], vi[2], vi[3]}};
      *reinterpret_cast<Four<Real>*>(p + i) = {{pi[0], pi[1], pi[2], pi[3]}};
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j >= valid) break;
        m[i + j] = mi[j];
        v[i + j] = vi[j];
        p[i + j] = pi[j];
      }
    }
  }
}

}  // namespace

template <class Real>
void run_cuda(const Exec& exec, const AdamStep<Real>& a) {
  if (a.parameter.size() == 0 || a.parameter.R == 0) return;
  adam<<<dim3(blocks_for(a.parameter.size(), kThreads * kPerThread), static_cast<unsigned>(a.parameter.R)),
         kThreads, 0, stream_of(exec)>>>(a);
  check_launch("adam");
}

CROSSTALK_CUDA_OP(AdamStep)

}  // namespace crosstalk
