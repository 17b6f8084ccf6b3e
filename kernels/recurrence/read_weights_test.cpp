// Read weights against the state itself, formed write after write with one-hot values.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/read_weights.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

using Wide = std::vector<long double>;

struct Shape {
  int B = 2, T = 5, Q = 2, H = 2, K = 3, N = 1;
  int channels = 0;  ///< of the decay; 0: none
  Erase erase = Erase::none;
  bool decayed = true, before = false, positions = true, write_gain = true, erase_gain = true;
};

/// a_m = row m of S q, where row m of the state holds what value onehot(m) is bound to.
Numbers weights(const Shape& s, const Values& in) {
  Numbers a;
  const int M = s.T * s.N;
  const auto entry = [&](const std::string& name, int b, int n, int h, int count, int width,
                         int j) -> long double {
    return in[name][static_cast<std::size_t>((((b * count) + n) * s.H + h) * width + j)];
  };
  for (int b = 0; b < s.B; ++b) {
    for (int h = 0; h < s.H; ++h) {
      std::vector<Wide> after{Wide(static_cast<std::size_t>(M * s.K), 0)};  // by tokens
      for (int t = 0; t < s.T; ++t) {
        Wide S = after.back();
        for (int n = 0; n < s.N; ++n) {
          const int m = t * s.N + n;
          const Wide old = S;
          for (int i = 0; i < M && n == 0 && s.channels > 0; ++i) {
            for (int j = 0; j < s.K; ++j)
              S[static_cast<std::size_t>(i * s.K + j)] *=
                  std::exp(entry("log_decay", b, t, h, s.T, s.channels, s.channels == 1 ? 0 : j));
          }
          const long double w = s.write_gain ? entry("write_gain", b, m, h, M, 1, 0) : 1;
          const bool delta = s.erase == Erase::delta;
          const bool gain = s.erase_gain && s.erase != Erase::none;
          const long double e = delta ? w : gain ? entry("erase_gain", b, m, h, M, 1, 0) : 1;
          const auto x = [&](int j) { return entry(delta ? "k" : "erase_read", b, m, h, M, s.K, j); };
          const auto y = [&](int j) {
            return entry(s.erase == Erase::free ? "erase_write" : "k", b, m, h, M, s.K, j);
          };
          const Wide seen = s.decayed ? S : old;
          for (int i = 0; i < M; ++i) {
            long double bound = 0;
            for (int j = 0; j < s.K && s.erase != Erase::none; ++j)
              bound += seen[static_cast<std::size_t>(i * s.K + j)] * x(j);
            for (int j = 0; j < s.K; ++j) {
              long double& cell = S[static_cast<std::size_t>(i * s.K + j)];
              if (s.erase != Erase::none) cell -= e * bound * y(j);
              if (i == m) cell += w * entry("k", b, m, h, M, s.K, j);
            }
          }
        }
        after.push_back(S);
      }
      for (int q = 0; q < s.Q; ++q) {
        const int n = s.positions ? in.integer.at("position")[static_cast<std::size_t>(b * s.Q + q)]
                      : s.before  ? q
                                  : q + 1;
        for (int m = 0; m < M; ++m) {
          long double sum = 0;
          for (int j = 0; j < s.K; ++j)
            sum += after[static_cast<std::size_t>(n)][static_cast<std::size_t>(m * s.K + j)] *
                   entry("q", b, q, h, s.Q, s.K, j);
          a.push_back(static_cast<double>(sum));
        }
      }
    }
  }
  return a;
}

