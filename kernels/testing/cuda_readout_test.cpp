// Values read and their losses on the GPU.
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

TEST_F(CudaOps, GatherValues) {
  struct Shape {
    int B, Q, T, V;
  };
  for (auto [B, Q, T, V] : {Shape{1, 1, 1, 1},
                            {3, 2, 40, 7},
                            {2, 5, 100, 90},
                            {2, 1, 65, 1},
                            {1, 3, 50, 1500},
                            {2, 1, 700, 5},
                            {1, 2, 600, 5000}}) {
    SCOPED_TRACE(testing::Message() << B << " " << Q << " " << T << " " << V);
    check<GatherValues>(T, 1, [=](Fields& f, auto& a) {
      f.in(a.a.value, {B, Q, T});
      f.in(a.tokens.value, {B, T, 3}, -1, V);
      f.out(a.y.value, {B, Q, V});
    });
    check<GatherValues>(T, 1, [=](Fields& f, auto& a) {  // weights divided by their sum
      a.eps = 1e-6;
      f.in(a.a.value, {B, Q, T}, 0.1, 1);
      f.in(a.tokens.value, {B, T, 3}, -1, V);
      f.out(a.y.value, {B, Q, V});
      f.out(a.w.value, {B, Q, T});
      f.out(a.inverse.value, {B, Q});
    });
    for_writes([=](Write mode) {
      check_backward<GatherValues>(T, 1, [=](Fields& f, auto& a) {
        a.a.write = mode;
        f.in(a.y.gradient, {B, Q, V});
        f.in(a.w.value, {B, Q, T});
        f.in(a.inverse.value, {B, Q});
        f.in(a.tokens.value, {B, T, 3}, -1, V);
        f.out(a.a.gradient, {B, Q, T});
      });
    });
    for_writes([=](Write mode) {
      check_backward<GatherValues>(1, 1, [=](Fields& f, auto& a) {
        a.a.write = mode;
        f.in(a.y.gradient, {B, Q, V});
        f.in(a.tokens.value, {B, T, 3}, -1, V);
        f.out(a.a.gradient, {B, Q, T});
      });
    });
  }
}

TEST_F(CudaOps, SquaredLoss) {
  for (auto [B, Q, V] : {std::tuple{1, 1, 1}, {1, 2, 600}, {5, 3, 33}, {32, 1, 100}, {20, 30, 17}}) {
    SCOPED_TRACE(testing::Message() << B << " " << Q << " " << V);
    for (const bool gradient : {false, true}) {
      check<SquaredLossForward>(V + B * Q, 1, [=, B = B, Q = Q, V = V](Fields& f, auto& a) {
        f.in(a.y, {B, Q, V});
        f.in(a.target, {B, Q}, -1, V);
        f.out(a.query_loss, {B, Q});
        f.out(a.correct, {B, Q});
        f.out(a.loss, {});
        if (gradient) f.out(a.d_y, {B, Q, V});
      });
    }
    for_writes([B = B, Q = Q, V = V](Write mode) {
      check<SquaredLossBackward>(1, 1, [=](Fields& f, auto& a) {
        a.write_y = mode;
        f.in(a.y, {B, Q, V});
        f.in(a.target, {B, Q}, -1, V);
        f.out(a.d_y, {B, Q, V});
      });
    });
  }
}

}  // namespace
}  // namespace crosstalk
