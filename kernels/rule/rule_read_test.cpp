// RuleRead with a program written by hand: a delta rule that writes tanh of its error, S += beta tanh(v - S k) k^T. Programs
// that laws make are tested where they are made (models/rules).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rule/rule_read.h"

#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int B, T, H, K, V;
  int Q = 0;  ///< 0: no positions
  bool end = false;
  int queries() const { return Q ? Q : T; }
};

/// Adds operations to a part.
struct Writer {
  RuleProgram& program;
  RuleProgram::Part part(const std::vector<RuleOperation>& operations) {
    const RuleProgram::Part made{static_cast<int>(program.operations.size()),
                                 static_cast<int>(operations.size())};
    program.operations.insert(program.operations.end(), operations.begin(), operations.end());
    return made;
  }
};

RuleOperation operation(RuleCode code, int rows, int columns, int inner, int a, int b, int c, int y,
                        int flags = 0) {
  RuleOperation op;
  op.code = code, op.rows = rows, op.columns = columns, op.inner = inner;
  op.a = a, op.b = b, op.c = c, op.y = y, op.flags = static_cast<std::uint16_t>(flags);
  if (code == RuleCode::map) op.map = static_cast<int>(MapKind::tanh);
  return op;
}

std::shared_ptr<const RuleProgram> tanh_delta(int K, int V) {
  using enum RuleCode;
  constexpr int kNumberA = RuleOperation::kNumberA, kTransposedA = RuleOperation::kTransposedA;
  const auto program = std::make_shared<RuleProgram>();
  int next = 0;
  const auto take = [&](int n) {
    const int at = n < 4 ? next : (next + 3) / 4 * 4;
    next = at + n;
    return at;
  };
  const int S = take(V * K), zero = take(1), one = take(1);
  const int k = take(K), v = take(V), beta = take(1), q = take(K), o = take(V);
  const int h = take(V), w = take(V);
  program->forward_numbers = next;
  const int G = take(V * K), d_k = take(K), d_v = take(V), d_beta = take(1), d_q = take(K), d_o = take(V);
  const int z = take(V), x = take(K);
  program->backward_numbers = next;
  program->states = {{V, K, S}}, program->size = (V * K + 3) / 4 * 4;
  program->inputs = {{RulePer::token, K, k, d_k},
                     {RulePer::token, V, v, d_v},
                     {RulePer::token, 1, beta, d_beta},
                     {RulePer::query, K, q, d_q}};
  program->output = o, program->outputs = V, program->output_gradient = d_o;
  program->state_gradient = G, program->gradients = d_k, program->gradients_end = d_q + K;
  program->largest = V * K;
  Writer writer{*program};
  program->constants = {{zero, 0}, {one, 1}};
  program->start = program->start_again = writer.part({operation(fill, V, K, 1, zero, -1, -1, S)});
  const std::vector<RuleOperation> error = {
      operation(product, V, 1, K, S, k, -1, h), operation(sub, V, 1, 1, v, h, -1, h),
      operation(map, V, 1, 1, h, -1, -1, h), operation(mul, V, 1, 1, beta, h, -1, w, kNumberA)};
  std::vector<RuleOperation> step = error, back = error;
  step.push_back(operation(add_outer, V, K, 1, w, k, S, S));
  program->step = program->step_again = writer.part(step);
  program->read = writer.part({operation(product, V, 1, K, S, q, -1, o)});
  for (const RuleOperation& op :
       {operation(product, V, 1, K, G, k, -1, z), operation(sum, 1, 1, V, h, z, -1, d_beta),
        operation(product, K, 1, V, G, w, -1, x, kTransposedA), operation(mul, V, 1, 1, h, h, -1, h),
        operation(sub, V, 1, 1, one, h, -1, h, kNumberA), operation(mul, V, 1, 1, z, h, -1, h),
        operation(mul, V, 1, 1, beta, h, -1, d_v, kNumberA),
        operation(product, K, 1, V, S, d_v, -1, d_k, kTransposedA), operation(sub, K, 1, 1, x, d_k, -1, d_k),
        operation(add_outer, V, K, 1, d_v, k, G, G, RuleOperation::kMinus)})
    back.push_back(op);
  program->step_back = writer.part(back);
  program->read_back = writer.part({operation(product, K, 1, V, S, d_o, -1, d_q, kTransposedA),
                                    operation(add_outer, V, K, 1, d_o, q, G, G)});
  return program;
}

