// Attention in the retrieval model, whose queries stand beside the sequence: what is read after p tokens is what the oracle
// reads at the last of them, positions and gates worked out by hand.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/testing/compare.h"
#include "models/mixers/retrieval_model.h"
#include "models/testing/hand_batch.h"
#include "models/testing/random_sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {
namespace {

constexpr int kKeys = 5, kValues = 4, kD = 4, kEmbedding = 3, kT = 7, kQ = 5;

class Beside : public ::testing::TestWithParam<std::string> {
 protected:
  Beside()
      : options_(resolved(*find_memory(GetParam()),
                          memory_options(*find_memory(GetParam()), kD, kKeys, kValues, kEmbedding))),
        model_(options_, {kKeys, kValues, false}, Device::cpu, 1),
        graph_(model_.graph(1, {kT, 2, kQ}, false)),
        batch_(1, {kT, 2, kQ}) {
    RandomStream random(7, RandomDomain::initialisation, 1);
    const Tensor<double> all = model_.parameters().values();
    for (std::int64_t i = 0; i < all.size(); ++i) all.at(0)[i] = 0.6 * normal_from_uniform(random.uniform());
    for (int t = 0; t < kT; ++t) batch_.write(0, t, {(3 * t + 1) % kKeys, (t * t + 1) % kValues});
    const int after[kQ] = {kT, 1, 4, 5, 2};
    for (int i = 0; i < kQ; ++i) batch_.ask(0, i, (2 * i) % kKeys, 0, after[i]);
    const auto copy = [](Tensor<std::int32_t>* to, const std::vector<std::int32_t>& from) {
      std::copy(from.begin(), from.end(), to->at(0));
    };
    copy(graph_->batch.tokens, batch_.tokens), copy(graph_->batch.query, batch_.query);
    copy(graph_->batch.position, batch_.position), copy(graph_->batch.target, batch_.target);
    graph_->graph.forward({});
  }

  /// A parameter as rows of `columns`.
  Matrix rows(const std::string& name, int columns) {
    auto& block = model_.parameters();
    for (int i = 0; i < block.count(); ++i) {
      if (block.name(i) != name) continue;
      const Tensor<double> p = block.value(i);
      Matrix m;
      for (std::int64_t j = 0; j < p.size(); j += columns) m.emplace_back(p.at(0) + j, p.at(0) + j + columns);
      return m;
    }
    throw std::logic_error("no parameter " + name);
  }
  Vector embedded(int key) { return rows("key_embedding", kEmbedding)[static_cast<std::size_t>(key)]; }
  /// W [E(key); onehot(value)] of a token, + b.
  Vector token(const std::string& name, int columns, int t, bool bias = true) {
    Vector x = times(rows(name + ".key", kEmbedding), embedded(batch_.token(0, t, 0)));
    x = plus(x, 1, rows(name + ".value", columns)[static_cast<std::size_t>(batch_.token(0, t, 1))]);
    return bias ? plus(x, 1, rows(name + ".bias", columns)[0]) : x;
  }
  double sigmoid(const std::string& name, int t) { return 1 / (1 + std::exp(-token(name, 1, t)[0])); }

  /// The oracle's view of the first n tokens; the query stands at every one of them.
  Sequence sequence(const Options& options, int n, int query) {
    Sequence s{.T = n, .K = kD, .V = kValues, .options = options};
    const Vector q = plus(times(rows("query_projection.key", kEmbedding), embedded(query)), 1,
                          rows("query_projection.bias", kD)[0]);
    for (int t = 0; t < n; ++t) {
      s.q.push_back(q);
      s.k.push_back(t < kT ? token("key_projection", kD, t) : Vector(kD, 0));
      s.v.push_back(t < kT ? unit(kValues, batch_.token(0, t, 1)) : Vector(kValues, 0));
    }
    return s;
  }
  /// The gates of the memory, by their laws.
  void give_gates(Sequence& s) {
    const std::string& memory = GetParam();
    if (memory == "alibi") s.in["slope"] = {{std::exp2(-8)}};
    if (memory == "attention_sink") s.in["sink"] = rows("memory.sink", 1);
    if (memory == "qk_norm") {
      s.in["q_gain"] = rows("memory.q_gain", kD), s.in["k_gain"] = rows("memory.k_gain", kD);
    }
    if (memory == "memory_mosaics") {
      s.in["log_decay"] = {{-0.5 * std::exp(rows("memory.leak", 1)[0][0])}};
      s.in["sharpness"] = {{std::exp(rows("memory.log_sharpness", 1)[0][0])}};
    }
    for (int t = 0; t < s.T; ++t) {
      if (memory == "path" || memory == "path_fox") {
        Vector w = plus(times(rows("path_key.up", kD), token("path_key.down", kD, t, false)), 1,
                        rows("path_key.bias", kD)[0]);
        for (double& x : w) x /= 1 + std::exp(-x);
        s.in["path_key"].push_back(scaled(1 / std::sqrt(dot(w, w) + 1e-6), w));
        s.in["beta"].push_back({2 * sigmoid("beta", t)});
      }
      if (memory == "fox" || memory == "path_fox")
        s.in["log_decay"].push_back({std::log(sigmoid("forget", t))});
    }
  }

  Options options_;
  RetrievalModel<double> model_;
  std::unique_ptr<ModelGraph<double>> graph_;
  HandBatch batch_;
};

TEST_P(Beside, ReadsAsTheOracleDoesAtTheLastToken) {
  const std::string& memory = GetParam();
  const bool mosaics = memory == "memory_mosaics";
  const bool strict =
      mosaics || memory == "stick_breaking";  // sees what is before its token: the query comes one later
  Options options = options_;
  options.set("memory.scale", mosaics ? 1.0 : 0.5);
  for (int i = 0; i < kQ; ++i) {
    SCOPED_TRACE(fmt::format("query {}", i));
    Sequence s = sequence(options, batch_.position_at(0, i) + strict, batch_.query_at(0, i));
    give_gates(s);
    const Vector want = read(memory, s).back();
    const double limit = memory == "qk_norm" || mosaics ? 2e-5 : 1e-12;  // the model's 1e-6 under its roots
    EXPECT_TRUE(close("y", graph_->output->value.at(0) + i * kValues, want.data(), kValues, limit));
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, Beside,
                         ::testing::Values("softmax", "sliding_window", "alibi", "fox", "kernel_attention",
                                           "attention_sink", "qk_norm", "rope", "path", "path_fox",
                                           "memory_mosaics", "stick_breaking"),
                         memory_name);

}  // namespace
}  // namespace crosstalk::checks
