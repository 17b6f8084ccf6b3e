// The network read: gradients, replicas, whole mini-batches, and a GPU. What it reads is held by the laws of ttt_* and titans_*.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/network_read.h"

#include <fmt/format.h>

#include <array>

#include "kernels/law/law_cpu.h"
#include "kernels/law/network_batches_backward.h"
#include "kernels/law/network_batches_forward.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::network_read_test {
namespace {

struct Shape {
  int B, T, H, K, V;
  int hidden = 0;
  bool biases = false, residual = false, layer = false, moves = false;
  int mini_batch = 1;
  int Q = 0;  ///< 0: no positions
  bool start = true, end = false;
  int queries() const { return Q ? Q : T; }
  int size(int part) const {
    const int sizes[] = {hidden * K, biases ? hidden : 0, V * (hidden ? hidden : K), biases ? V : 0};
    return sizes[part];
  }
};
const char* const kParts[] = {"w1", "b1", "w2", "b2", "p1", "c1", "p2", "c2"};

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("q", {s.B, s.queries(), s.H, s.K}, normal());
  op.input("k", {s.B, s.T, s.H, s.K}, normal((s.layer ? 1.5 : 1) / std::sqrt(s.K)));
  op.input("v", {s.B, s.T, s.H, s.V}, normal());
  // LayerNorm bends the more the less its numbers differ: large weights and small steps keep them apart.
  op.input("step", {s.B, s.T, s.H, 1}, s.layer ? uniform(0.01, 0.03) : uniform(0.05, 0.3));
  op.optional(s.moves, "momentum", {s.B, s.T, s.H, 1}, uniform(0.1, 0.6));
  op.optional(s.moves, "forget", {s.B, s.T, s.H, 1}, uniform(0.05, 0.4));
  op.optional(s.layer, "gain", {s.B, 1, s.H, s.V}, uniform(0.5, 1.5));
  op.optional(s.layer, "bias", {s.B, 1, s.H, s.V}, normal());
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  for (int part = 0; part < 8; ++part) {
    const int size = s.size(part % 4);
    const bool has = size > 0 && (part < 4 || s.moves);
    const int inputs = part % 4 == 0 ? s.K : part % 4 == 2 ? (s.hidden ? s.hidden : s.K) : 1;
    op.optional(has && s.start, std::string("start_") + kParts[part], {s.B, s.H, size},
                normal((s.layer ? 3 : 1) / std::sqrt(inputs)));
    if (has && s.end) op.output(std::string("end_") + kParts[part], {s.B, s.H, size});
  }
  call_planned<NetworkRead>(op, [s](auto& o) {
    o.hidden = s.hidden, o.biases = s.biases, o.residual = s.residual, o.mini_batch = s.mini_batch;
  });
  return op.roundings(8.0 * s.T + 2 * s.K + s.V + 2 * s.hidden)
      .condition(s.layer ? 30 : 8)
      .gradient_elements(30);
}

