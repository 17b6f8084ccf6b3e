// The ridge read: gradients, replicas and a GPU. What it reads is held by the law of mesa.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/ridge_read.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::ridge_read_test {
namespace {

struct Shape {
  int B, T, H, K, V;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false, gates = true;
  int queries() const { return Q ? Q : T; }
};

OpCase make(const std::string& name, const Shape& s, int iterations = 30) {
  OpCase op(name);
  op.input("q", {s.B, s.queries(), s.H, s.K}, normal());
  op.input("k", {s.B, s.T, s.H, s.K}, normal(1 / std::sqrt(s.K)));
  op.input("v", {s.B, s.T, s.H, s.V}, normal());
  if (s.gates) {
    op.input("gain", {s.B, s.T, s.H, 1}, uniform(0.1, 1));
    op.input("log_decay", {s.B, s.T, s.H, 1}, uniform(-0.7, 0));
  } else {
    op.absent("gain").absent("log_decay");
  }
  op.input("ridge", {s.B, 1, s.H, s.K}, uniform(0.4, 1.4));
  if (s.start) {
    op.input("start", {s.B, s.H, s.V, s.K}, normal(0.5));
    op.parameter("start_keys", {s.B, s.H, s.K, s.K}, normal(0.5));  // symmetric: no differences one by one
    op.edit("start_keys", [s](int, Numbers& all) {
      for (int n = 0; n < s.B * s.H; ++n) {  // X X^T
        const Numbers x(all.begin() + n * s.K * s.K, all.begin() + (n + 1) * s.K * s.K);
        for (int i = 0; i < s.K * s.K; ++i) {
          double sum = 0;
          for (int j = 0; j < s.K; ++j) sum += x[i / s.K * s.K + j] * x[i % s.K * s.K + j];
          all[n * s.K * s.K + i] = sum;
        }
      }
    });
  } else {
    op.absent("start").absent("start_keys");
  }
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V, s.K}).output("end_keys", {s.B, s.H, s.K, s.K});
  call_planned<RidgeRead>(op, [iterations](auto& o) { o.iterations = iterations; });
  return op.roundings(4.0 * s.T + 8 * s.K + s.V).condition(8).gradient_elements(40);
}

std::vector<OpCase> cases() {
  return {make("Tokens", {2, 6, 2, 5, 3}),
          make("Converged", {1, 40, 1, 32, 5, 0, true, true}, 100).gradient_elements(8).heavy(),
          make("NoGates", {2, 6, 1, 4, 3, 0, false, false, false}),
          make("Positions", {2, 7, 2, 4, 5, 9}),
          make("StartAndEnd", {2, 5, 2, 4, 3, 0, true, true}),
          make("StartAndPositions", {2, 5, 1, 3, 4, 6, true}),
          make("OneToken", {3, 1, 2, 3, 2}),
          make("Ones", {2, 3, 1, 1, 1}, 2),
          make("Long", {1, 37, 1, 6, 5, 4, true, true}),
          make("WideKeys", {1, 5, 1, 40, 3, 2}, 60),
          make("WideValues", {1, 5, 2, 3, 70, 3})};
}

INSTANTIATE_TEST_SUITE_P(RidgeRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// Sizes at which the form in chunks cuts rows, groups and chunks of tokens.
std::vector<OpCase> sizes() {
  return {make("Chunks", {2, 83, 2, 33, 40}),
          make("ChunksAndPositions", {2, 83, 2, 33, 40, 90}).heavy(),
          make("Whole", {1, 70, 2, 64, 64}),
          make("WholeStartAndEnd", {2, 70, 1, 32, 32, 0, true, true}, 100),
          make("SmallWhole", {2, 150, 2, 32, 32}).heavy(),
          make("MoreValues", {1, 34, 1, 20, 100, 0, false, true}),
          make("FewQueries", {3, 70, 2, 64, 16, 2}),
          make("KeysOfABlock", {2, 83, 2, 65, 40, 90}).heavy(),
          make("WholeBlock", {1, 70, 2, 128, 128}).heavy(),
          make("BlockStartAndEnd", {2, 40, 1, 100, 32, 0, true, true}, 150).heavy(),
          make("TooManyKeys", {1, 20, 1, 129, 5}).heavy()};
}
INSTANTIATE_TEST_SUITE_P(RidgeRead, CudaOpCheck, ::testing::ValuesIn(sizes()), case_name);

// A converged solution stays: more iterations change nothing, and a query of zeros reads zeros.
TEST(RidgeReadTest, IterationsBeyondTheLastStepOfConjugateGradientsChangeNothing) {
  const OpCase few = make("Same", {1, 6, 1, 4, 3}, 8), many = make("Same", {1, 6, 1, 4, 3}, 500);
  TensorSet<double> a, b;
  few.fill(a, {0}), many.fill(b, {0});
  for (auto* set : {&a, &b}) std::fill_n(set->real("q").at(0), 4, 0.0);
  few.run_forward({}, a), many.run_forward({}, b);
  EXPECT_TRUE(close("o", b.real("o"), a.real("o"), 1e-13));
  for (int j = 0; j < 3; ++j) EXPECT_EQ(b.real("o").at(0)[j], 0);
}

}  // namespace
}  // namespace crosstalk::checks::ridge_read_test
