// Prefix sums on the GPU.
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

TEST_F(CudaOps, PrefixDot) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q);
    check<PrefixDot>(T + P, 2, [=](Fields& f, auto& a) {
      f.in(a.k.value, {B, T, P});
      f.in(a.q.value, {B, Q, P});
      f.in(a.position.value, {B, Q}, 0, T + 1);
      f.out(a.zk.value, {B, T});
      f.out(a.zq.value, {B, Q});
    });
    for_writes([=](Write mode) {
      check_backward<PrefixDot>(2 * T + Q, 2, [=](Fields& f, auto& a) {
        a.k.write = a.q.write = mode;
        f.in(a.k.value, {B, T, P});
        f.in(a.q.value, {B, Q, P});
        f.in(a.zk.gradient, {B, T});
        f.in(a.zq.gradient, {B, Q});
        f.in(a.position.value, {B, Q}, 0, T + 1);
        f.out(a.k.gradient, {B, T, P});
        f.out(a.q.gradient, {B, Q, P});
      });
    });
  }
}

}  // namespace
}  // namespace crosstalk
