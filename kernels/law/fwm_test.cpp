// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/fwm.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

struct Shape {
  int B, T, Q, P, V, C;
};

/// S_0 .. S_T of sequence b, [V,P] each, in long double with dense one-hot values; and |S'| of each step.
std::vector<std::vector<long double>> states(const Values& in, int b, Shape s, Numbers* norms = nullptr) {
  std::vector<std::vector<long double>> all{std::vector<long double>(static_cast<std::size_t>(s.V * s.P), 0)};
  for (int t = 0; t < s.T; ++t) {
    const double* k = in["k"].data() + (b * s.T + t) * s.P;
    const double beta = in["beta"][static_cast<std::size_t>(b * s.T + t)];
    const int id = in.integer.at("tokens")[static_cast<std::size_t>((b * s.T + t) * s.C + 1)];
    auto S = all.back();
    long double square = 0;
    for (int v = 0; v < s.V; ++v) {
      long double* row = S.data() + v * s.P;
      long double bound = 0;
      for (int p = 0; p < s.P; ++p) bound += row[p] * k[p];
      for (int p = 0; p < s.P; ++p) {
        row[p] += beta * ((v == id ? 1 : 0) - bound) * k[p];
        square += row[p] * row[p];
      }
    }
    const long double norm = std::sqrt(square);
    if (norms) norms->push_back(static_cast<double>(norm));
    if (t > 0 && norm > 1) {  // relu(norm - 1) + 1 = norm; the first step is not rescaled
      for (long double& x : S) x /= norm;
    }
    all.push_back(std::move(S));
  }
  return all;
}

Values oracle(const Values& in, Shape s) {
  Values out;
  for (int b = 0; b < s.B; ++b) {
    const auto S = states(in, b, s);
    for (int j = 0; j < s.Q; ++j) {
      const auto& seen =
          S[static_cast<std::size_t>(in.integer.at("position")[static_cast<std::size_t>(b * s.Q + j)])];
      const double* q = in["q"].data() + (b * s.Q + j) * s.P;
      for (int v = 0; v < s.V; ++v) {
        long double y = 0;
        for (int p = 0; p < s.P; ++p) y += seen[static_cast<std::size_t>(v * s.P + p)] * q[p];
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
  }
  return out;
}

/// `size` is the scale of keys: the states' norms stay below 1 for small ones and are cut for large ones.
OpCase make(const std::string& name, Shape s, double size) {
  OpCase op(name);
  op.input("k", {s.B, s.T, s.P}, normal(size / std::sqrt(s.P))).input("q", {s.B, s.Q, s.P}, normal());
  op.input("beta", {s.B, s.T}, uniform(0.1, 1));
  op.integers("tokens", {s.B, s.T, s.C}, integer_in(-1, s.V - 1))
      .integers("position", {s.B, s.Q}, positions(s.T));
  op.output("y", {s.B, s.Q, s.V})
      .workspace("checkpoints", {s.B,
                                 std::max(fwm_states<float>(Device::cuda, s.T, s.Q, s.P, s.V),
                                          fwm_states<double>(Device::cuda, s.T, s.Q, s.P, s.V)),
                                 s.V * s.P});
  op.workspace("kept", {s.B, s.T, fwm_kept<float>(Device::cuda, s.Q, s.P, s.V)});
  op.workspace("workspace", {s.B, fwm_workspace<double>(Device::cuda, s.Q, s.P, s.V), s.V * s.P});
  call<FwmRead>(op, [](auto&) {});
  op.oracle([s](const Values& in) { return oracle(in, s); });
  return op.roundings(4.0 * s.T + s.P + s.V).condition(4);
}

/// Moves norms away from 1, where the cut has a kink that a difference quotient must not see.
OpCase off_kink(OpCase op, Shape s) {
  return op.edit("beta", [&, s](int r, Numbers& beta) {
    Values in = op.inputs(r);
    for (int b = 0; b < s.B; ++b) {
      for (int t = 1; t < s.T; ++t) {
        Numbers norms;
        in.real["beta"] = beta;
        states(in, b, s, &norms);
        if (std::abs(norms[static_cast<std::size_t>(t)] - 1) > 0.06) continue;
        for (int i = 0; i <= t; ++i) beta[static_cast<std::size_t>(b * s.T + i)] *= 0.93;
        t = 0;  // from the start: earlier norms have moved too
      }
    }
  });
}

std::vector<OpCase> cases() {
  // Norms stay below 1: a step that changes nothing after a cut would stay at the kink.
  OpCase gates = make("HardGates", {4, 7, 2, 4, 3, 2}, 0.3);
  gates.edit("beta", [](int, Numbers& beta) {
    for (std::size_t i = 0; i < beta.size(); ++i) beta[i] = i % 3 == 0 ? 0 : 1;
  });
  OpCase keys = make("HardKeys", {4, 8, 2, 4, 3, 2}, 0.3);
  keys.edit("k", [](int, Numbers& k) {
    for (std::size_t b = 0; b < 4; ++b) {
      for (std::size_t p = 0; p < 4; ++p) {
        k[(b * 8 + b) * 4 + p] = 0;  // a zero key; in the first sequence at the first step
        k[(b * 8 + 6) * 4 + p] = k[(b * 8 + 4) * 4 + p];
      }
    }
  });
  std::vector<OpCase> all = {gates, keys};
  const auto add = [&all](const std::string& name, Shape s, double size) {
    all.push_back(off_kink(make(name, s, size), s).gradient_elements(80));
  };
  add("NormBelowOne", {4, 6, 2, 5, 3, 2}, 0.2);
  add("NormCut", {4, 6, 1, 5, 3, 2}, 2.2);
  add("ManyQueries", {3, 7, 5, 4, 5, 3}, 1.8);
  add("OneToken", {4, 1, 2, 3, 2, 2}, 3);  // above 1, and not rescaled
  add("TwoTokens", {4, 2, 2, 3, 2, 2}, 3);
  add("OneValue", {4, 5, 2, 3, 1, 2}, 2);
  add("OneDimension", {4, 5, 2, 1, 4, 2}, 2);
  add("Long", {2, 30, 3, 9, 11, 2}, 1.8);
  // One query and whole fours of columns: what CUDA does chunk by chunk in single precision.
  add("ChunkBelowOne", {3, 20, 1, 8, 5, 2}, 0.2);
  add("ChunkCut", {4, 37, 1, 8, 6, 2}, 2);
  add("ChunkLargeKeys", {3, 33, 1, 12, 21, 3}, 6);
  add("ChunkFewValues", {3, 20, 1, 4, 2, 2}, 1.5);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Fwm, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