OpCase make(const std::string& name, const Shape& s, double size = 0.6, const Fill& gate = uniform(-1.5, 0)) {
  OpCase op(name);
  const int M = s.T * s.N;
  op.input("q", {s.B, s.Q, s.H, s.K}, normal()).input("k", {s.B, M, s.H, s.K}, normal(size));
  const auto optional = [&](bool present, const std::string& field, const std::vector<int>& dims,
                            const Fill& fill) {
    if (present) {
      op.input(field, dims, fill);
    } else {
      op.absent(field);
    }
  };
  const bool tied = s.erase == Erase::tied, free = s.erase == Erase::free;
  optional(s.write_gain, "write_gain", {s.B, M, s.H}, uniform(-0.5, 1.5));
  optional(s.channels > 0, "log_decay", {s.B, s.T, s.H, s.channels}, gate);
  optional(tied || free, "erase_read", {s.B, M, s.H, s.K}, normal(size));
  optional(free, "erase_write", {s.B, M, s.H, s.K}, normal(size));
  optional((tied || free) && s.erase_gain, "erase_gain", {s.B, M, s.H}, uniform(-0.5, 1.5));
  if (s.positions) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("a", {s.B, s.H, s.Q, M}).workspace("history", {s.B, s.H, M, s.K});
  call<ReadWeights>(
      op, [s](auto& o) { o.erase = s.erase, o.writes = s.N, o.decayed = s.decayed, o.before = s.before; });
  op.oracle([s](const Values& in) {
    Values out;
    out.real["a"] = weights(s, in);
    return out;
  });
  return op.roundings(s.K + 4 * M).condition(2).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto with = [](Erase erase, int channels, bool decayed) {
    Shape s;
    s.erase = erase, s.channels = channels, s.decayed = decayed;
    return s;
  };
  for (const auto& [word, erase] : {std::pair("Plain", Erase::none), std::pair("Delta", Erase::delta),
                                    std::pair("Tied", Erase::tied), std::pair("Free", Erase::free)}) {
    for (int channels : {0, 1, 3}) {
      const std::string name = word + std::string(channels == 0 ? "" : channels == 1 ? "Scalar" : "Channel");
      all.push_back(make(name, with(erase, channels, true)));
      if (erase != Erase::none && channels > 0)
        all.push_back(make(name + "Undecayed", with(erase, channels, false)));
    }
  }
  Shape s = with(Erase::tied, 3, true);
  s.N = 2;
  all.push_back(make("TwoWrites", s));
  s = with(Erase::free, 1, false), s.N = 3, s.T = 3, s.Q = 1;
  all.push_back(make("ThreeWritesUndecayed", s));
  s = with(Erase::delta, 1, true), s.positions = false, s.Q = s.T;
  all.push_back(make("EveryToken", s));
  s.before = true;
  all.push_back(make("EveryTokenBefore", s));
  s = with(Erase::delta, 0, true), s.write_gain = false;
  all.push_back(make("DeltaNoGain", s, 0.4));
  s = with(Erase::free, 0, true), s.erase_gain = s.write_gain = false;
  all.push_back(make("FreeNoGains", s, 0.4));
  s = with(Erase::delta, 1, true), s.B = s.T = s.Q = s.H = s.K = 1;
  all.push_back(make("Ones", s));
  s = with(Erase::free, 1, true), s.H = 1, s.K = 1, s.T = 4;
  all.push_back(make("OneDimension", s));
  s = with(Erase::delta, 37, false), s.B = 1, s.H = 3, s.K = 37, s.T = 9, s.Q = 3;
  all.push_back(make("Wide", s, 0.2));
  s = with(Erase::tied, 1, true), s.B = 1, s.H = 1, s.K = 300, s.T = 5, s.Q = 2;
  all.push_back(make("Wider", s, 0.06));
  s = with(Erase::free, 77, true), s.B = 1, s.H = 1, s.K = 77, s.T = 37, s.Q = 2;
  all.push_back(make("Long", s, 0.1, uniform(-0.2, 0)));
  s = with(Erase::delta, 1, true), s.B = 1, s.H = 1, s.K = 1030, s.T = 3, s.Q = 1;
  all.push_back(make("VeryWide", s, 0.03).gradient_elements(5));
  const auto gates = [](RandomStream& random, int r, std::int64_t i) {
    const double choice[] = {0, -20, -60, -1};
    return i % 5 == 0 ? -random.uniform() : choice[(i + r) % 4];
  };
  for (bool decayed : {true, false}) {
    s = with(Erase::delta, 3, decayed), s.T = 7;
    all.push_back(make(decayed ? "Resets" : "ResetsUndecayed", s, 0.6, gates));
    s.channels = 1;
    all.push_back(make(decayed ? "ScalarResets" : "ScalarResetsUndecayed", s, 0.6, gates));
  }
  s = with(Erase::delta, 1, true);
  all.push_back(make("ZeroKeys", s).edit("k", [](int, Numbers& k) { std::fill_n(k.begin() + 6, 12, 0); }));
  return all;
}

INSTANTIATE_TEST_SUITE_P(ReadWeights, OpCheck, ::testing::ValuesIn(cases()), case_name);

// q and k the same variable: the first overwrites the gradient, the second adds.
TEST(ReadWeightsTest, OneVariableInTwoFields) {
  Shape s = {2, 5, 5, 2, 3, 1, 1, Erase::delta, true, false, false, true, true};
  const OpCase op = make("Twice", s);
  TensorSet<double> two, one;
  op.fill(two, {0}), op.fill(one, {0});
  std::copy_n(two.real("k").at(0), two.real("k").size(), two.real("q").at(0));
  op.run_forward({}, two), op.run_backward({}, two);
  auto tied = bound<ReadWeights, double>(one, [](auto& o) { o.erase = Erase::delta; });
  tied.q = tied.k;
  tied.k.write = Write::add;
  forward({}, tied), backward({}, tied);
  for (std::int64_t i = 0; i < two.real("d_k").size(); ++i)
    two.real("d_k").at(0)[i] += two.real("d_q").at(0)[i];
  EXPECT_TRUE(close("d_k", one.real("d_k"), two.real("d_k"), 1e-13));
  EXPECT_TRUE(close("d_log_decay", one.real("d_log_decay"), two.real("d_log_decay"), 1e-13));
}

}  // namespace
}  // namespace crosstalk::checks
