// Recurrent reads and prefix sums on the GPU.
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

// The same with a trail instead of the history.
TEST_F(CudaOps, RecurrentReadByTrail) {
  for (auto [B, T, P] : {std::array{1, 1, 1},
                         {3, 5, 4},
                         {4, 33, 20},
                         {2, 200, 128},
                         {3, 47, 64},
                         {2, 61, 132},
                         {2, 50, 256},
                         {2, 37, 400},
                         {2, 21, 700}}) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P);
    const int columns = P + (T + 3) / 4 * 4;
    const auto inputs = [=, B = B, T = T, P = P](Fields& f, auto& a) {
      f.in(a.k.value, {B, T, P}, -unit(P), unit(P));
      f.in(a.q.value, {B, 1, P});
      f.in(a.write.value, {B, T}, 0, 1);
      f.in(a.erase.value, {B, T}, 0, 1);
      f.in(a.position.value, {B, 1}, 0, T + 1);
    };
    check<RecurrentRead>(T + P, 4, [=, B = B, T = T](Fields& f, auto& a) {
      inputs(f, a);
      f.out(a.a.value, {B, 1, T});
      f.work(a.trail.value, {B, columns});
    });
    for_writes([=, B = B, T = T, P = P](Write mode) {
      check_backward<RecurrentRead>(T + P, 8, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.in(a.trail.value, {B, columns});
        f.in(a.a.gradient, {B, 1, T});
        f.out(a.k.gradient, {B, T, P});
        f.out(a.q.gradient, {B, 1, P});
        f.out(a.write.gradient, {B, T});
        f.out(a.erase.gradient, {B, T});
        a.k.write = a.q.write = a.write.write = a.erase.write = mode;
      });
    });
  }
}

TEST_F(CudaOps, RecurrentRead) {
  for (auto [B, T, P, Q] : kReadShapes) {
    for (int gates = 0; gates < 8; gates += gates == 0 ? 1 : 2) {  // none, write, write+erase, ..., all
      SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << ", gates " << gates);
      const auto inputs = [=](Fields& f, auto& a) {
        f.in(a.k.value, {B, T, P}, -unit(P), unit(P));
        f.in(a.q.value, {B, Q, P});
        if (gates & 1) f.in(a.write.value, {B, T}, 0, 1);
        if (gates & 2) f.in(a.erase.value, {B, T}, 0, 1);
        if (gates & 4) f.in(a.decay.value, {B, T}, 0.9, 1);
        f.in(a.position.value, {B, Q}, 0, T + 1);
      };
      check<RecurrentRead>(T + P, 4, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.out(a.a.value, {B, Q, T});
        if (Q == 1) {
          f.out(a.history.value, {B, T, P});
        } else {
          f.work(a.history.value, {B, T, P});
        }
      });
      for_writes([=](Write mode) {
        check_backward<RecurrentRead>(T + P + Q, 8, [=](Fields& f, auto& a) {
          inputs(f, a);
          if (Q == 1) {
            f.in(a.history.value, {B, T, P});
          } else {
            f.work(a.history.value, {B, T, P});
          }
          f.in(a.a.gradient, {B, Q, T});
          f.out(a.k.gradient, {B, T, P});
          f.out(a.q.gradient, {B, Q, P});
          a.k.write = a.q.write = mode;
          if (gates & 1) f.out(a.write.gradient, {B, T}), a.write.write = mode;
          if (gates & 2) f.out(a.erase.gradient, {B, T}), a.erase.write = mode;
          if (gates & 4) f.out(a.decay.gradient, {B, T}), a.decay.write = mode;
        });
      });
    }
  }
}

}  // namespace
}  // namespace crosstalk
