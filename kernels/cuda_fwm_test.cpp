// The fast weight memory on the GPU.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/testing/cuda_op.h"

namespace crosstalk {
namespace {

using namespace checks;
using CudaOps = CudaTest;

struct FwmShape {
  int B, T, P, Q, V;
  double size = 1;  // of the keys
};
// One query with whole fours of up to 128 columns goes chunk by chunk in single precision.
const FwmShape kFwmShapes[] = {
    {1, 1, 1, 1, 1},        {2, 7, 5, 3, 3},         {1, 9, 130, 2, 50},       {1, 5, 300, 1, 9},
    {1, 10, 100, 2, 301},   {1, 1, 128, 1, 600},     {1, 2, 128, 1, 600},      {1, 7, 128, 3, 601},
    {2, 20, 64, 1, 21},     {2, 1, 4, 1, 1},         {3, 16, 8, 1, 2, 1.5},    {5, 40, 12, 1, 17, 0.1},
    {3, 49, 64, 1, 100, 2}, {2, 33, 60, 1, 113, 4},  {2, 50, 128, 1, 112, 2},  {1, 37, 100, 1, 201, 0.2},
    {1, 48, 68, 1, 256, 2}, {2, 49, 64, 1, 100, 12}, {2, 50, 128, 1, 112, 60}, {2, 33, 64, 1, 30, 300}};

/// Enough for either precision.
int kept_states(int T, int Q, int P, int V) {
  return std::max(fwm_states<float>(Device::cuda, T, Q, P, V), fwm_states<double>(Device::cuda, T, Q, P, V));
}

TEST_F(CudaOps, FwmForward) {
  for (auto [B, T, P, Q, V, size] : kFwmShapes) {
    const double key = size * unit(P);
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << " " << V << " " << size);
    check<FwmReadForward>(T + P, 8, [=](Fields& f, auto& a) {
      f.in(a.k, {B, T, P}, -key, key);
      f.in(a.q, {B, Q, P});
      f.in(a.beta, {B, T}, 0, 1);
      f.in(a.tokens, {B, T, 2}, -1, V);
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.y, {B, Q, V});
      f.work(a.checkpoints, {B, kept_states(T, Q, P, V), V * P});
      f.work(a.kept, {B, T, fwm_kept<float>(Device::cuda, Q, P, V)});
    });
  }
}

// The checkpoints come from a forward pass on the CPU of the same sequences.
template <class Real>
struct FwmBoth {
  FwmReadForward<Real> forward;
  FwmReadBackward<Real> backward;
};

template <class Real>
void run_cpu(const Exec& exec, const FwmBoth<Real>& a) {
  run_cpu(exec, a.forward);
  FwmReadBackward<Real> backward = a.backward;
  backward.k = a.forward.k, backward.q = a.forward.q, backward.beta = a.forward.beta;
  backward.tokens = a.forward.tokens, backward.position = a.forward.position;
  backward.checkpoints = a.forward.checkpoints, backward.kept = a.forward.kept;
  run_cpu(exec, backward);
}

template <class Real>
void run_cuda(const Exec& exec, const FwmBoth<Real>& a) {
  run_cuda(exec, a.forward);
  FwmReadBackward<Real> backward = a.backward;
  backward.k = a.forward.k, backward.q = a.forward.q, backward.beta = a.forward.beta;
  backward.tokens = a.forward.tokens, backward.position = a.forward.position;
  backward.checkpoints = a.forward.checkpoints, backward.kept = a.forward.kept;
  run_cuda(exec, backward);
}

TEST_F(CudaOps, FwmBackward) {
  for (auto [B, T, P, Q, V, size] : kFwmShapes) {
    const double key = size * unit(P);
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << " " << V << " " << size);
    for_writes([=](Write mode) {
      check<FwmBoth>(T + P + V, 16, [=](Fields& f, auto& both) {
        auto& a = both.forward;
        f.in(a.k, {B, T, P}, -key, key);
        f.in(a.q, {B, Q, P});
        f.in(a.beta, {B, T}, 0, 1);
        f.in(a.tokens, {B, T, 2}, -1, V);
        f.in(a.position, {B, Q}, 0, T + 1);
        f.work(a.y, {B, Q, V});
        f.work(a.checkpoints, {B, kept_states(T, Q, P, V), V * P});
        f.work(a.kept, {B, T, fwm_kept<float>(Device::cuda, Q, P, V)});
        auto& b = both.backward;
        f.work(b.workspace, {B, fwm_workspace<double>(Device::cuda, Q, P, V), V * P});
        f.in(b.d_y, {B, Q, V});
        f.out(b.d_k, {B, T, P});
        f.out(b.d_q, {B, Q, P});
        f.out(b.d_beta, {B, T});
        b.write_k = b.write_q = b.write_beta = mode;
      });
    });
  }
}

}  // namespace
}  // namespace crosstalk