/// A shape and what else it has: b(iases), r(esidual), l(ayer norm), m(omentum), e(nd), n(o start).
Shape with(Shape s, const std::string& parts) {
  const auto has = [&](char part) { return parts.find(part) != std::string::npos; };
  s.biases = has('b'), s.residual = has('r'), s.layer = has('l'), s.moves = has('m'), s.end = has('e');
  s.start = !has('n');
  return s;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const int M : {0, 6}) {
    const auto add = [&](const char* name, const Shape& s, const char* parts, int mini_batch = 1, int Q = 0) {
      Shape shape = with(s, parts);
      shape.mini_batch = mini_batch, shape.Q = Q;
      all.push_back(make((M ? "Mlp" : "Linear") + std::string(name), shape));
    };
    add("Tokens", {2, 5, 2, 4, 3, M}, "");
    add("NoStart", {1, 5, 1, 4, 3, M}, "bn");
    add("Momentum", {2, 5, 2, 4, 3, M}, "me");
    add("Norm", {1, 4, 2, 3, 9, M}, "l");
    add("Ttt", {2, 5, 1, 4, 9, M}, "brle");
    add("Residual", {1, 4, 1, 5, 3, M}, "r");
    add("MiniBatch", {1, 8, 2, 4, 8, M}, "brl", 3);
    add("MiniBatchMomentum", {2, 7, 1, 3, 3, M}, "me", 2);
    add("Positions", {2, 6, 2, 3, 7, M}, "brl", 4, 7);
    add("OneToken", {2, 1, 2, 3, 2, M}, "m");
    add("Long", {1, 23, 1, 4, 3, M}, "me", 1, 3);
    add("Wide", {1, 3, 1, 35, 40, M ? 37 : 0}, "brl", 1, 2);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(NetworkRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// The law of whole mini-batches on the CPU, its memory beside the op's.
template <class Real>
void run_batches(const Exec& exec, const NetworkRead<Real>& op, bool back) {
  using Law = law::NetworkBatches<Real>;
  if (exec.device == Device::cuda) return back ? backward(exec, op) : forward(exec, op);
  parallel_items(exec, op.k.value.R, std::int64_t{op.B()} * op.H(), [&](int r, std::int64_t item) {
    const auto numbers = [](std::int64_t n) { return std::vector<Real>(static_cast<std::size_t>(n), 0); };
    auto memory = numbers(Law::scratch(op)), work = numbers(Law::work_of(op)),
         states = numbers(law::segments(Law::batches_of(op)) * Law::numbers(op));
    Law law(op, memory.data(), r, static_cast<int>(item));
    EXPECT_EQ(law.used, Law::scratch(op));
    law.work = work.data(), law.states = states.data();
    law.forward(law::AloneProducts{});
    if (back) law.backward(law::AloneProducts{});
  });
}
std::vector<OpCase> batches() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& name, const Shape& s) {
    OpCase op = make(name, s);
    const auto configure = [s](auto& o) {
      o.hidden = s.hidden, o.biases = s.biases, o.residual = s.residual, o.mini_batch = s.mini_batch;
    };
    op.forward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
      run_batches(exec, planned<NetworkRead, Real>(set, configure), false);
    });
    op.backward([configure]<class Real>(const Exec& exec, TensorSet<Real>& set) {
      run_batches(exec, planned<NetworkRead, Real>(set, configure), true);
    });
    op.oracle([plain = make(name, s)](const Values& in, Values& out) {  // the law token after token
      TensorSet<double> set;
      plain.fill(set, {0});
      for (const auto& [field, x] : in.real)
        if (!x.empty()) upload(Device::cpu, set.real(field), 0, x);  // else it is absent
      for (const auto& [field, x] : in.integer) upload(Device::cpu, set.integer(field), 0, x);
      plain.run_forward({}, set);
      for (const auto& [field, t] : set.reals.all())
        if (field == "o" || field.starts_with("end_")) out.real[field] = download(Device::cpu, t, 0);
    });
    all.push_back(op);
  };
  for (const int Q : {0, 9}) {
    const std::string asked = Q ? "Positions" : "Tokens";
    add("Plain" + asked,
        {.B = 1, .T = 5, .H = 2, .K = 4, .V = 4, .hidden = 8, .mini_batch = 3, .Q = Q, .end = true});
    add("Ttt" + asked, {.B = 1,
                        .T = 8,
                        .H = 2,
                        .K = 4,
                        .V = 12,
                        .hidden = 16,
                        .biases = true,
                        .residual = true,
                        .layer = true,
                        .mini_batch = 4,
                        .Q = Q,
                        .end = true});
    add("Titans" + asked, {.B = 2,
                           .T = 7,
                           .H = 1,
                           .K = 8,
                           .V = 4,
                           .hidden = 4,
                           .moves = true,
                           .mini_batch = 6,
                           .Q = Q,
                           .end = true});
    add("MovesWithBiases" + asked, {.B = 1,
                                    .T = 21,
                                    .H = 1,
                                    .K = 4,
                                    .V = 4,
                                    .hidden = 4,
                                    .biases = true,
                                    .moves = true,
                                    .mini_batch = 5,
                                    .Q = Q});
  }
  add("OneTokenABatch", {.B = 1, .T = 3, .H = 1, .K = 4, .V = 4, .hidden = 4, .moves = true, .start = false});
  add("WholeBatches", {.B = 1,
                       .T = 35,
                       .H = 1,
                       .K = 8,
                       .V = 12,
                       .hidden = 20,
                       .biases = true,
                       .layer = true,
                       .mini_batch = 16});
  return all;
}
INSTANTIATE_TEST_SUITE_P(NetworkBatches, OpCheck, ::testing::ValuesIn(batches()), case_name);

/// Sizes at which the form in registers cuts rows, columns and chunks.
std::vector<OpCase> sizes() {
  std::vector<OpCase> all;
  for (const bool layer : {false, true}) {
    const std::string law = layer ? "Norm" : "Momentum";
    const std::array<int, 3> sizes[] = {{33, 16, 8}, {18, 17, 33}, {23, 33, 47}, {12, 64, 64}, {5, 64, 9},
                                        {6, 65, 20}, {6, 20, 65},  {13, 64, 64}, {34, 32, 32}};
    for (const auto [T, K, V] : sizes) {
      Shape s = with({2, T, 2, K, V}, layer ? "l" : "m");
      s.biases = K != 16, s.residual = K != 64, s.end = T != 12, s.Q = T % 3 ? 0 : 11;
      all.push_back(make(fmt::format("{}_T{}_K{}_V{}", law, T, K, V), s));
    }
  }
  // Mini-batches by products (fused/network_batches_form.cu): sizes of a language model, cut mini-batches, few and many rows.
  for (const bool titans : {false, true}) {
    for (const auto [T, K, V, M, batch] :
         {std::array{19, 64, 64, 256, 16}, {19, 32, 20, 64, 8}, {9, 12, 8, 48, 5}, {5, 16, 12, 64, 1}})
      all.push_back(make(fmt::format("{}_T{}_K{}_V{}_Batch{}", titans ? "Titans" : "Ttt", T, K, V, batch),
                         {.B = K == 64 ? 1 : 2,
                          .T = T,
                          .H = K == 64 ? 1 : 2,
                          .K = K,
                          .V = V,
                          .hidden = M,
                          .biases = !titans,
                          .residual = !titans,
                          .layer = !titans,
                          .moves = titans,
                          .mini_batch = batch,
                          .Q = T % 3 ? 0 : 29,
                          .end = T != 19}));
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(NetworkRead, CudaOpCheck, ::testing::ValuesIn(sizes()), case_name);

}  // namespace
}  // namespace crosstalk::checks::network_read_test
