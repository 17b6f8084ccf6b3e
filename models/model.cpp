// The models by name, their options, and what all their graphs share.
// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include "kernels/ops/lookup.h"
#include "models/memory.h"
#include "models/model_parts.h"
#include "models/retrieval_model.h"

namespace crosstalk {

const std::vector<OptionSpec>& model_options() {
  static const std::vector<OptionSpec> options = [] {
    std::vector<OptionSpec> all = {
        {"name", std::string("retrieval"), "model around the memory", 0, 0, {"retrieval"}},
        {"d_key", std::int64_t{64}, "dimension of keys and queries before phi, all heads together", 1, 4096},
        {"heads", std::int64_t{1},
         "heads: memories side by side, each with d_key / heads; their reads are added up", 1, 64},
        {"embedding", std::int64_t{0}, "width of key embeddings (0: int(1.1 (keys + values)))", 0, 1 << 20},
        {"init", std::string(),
         "laws by which parameters start, in place of those that describe MEMORY prints, as it prints them: "
         "'gate.bias = 0; key_embedding = N(0, 0.1^2)'"},
    };
    all.insert(all.end(), part_options().begin(), part_options().end());
    return all;
  }();
  return options;
}

void resolve_model(Options& options, const Vocabulary& vocabulary) {
  resolve_parts(options);
  if (options.get_int("model.embedding") == 0) {
    options.set("model.embedding",
                static_cast<std::int64_t>((vocabulary.keys + vocabulary.values) * 1.1));
  }
}

template <class Real>
void ModelGraph<Real>::select(int u) {
  const std::int64_t shift = u - selected_, queries = shift * batch.B * batch.Q;
  batch.tokens->data += shift * batch.B * batch.T * batch.C;
  batch.query->data += queries;
  batch.position->data += queries;
  batch.target->data += queries;
  for (const Buckets& lists : buckets) {
    lists.order->data += shift * lists.order->size();
    lists.start->data += shift * lists.start->size();
  }
  selected_ = u;
}

template <class Real>
void ModelGraph<Real>::prepare(const Exec& exec) const {
  for (const Buckets& lists : buckets)
    run(exec, BucketIds<Real>{*batch.tokens, lists.channel, batches, *lists.order, *lists.start});
}

template <class Real>
std::unique_ptr<Model<Real>> make_model(const Options& options, const Vocabulary& vocabulary,
                                        Device device, int R, Precision products) {
  return std::make_unique<RetrievalModel<Real>>(options, vocabulary, device, R, products);
}

template std::unique_ptr<Model<float>> make_model(const Options&, const Vocabulary&, Device, int,
                                                  Precision);
template std::unique_ptr<Model<double>> make_model(const Options&, const Vocabulary&, Device, int,
                                                   Precision);

template struct ModelGraph<float>;
template struct ModelGraph<double>;

std::vector<double> half_lives_at_start(const Options& options, const Vocabulary& vocabulary) {
  constexpr int kDraws = 16;
  RetrievalModel<double> model(options, vocabulary, Device::cpu, kDraws);
  return model.half_lives(kDraws);
}

}  // namespace crosstalk
