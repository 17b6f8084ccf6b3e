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
    check<FwmRead>(T + P, 8, [=](Fields& f, auto& a) {
      f.in(a.k.value, {B, T, P}, -key, key);
      f.in(a.q.value, {B, Q, P});
      f.in(a.beta.value, {B, T}, 0, 1);
      f.in(a.tokens.value, {B, T, 2}, -1, V);
      f.in(a.position.value, {B, Q}, 0, T + 1);
      f.out(a.y.value, {B, Q, V});
      f.work(a.checkpoints.value, {B, kept_states(T, Q, P, V), V * P});
      f.work(a.kept.value, {B, T, fwm_kept<float>(Device::cuda, Q, P, V)});
    });
  }
}

// The checkpoints come from a forward pass of the same sequences on the same device.
template <class Real>
struct FwmBoth {
  FwmRead<Real> read;
};
template <class Real>
void run_cpu(const Exec& exec, const FwmBoth<Real>& a) {
  forward_cpu(exec, a.read);
  backward_cpu(exec, a.read);
}
template <class Real>
void run_cuda(const Exec& exec, const FwmBoth<Real>& a) {
  forward_cuda(exec, a.read);
  backward_cuda(exec, a.read);
}

TEST_F(CudaOps, FwmBackward) {
  for (auto [B, T, P, Q, V, size] : kFwmShapes) {
    const double key = size * unit(P);
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << " " << V << " " << size);
    for_writes([=](Write mode) {
      check<FwmBoth>(T + P + V, 16, [=](Fields& f, auto& both) {
        auto& a = both.read;
        f.in(a.k.value, {B, T, P}, -key, key);
        f.in(a.q.value, {B, Q, P});
        f.in(a.beta.value, {B, T}, 0, 1);
        f.in(a.tokens.value, {B, T, 2}, -1, V);
        f.in(a.position.value, {B, Q}, 0, T + 1);
        f.work(a.y.value, {B, Q, V});
        f.work(a.checkpoints.value, {B, kept_states(T, Q, P, V), V * P});
        f.work(a.kept.value, {B, T, fwm_kept<float>(Device::cuda, Q, P, V)});
        f.work(a.workspace.value, {B, fwm_workspace<double>(Device::cuda, Q, P, V), V * P});
        f.in(a.y.gradient, {B, Q, V});
        f.out(a.k.gradient, {B, T, P});
        f.out(a.q.gradient, {B, Q, P});
        f.out(a.beta.gradient, {B, T});
        a.k.write = a.q.write = a.beta.write = mode;
      });
    });
  }
}

}  // namespace
}  // namespace crosstalk
