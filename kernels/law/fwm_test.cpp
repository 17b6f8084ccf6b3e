// The fast weight memory against a form without a state: S = sum_j w_j key_j^T over the tokens (and the
// columns of the start) so far, its norm from the change that each token makes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm.h"

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::fwm_test {
namespace {

using Long = std::vector<long double>;

struct Shape {
  int B, T, H, K, V;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false;
  int C = 0;  ///< channels of the tokens whose values are ids; 0: dense values
  int queries() const { return Q ? Q : T; }
};

long double dot(const Long& x, const Long& y) {
  long double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// The state as a sum of w_j key_j^T.
struct Terms {
  std::vector<Long> w, key;
  long double square = 0;  ///< |S|^2

  Long read(const Long& q, int V) const {
    Long o(static_cast<std::size_t>(V), 0);
    for (std::size_t j = 0; j < w.size(); ++j) {
      const long double a = dot(key[j], q);
      for (std::size_t v = 0; v < o.size(); ++v) o[v] += a * w[j][v];
    }
    return o;
  }
};

/// Row n of a tensor [B,n,H,width] of sequence b and head h.
Long row(const Values& in, const std::string& name, const Shape& s, int b, int n, int count, int h,
         int width) {
  const double* from = in[name].data() + ((static_cast<std::ptrdiff_t>(b) * count + n) * s.H + h) * width;
  return Long(from, from + width);
}

/// The value of token t, dense or one-hot.
Long value(const Values& in, const Shape& s, int b, int t, int h) {
  if (s.C == 0) return row(in, "v", s, b, t, s.T, h, s.V);
  Long hot(static_cast<std::size_t>(s.V), 0);
  const int id = in.integer.at("tokens")[(b * s.T + t) * s.C + 1];
  if (id >= 0) hot[id] = 1;
  return hot;
}

/// Calls see(n, state after n tokens) for n = 0 .. T; norms, if any, gets |S'| where a state may be rescaled.
void walk(const Values& in, const Shape& s, int b, int h, auto&& see, Numbers* norms = nullptr) {
  Terms S;
  for (int c = 0; c < s.K && s.start; ++c) {
    Long column, unit(static_cast<std::size_t>(s.K), 0);
    for (int v = 0; v < s.V; ++v) column.push_back(in["start"][((b * s.H + h) * s.V + v) * s.K + c]);
    unit[c] = 1;
    S.square += dot(column, column);
    S.w.push_back(column), S.key.push_back(unit);
  }
  see(0, S);
  for (int t = 0; t < s.T; ++t) {
    const Long k = row(in, "k", s, b, t, s.T, h, s.K), bound = S.read(k, s.V);
    const long double beta = row(in, "beta", s, b, t, s.T, h, 1)[0];
    Long change = value(in, s, b, t, h);
    for (std::size_t v = 0; v < change.size(); ++v) change[v] = beta * (change[v] - bound[v]);
    S.square += 2 * dot(bound, change) + dot(change, change) * dot(k, k);
    S.w.push_back(change), S.key.push_back(k);
    const long double norm = std::sqrt(S.square);
    const bool ordinary = t > 0 || s.start;
    if (norms && ordinary) norms->push_back(static_cast<double>(norm));
    if (ordinary && norm > 1) {
      for (Long& w : S.w)
        for (long double& x : w) x /= norm;
      S.square = 1;
    }
    see(t + 1, S);
  }
}

Values oracle(const Values& in, const Shape& s) {
  Values out;
  const int Q = s.queries();
  out.real["o"].resize(static_cast<std::size_t>(s.B * Q * s.H * s.V));
  for (int b = 0; b < s.B; ++b) {
    for (int h = 0; h < s.H; ++h) {
      walk(in, s, b, h, [&](int n, const Terms& S) {
        for (int i = 0; i < Q; ++i) {
          const int seen = s.Q ? in.integer.at("position")[b * Q + i] : i + 1;
          if (seen != n) continue;
          const Long o = S.read(row(in, "q", s, b, i, Q, h, s.K), s.V);
          std::copy(o.begin(), o.end(), out.real["o"].begin() + ((b * Q + i) * s.H + h) * s.V);
        }
        for (int v = 0; v < s.V && s.end && n == s.T; ++v) {
          for (int c = 0; c < s.K; ++c) {
            long double sum = 0;
            for (std::size_t j = 0; j < S.w.size(); ++j) sum += S.w[j][v] * S.key[j][c];
            out.real["end"].push_back(static_cast<double>(sum));
          }
        }
      });
    }
  }
  return out;
}

/// `size` is the length of keys: norms stay below 1 for small ones and are cut for large ones. Norms may come
/// close to 1, where the cut has a kink that a difference quotient must not see.
OpCase make_with_kinks(const std::string& name, const Shape& s, double size) {
  OpCase op(name);
  op.input("q", {s.B, s.queries(), s.H, s.K}, normal());
  op.input("k", {s.B, s.T, s.H, s.K}, normal(size / std::sqrt(s.K)));
  if (s.C == 0)
    op.input("v", {s.B, s.T, s.H, s.V}, normal(1 / std::sqrt(s.V)));
  else
    op.integers("tokens", {s.B, s.T, s.C}, integer_in(-1, s.V - 1)).absent("v");
  op.input("beta", {s.B, s.T, s.H}, uniform(0.1, 1));
  if (s.start) op.input("start", {s.B, s.H, s.V, s.K}, normal(0.7 / std::sqrt(s.V * s.K)));
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V, s.K});
  call_planned<FwmRead>(op, [V = s.C == 0 ? 0 : s.V](auto& o) { o.values = V; });
  op.oracle([s](const Values& in, Values& out) { out = oracle(in, s); });
  return op.roundings(4.0 * s.T + s.K + s.V).condition(4).gradient_elements(40);
}

/// The same with norms away from 1.
OpCase make(const std::string& name, const Shape& s, double size) {
  OpCase op = make_with_kinks(name, s, size);
  op.edit("beta", [&op, s](int r, Numbers& beta) {
    Values in = op.inputs(r);
    for (int n = 0; n < s.B * s.H; ++n) {
      for (int tries = 0; tries < 200; ++tries) {
        Numbers norms;
        in.real["beta"] = beta;
        walk(
            in, s, n / s.H, n % s.H, [](int, const Terms&) {}, &norms);
        const auto near =
            std::find_if(norms.begin(), norms.end(), [](double norm) { return std::abs(norm - 1) < 0.03; });
        if (near == norms.end()) break;
        const auto last = near - norms.begin() + (s.start ? 0 : 1);
        for (std::ptrdiff_t t = 0; t <= last; ++t) beta[(n / s.H * s.T + t) * s.H + n % s.H] *= 0.93;
      }
    }
  });
  return op;
}

std::vector<OpCase> dense_cases() {
  return {
      make("BelowOne", {2, 6, 2, 5, 3}, 0.2), make("Cut", {3, 6, 1, 5, 3}, 2.2),
      make("Positions", {2, 7, 2, 4, 5, 9}, 1.8), make("StartAndEnd", {2, 5, 2, 4, 3, 0, true, true}, 2),
      make("StartAndPositions", {2, 5, 1, 3, 4, 6, true}, 2),
      make("End", {2, 5, 2, 3, 3, 0, false, true}, 0.4),
      make("OneToken", {3, 1, 2, 3, 2}, 3),  // above 1, and not rescaled
      make("OneTokenAfterStart", {3, 1, 1, 3, 2, 0, true, true}, 3), make("Ones", {2, 3, 1, 1, 1}, 2),
      make("OneSegment", {1, 16, 1, 6, 5, 0, false, true}, 1.5),
      make("ThreeSegments", {2, 35, 2, 7, 5, 4, true, true}, 2), make("WideKeys", {1, 5, 2, 70, 3}, 2),
      make("WideValues", {1, 5, 2, 3, 70, 3}, 2),
      // What CUDA does in registers: cut rows and columns, tokens around its 16 a stage and 4 or more a chunk.
      make("Registers", {1, 21, 1, 64, 64}, 2), make("RegistersPositions", {2, 21, 1, 20, 33, 5}, 1.5),
      make("RegistersStartAndEnd", {1, 37, 2, 33, 17, 0, true, true}, 2),
      make("RegistersManyQueries", {1, 19, 1, 12, 64, 30, true}, 1.5)};
}

INSTANTIATE_TEST_SUITE_P(FwmDense, OpCheck, ::testing::ValuesIn(dense_cases()), case_name);

/// Values that are ids, Q queries; C channels.
Shape with_ids(int B, int T, int Q, int K, int V, int C = 2, int H = 1) {
  return {.B = B, .T = T, .H = H, .K = K, .V = V, .Q = Q, .C = C};
}

std::vector<OpCase> id_cases() {
  // Norms stay below 1: a step that changes nothing after a cut would stay at the kink.
  OpCase gates = make("HardGates", with_ids(4, 7, 2, 4, 3), 0.3);
  gates.edit("beta", [](int, Numbers& beta) {
    for (std::size_t i = 0; i < beta.size(); ++i) beta[i] = i % 3 == 0 ? 0 : 1;
  });
  OpCase keys = make("HardKeys", with_ids(4, 8, 2, 4, 3), 0.3);
  keys.edit("k", [](int, Numbers& k) {
    for (std::size_t b = 0; b < 4; ++b) {
      for (std::size_t p = 0; p < 4; ++p) {
        k[(b * 8 + b) * 4 + p] = 0;  // a zero key; in the first sequence at the first step
        k[(b * 8 + 6) * 4 + p] = k[(b * 8 + 4) * 4 + p];
      }
    }
  });
  return {gates, keys, make("NormBelowOne", with_ids(4, 6, 2, 5, 3), 0.2),
          make("NormCut", with_ids(4, 6, 1, 5, 3), 2.2), make("ManyQueries", with_ids(3, 7, 5, 4, 5, 3), 1.8),
          make("TwoHeads", with_ids(3, 7, 2, 4, 5, 2, 2), 1.8),
          make("OneToken", with_ids(4, 1, 2, 3, 2), 3),  // above 1, and not rescaled
          make("TwoTokens", with_ids(4, 2, 2, 3, 2), 3), make("OneValue", with_ids(4, 5, 2, 3, 1), 2),
          make("OneDimension", with_ids(4, 5, 2, 1, 4), 2), make("Long", with_ids(2, 30, 3, 9, 11), 1.8),
          // One query and whole fours of columns: what CUDA does chunk by chunk in single precision.
          make("ChunkBelowOne", with_ids(3, 20, 1, 8, 5), 0.2), make("ChunkCut", with_ids(4, 37, 1, 8, 6), 2),
          make("ChunkLargeKeys", with_ids(3, 33, 1, 12, 21, 3), 6),
          make("ChunkFewValues", with_ids(3, 20, 1, 4, 2), 1.5)};
}

INSTANTIATE_TEST_SUITE_P(FwmIds, OpCheck, ::testing::ValuesIn(id_cases()), case_name);

/// Shapes that the CUDA forms care for: whole and cut tiles of values and columns, lengths around whole
/// chunks, states that grow so fast that a chunk has few tokens.
std::vector<OpCase> size_cases() {
  struct Size {
    int B, T, K, Q, V;
    double size = 1;
  };
  std::vector<OpCase> all;
  for (const auto& [B, T, K, Q, V, size] :
       std::vector<Size>{{1, 1, 1, 1, 1},           {2, 7, 5, 3, 3},         {1, 9, 130, 2, 50},
                         {1, 5, 300, 1, 9},         {1, 10, 100, 2, 301},    {1, 1, 128, 1, 600},
                         {1, 2, 128, 1, 600},       {1, 7, 128, 3, 601},     {2, 20, 64, 1, 21},
                         {2, 1, 4, 1, 1},           {3, 16, 8, 1, 2, 1.5},   {5, 40, 12, 1, 17, 0.1},
                         {3, 49, 64, 1, 100, 2},    {2, 33, 60, 1, 113, 4},  {2, 50, 128, 1, 112, 2},
                         {1, 37, 100, 1, 201, 0.2}, {1, 48, 68, 1, 256, 2},  {2, 49, 64, 1, 100, 12},
                         {2, 50, 128, 1, 112, 60},  {2, 33, 64, 1, 30, 300}, {1, 150, 64, 1, 180, 2},
                         {1, 35, 128, 1, 240, 2},   {1, 35, 64, 1, 256, 2}})
    all.push_back(
        make_with_kinks(fmt::format("B{}_T{}_K{}_Q{}_V{}_{}", B, T, K, Q, V, static_cast<int>(10 * size)),
                        with_ids(B, T, Q, K, V), size)
            .condition(16));
  return all;
}

class FwmOnCuda : public CudaTest, public ::testing::WithParamInterface<OpCase> {};
TEST_P(FwmOnCuda, IsThatOfTheCpu) { GetParam().check_cuda(); }
INSTANTIATE_TEST_SUITE_P(Sizes, FwmOnCuda, ::testing::ValuesIn(size_cases()), case_name);

/// The first token of equal keys and values, length by length: cut only after a start.
TEST(FwmTest, TheFirstTokenIsCutOnlyAfterAStart) {
  for (bool start : {false, true}) {
    OpCase op = make(start ? "Start" : "NoStart", {1, 1, 1, 1, 1, 0, start}, 1);
    const auto all = [&](const std::string& name, double x) {
      op.edit(name, [x](int, Numbers& numbers) { numbers.assign(numbers.size(), x); });
    };
    all("q", 1), all("k", 1), all("v", 3), all("beta", 1);
    if (start) all("start", 0);
    TensorSet<double> set;
    op.fill(set, {0});
    op.run_forward({}, set);
    EXPECT_DOUBLE_EQ(*set.real("o").at(0), start ? 1 : 3);
  }
}

// q, k and v the same variable: the first overwrites the gradient, the others add.
TEST(FwmTest, OneVariableInThreeFields) {
  for (int Q : {0, 6}) {
    const OpCase op = make("Thrice", {2, 6, 2, 3, 3, Q}, 2);
    TensorSet<double> three, one;
    op.fill(three, {0}), op.fill(one, {0});
    for (const char* name : {"q", "v"})
      std::copy_n(three.real("k").at(0), three.real("k").size(), three.real(name).at(0));
    op.run_forward({}, three), op.run_backward({}, three);
    auto tied = planned<FwmRead, double>(one, [](auto&) {});
    tied.q = tied.v = tied.k;
    tied.k.write = tied.v.write = Write::add;
    forward({}, tied), backward({}, tied);
    for (std::int64_t i = 0; i < three.real("d_k").size(); ++i)
      three.real("d_k").at(0)[i] += three.real("d_q").at(0)[i] + three.real("d_v").at(0)[i];
    EXPECT_TRUE(close("d_k", one.real("d_k"), three.real("d_k"), 1e-13));
    EXPECT_TRUE(close("d_beta", one.real("d_beta"), three.real("d_beta"), 1e-13));
  }
}

}  // namespace
}  // namespace crosstalk::checks::fwm_test