Values oracle(const Values& in, const Shape& s) {
  Values out;
  const int Q = s.queries();
  out.real["o"].resize(static_cast<std::size_t>(s.B * Q * s.H * s.V));
  if (s.end) out.real["end0"].resize(static_cast<std::size_t>(s.B * s.H * s.V * s.K));
  const auto at = [&](const char* name, int b, int t, int n, int h, int width, int i) {
    return static_cast<long double>(in[name][((b * n + t) * s.H + h) * width + i]);
  };
  for (int b = 0; b < s.B; ++b) {
    for (int h = 0; h < s.H; ++h) {
      std::vector<std::vector<long double>> S(static_cast<std::size_t>(s.V),
                                              std::vector<long double>(static_cast<std::size_t>(s.K), 0));
      for (int t = 0; t <= s.T; ++t) {
        for (int i = 0; i < Q; ++i) {
          if ((s.Q ? in.integer.at("position")[b * Q + i] : i + 1) != t) continue;
          for (int a = 0; a < s.V; ++a) {
            long double sum = 0;
            for (int j = 0; j < s.K; ++j) sum += S[a][j] * at("x3", b, i, Q, h, s.K, j);
            out.real["o"][((b * Q + i) * s.H + h) * s.V + a] = static_cast<double>(sum);
          }
        }
        if (t == s.T) break;
        for (int a = 0; a < s.V; ++a) {
          auto& row = S[a];
          long double held = 0;
          for (int j = 0; j < s.K; ++j) held += row[j] * at("x0", b, t, s.T, h, s.K, j);
          const long double w =
              at("x2", b, t, s.T, h, 1, 0) * std::tanh(at("x1", b, t, s.T, h, s.V, a) - held);
          for (int j = 0; j < s.K; ++j) row[j] += w * at("x0", b, t, s.T, h, s.K, j);
        }
      }
      for (int a = 0; a < s.V && s.end; ++a)
        for (int j = 0; j < s.K; ++j)
          out.real["end0"][((b * s.H + h) * s.V + a) * s.K + j] = static_cast<double>(S[a][j]);
    }
  }
  return out;
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("x0", {s.B, s.T, s.H, s.K}, normal(1 / std::sqrt(s.K)));
  op.input("x1", {s.B, s.T, s.H, s.V}, normal());
  op.input("x2", {s.B, s.T, s.H, 1}, uniform(0.1, 1));
  op.input("x3", {s.B, s.queries(), s.H, s.K}, normal());
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end0", {s.B, s.H, s.V, s.K});
  call_planned<RuleRead>(op, [s, program = tanh_delta(s.K, s.V)](auto& o) {
    o.program = program, o.batch = s.B, o.tokens = s.T, o.queries = s.queries(), o.heads = s.H;
  });
  op.oracle([s](const Values& in, Values& out) { out = oracle(in, s); });
  return op.roundings(4.0 * s.T + s.K + s.V).condition(4).gradient_elements(40);
}

std::vector<OpCase> cases() {
  return {make("OneToken", {2, 1, 1, 3, 2}),
          make("Ones", {2, 3, 1, 1, 1}),
          make("Tokens", {2, 6, 2, 5, 3}),
          make("End", {2, 5, 2, 4, 3, 0, true}),
          make("Positions", {2, 7, 2, 4, 5, 9, true}),
          make("Segments", {1, 35, 2, 7, 5, 4}),
          make("OneWarp", {2, 6, 1, 32, 32}),
          make("FourWarps", {1, 6, 2, 33, 40, 0, true}),
          make("EightWarps", {1, 5, 1, 70, 65, 3})};
}
INSTANTIATE_TEST_SUITE_P(RuleRead, OpCheck, ::testing::ValuesIn(cases()), case_name);
/// States that no block's shared memory holds.
INSTANTIATE_TEST_SUITE_P(RuleReadLarge, CudaOpCheck,
                         ::testing::Values(make("Global", {1, 4, 1, 180, 200}),
                                           make("Wide", {1, 4, 1, 3, 700})),
                         case_name);

}  // namespace
}  // namespace crosstalk::checks
