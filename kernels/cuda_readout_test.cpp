// Scores, softmax, values read and their losses on the GPU.
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

TEST_F(CudaOps, Scores) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q);
    check<ScoresForward>(P, 1, [=](Fields& f, auto& a) {
      a.scale = 0.7;
      f.in(a.k, {B, T, P});
      f.in(a.q, {B, Q, P});
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.a, {B, Q, T});
    });
    for_writes([=](Write mode) {
      check<ScoresBackward>(std::max(T, Q), 1, [=](Fields& f, auto& a) {
        a.scale = 0.7, a.write_k = a.write_q = mode;
        f.in(a.k, {B, T, P});
        f.in(a.q, {B, Q, P});
        f.in(a.position, {B, Q}, 0, T + 1);
        f.in(a.d_a, {B, Q, T});
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, Q, P});
      });
    });
  }
}

TEST_F(CudaOps, Softmax) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << Q);
    check<SoftmaxForward>(T, 1, [=](Fields& f, auto& a) {
      f.in(a.x, {B, Q, T}, -8, 8);
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.y, {B, Q, T});
    });
    for_writes([=](Write mode) {
      check<SoftmaxBackward>(T, 1, [=](Fields& f, auto& a) {
        a.write_x = mode;
        f.in(a.y, {B, Q, T}, 0, 1);
        f.in(a.d_y, {B, Q, T});
        f.out(a.d_x, {B, Q, T});
      });
    });
  }
}

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
    check<GatherValuesForward>(T, 1, [=](Fields& f, auto& a) {
      f.in(a.a, {B, Q, T});
      f.in(a.tokens, {B, T, 3}, -1, V);
      f.out(a.y, {B, Q, V});
    });
    check<GatherValuesForward>(T, 1, [=](Fields& f, auto& a) {  // weights divided by their sum
      a.eps = 1e-6;
      f.in(a.a, {B, Q, T}, 0.1, 1);
      f.in(a.tokens, {B, T, 3}, -1, V);
      f.out(a.y, {B, Q, V});
      f.out(a.w, {B, Q, T});
      f.out(a.inverse, {B, Q});
    });
    for_writes([=](Write mode) {
      check<GatherValuesBackward>(T, 1, [=](Fields& f, auto& a) {
        a.write_a = mode;
        f.in(a.d_y, {B, Q, V});
        f.in(a.w, {B, Q, T});
        f.in(a.inverse, {B, Q});
        f.in(a.tokens, {B, T, 3}, -1, V);
        f.out(a.d_a, {B, Q, T});
      });
    });
    for_writes([=](Write mode) {
      check<GatherValuesBackward>(1, 1, [=](Fields& f, auto& a) {
        a.write_a = mode;
        f.in(a.d_y, {B, Q, V});
        f.in(a.tokens, {B, T, 3}, -1, V);
        f.out(a.d_a, {B, Q, T});
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
