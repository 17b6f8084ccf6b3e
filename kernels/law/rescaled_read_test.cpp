// The rescaled read against a form without a state: S = sum_j w_j key_j^T over the tokens (and the columns of
// the start) so far, its norm from the change that each token makes.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/rescaled_read.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

using Long = std::vector<long double>;

struct Shape {
  int B, T, H, K, V;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false;
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

/// Calls see(n, state after n tokens) for n = 0 .. T; norms, if any, gets |S'| where a state may be rescaled.
template <class See>
void walk(const Values& in, const Shape& s, int b, int h, See&& see, Numbers* norms = nullptr) {
  Terms S;
  for (int c = 0; c < s.K && s.start; ++c) {
    Long column, unit(static_cast<std::size_t>(s.K), 0);
    for (int v = 0; v < s.V; ++v)
      column.push_back(in["start"][static_cast<std::size_t>(((b * s.H + h) * s.V + v) * s.K + c)]);
    unit[static_cast<std::size_t>(c)] = 1;
    S.square += dot(column, column);
    S.w.push_back(column), S.key.push_back(unit);
  }
  see(0, S);
  for (int t = 0; t < s.T; ++t) {
    const Long k = row(in, "k", s, b, t, s.T, h, s.K), bound = S.read(k, s.V);
    const long double beta = row(in, "beta", s, b, t, s.T, h, 1)[0];
    Long change = row(in, "v", s, b, t, s.T, h, s.V);
    for (std::size_t v = 0; v < change.size(); ++v) change[v] = beta * (change[v] - bound[v]);
    S.square += 2 * dot(bound, change) + dot(change, change) * dot(k, k);
    S.w.push_back(change), S.key.push_back(k);
    const long double norm = std::sqrt(S.square);
    const bool ordinary = t > 0 || s.start;
    if (norms && ordinary) norms->push_back(static_cast<double>(norm));
    if (ordinary && norm > 1) {
      for (Long& w : S.w) {
        for (long double& x : w) x /= norm;
      }
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
          const int seen = s.Q ? in.integer.at("position")[static_cast<std::size_t>(b * Q + i)] : i + 1;
          if (seen != n) continue;
          const Long o = S.read(row(in, "q", s, b, i, Q, h, s.K), s.V);
          std::copy(o.begin(), o.end(), out.real["o"].begin() + ((b * Q + i) * s.H + h) * s.V);
        }
        for (int v = 0; v < s.V && s.end && n == s.T; ++v) {
          for (int c = 0; c < s.K; ++c) {
            long double sum = 0;
            for (std::size_t j = 0; j < S.w.size(); ++j)
              sum += S.w[j][static_cast<std::size_t>(v)] * S.key[j][static_cast<std::size_t>(c)];
            out.real["end"].push_back(static_cast<double>(sum));
          }
        }
      });
    }
  }
  return out;
}

/// `size` is the length of keys: norms stay below 1 for small ones and are cut for large ones.
OpCase make(const std::string& name, const Shape& s, double size) {
  OpCase op(name);
  op.input("q", {s.B, s.queries(), s.H, s.K}, normal());
  op.input("k", {s.B, s.T, s.H, s.K}, normal(size / std::sqrt(s.K)));
  op.input("v", {s.B, s.T, s.H, s.V}, normal(1 / std::sqrt(s.V)));
  op.input("beta", {s.B, s.T, s.H}, uniform(0.1, 1));
  if (s.start) op.input("start", {s.B, s.H, s.V, s.K}, normal(0.7 / std::sqrt(s.V * s.K)));
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V, s.K});
  op.workspace("states", {s.B, s.H, rescaled_segments(s.T), s.V * s.K});
  op.workspace("work", {s.B, s.H, (std::min(s.T, kRescaledSegment) + 2) * s.V * s.K + 2 * s.V});
  call<RescaledRead>(op, [](auto&) {});
  op.oracle([s](const Values& in) { return oracle(in, s); });
  // Norms away from 1, where the cut has a kink that a difference quotient must not see.
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
        for (std::ptrdiff_t t = 0; t <= last; ++t)
          beta[static_cast<std::size_t>((n / s.H * s.T + t) * s.H + n % s.H)] *= 0.93;
      }
    }
  });
  return op.roundings(4.0 * s.T + s.K + s.V).condition(4).gradient_elements(40);
}

std::vector<OpCase> cases() {
  return {make("BelowOne", {2, 6, 2, 5, 3}, 0.2),
          make("Cut", {3, 6, 1, 5, 3}, 2.2),
          make("Positions", {2, 7, 2, 4, 5, 9}, 1.8),
          make("StartAndEnd", {2, 5, 2, 4, 3, 0, true, true}, 2),
          make("StartAndPositions", {2, 5, 1, 3, 4, 6, true}, 2),
          make("End", {2, 5, 2, 3, 3, 0, false, true}, 0.4),
          make("OneToken", {3, 1, 2, 3, 2}, 3),  // above 1, and not rescaled
          make("OneTokenAfterStart", {3, 1, 1, 3, 2, 0, true, true}, 3),
          make("Ones", {2, 3, 1, 1, 1}, 2),
          make("OneSegment", {1, 16, 1, 6, 5, 0, false, true}, 1.5),
          make("ThreeSegments", {2, 35, 2, 7, 5, 4, true, true}, 2),
          make("WideKeys", {1, 5, 2, 70, 3}, 2),
          make("WideValues", {1, 5, 2, 3, 70, 3}, 2)};
}

INSTANTIATE_TEST_SUITE_P(RescaledRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// The first token of equal keys and values, length by length: cut only after a start.
TEST(RescaledReadTest, TheFirstTokenIsCutOnlyAfterAStart) {
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
TEST(RescaledReadTest, OneVariableInThreeFields) {
  for (int Q : {0, 6}) {
    const OpCase op = make("Thrice", {2, 6, 2, 3, 3, Q}, 2);
    TensorSet<double> three, one;
    op.fill(three, {0}), op.fill(one, {0});
    for (const char* name : {"q", "v"})
      std::copy_n(three.real("k").at(0), three.real("k").size(), three.real(name).at(0));
    op.run_forward({}, three), op.run_backward({}, three);
    auto tied = bound<RescaledRead, double>(one, [](auto&) {});
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
}  // namespace crosstalk::checks
