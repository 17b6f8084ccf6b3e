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
    check<PrefixDotForward>(T + P, 2, [=](Fields& f, auto& a) {
      f.in(a.k, {B, T, P});
      f.in(a.q, {B, Q, P});
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.zk, {B, T});
      f.out(a.zq, {B, Q});
    });
    for_writes([=](Write mode) {
      check<PrefixDotBackward>(2 * T + Q, 2, [=](Fields& f, auto& a) {
        a.write_k = a.write_q = mode;
        f.in(a.k, {B, T, P});
        f.in(a.q, {B, Q, P});
        f.in(a.d_zk, {B, T});
        f.in(a.d_zq, {B, Q});
        f.in(a.position, {B, Q}, 0, T + 1);
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, Q, P});
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
      f.in(a.k, {B, T, P}, -unit(P), unit(P));
      f.in(a.q, {B, 1, P});
      f.in(a.write, {B, T}, 0, 1);
      f.in(a.erase, {B, T}, 0, 1);
      f.in(a.position, {B, 1}, 0, T + 1);
    };
    check<RecurrentReadForward>(T + P, 4, [=, B = B, T = T](Fields& f, auto& a) {
      inputs(f, a);
      f.out(a.a, {B, 1, T});
      f.work(a.trail, {B, columns});
    });
    for_writes([=, B = B, T = T, P = P](Write mode) {
      check<RecurrentReadBackward>(T + P, 8, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.in(a.trail, {B, columns});
        f.in(a.d_a, {B, 1, T});
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, 1, P});
        f.out(a.d_write, {B, T});
        f.out(a.d_erase, {B, T});
        a.write_k = a.write_q = a.write_write = a.write_erase = mode;
      });
    });
  }
}

TEST_F(CudaOps, RecurrentRead) {
  for (auto [B, T, P, Q] : kReadShapes) {
    for (int gates = 0; gates < 8; gates += gates == 0 ? 1 : 2) {  // none, write, write+erase, ..., all
      SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << ", gates " << gates);
      const auto inputs = [=](Fields& f, auto& a) {
        f.in(a.k, {B, T, P}, -unit(P), unit(P));
        f.in(a.q, {B, Q, P});
        if (gates & 1) f.in(a.write, {B, T}, 0, 1);
        if (gates & 2) f.in(a.erase, {B, T}, 0, 1);
        if (gates & 4) f.in(a.decay, {B, T}, 0.9, 1);
        f.in(a.position, {B, Q}, 0, T + 1);
      };
      check<RecurrentReadForward>(T + P, 4, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.out(a.a, {B, Q, T});
        if (Q == 1) {
          f.out(a.history, {B, T, P});
        } else {
          f.work(a.history, {B, T, P});
        }
      });
      for_writes([=](Write mode) {
        check<RecurrentReadBackward>(T + P + Q, 8, [=](Fields& f, auto& a) {
          inputs(f, a);
          if (Q == 1) {
            f.in(a.history, {B, T, P});
          } else {
            f.work(a.history, {B, T, P});
          }
          f.in(a.d_a, {B, Q, T});
          f.out(a.d_k, {B, T, P});
          f.out(a.d_q, {B, Q, P});
          a.write_k = a.write_q = mode;
          if (gates & 1) f.out(a.d_write, {B, T}), a.write_write = mode;
          if (gates & 2) f.out(a.d_erase, {B, T}), a.write_erase = mode;
          if (gates & 4) f.out(a.d_decay, {B, T}), a.write_decay = mode;
        });
      });
    }
  }
}

}  // namespace
}  // namespace crosstalk
