// The models by name, their options, and what all their graphs share.
// SPDX-License-Identifier: Apache-2.0
#include "models/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/choice.h"
#include "kernels/embedding/lookup.h"
#include "models/graph/passes.h"
#include "models/memory.h"
#include "models/mixers/language_model.h"
#include "models/mixers/language_options.h"
#include "models/mixers/probe_model.h"
#include "models/mixers/retrieval_model.h"
#include "models/parts/model_parts.h"

namespace crosstalk {

const std::vector<OptionSpec>& model_options() {
  static const std::vector<OptionSpec> options = [] {
    std::vector<OptionSpec> all = {
        choice(
            "name", "retrieval",
            "model around the memory: retrieval (one memory between associations and answer; Schlag, Irie and Schmidhuber 2021), language (blocks over "
            "tokens) or probe (a memory on random codes, nothing learned)",
            {"retrieval", "language", "probe"}),
        {"d_key", 0,
         "dimension of keys and queries before phi, all heads together (0: 64, in the language model model.width)",
         0, 4096},
        {"heads", 1,
         "heads: memories side by side, each with d_key / heads; their reads are added up, in the language model joined by a projection",
         1, 64},
        {"embedding", 0, "width of key embeddings of the retrieval model (0: int(1.1 (keys + values)))", 0,
         1 << 20},
        choice(
            "key_codes", "learned",
            "retrieval model: embeddings of keys. learned; frozen: random vectors of length 1 (0 numbers in model.embedding: as d_key)",
            {"learned", "frozen"}),
        {"value_codes", 0,
         "retrieval model: numbers a value, a frozen random vector of length 1; what is read goes through a projection, and is scored against all of "
         "them by cross-entropy (0: one-hot values and their squared error)",
         0, 1 << 14},
        choice(
            "parts", "own",
            "feature map, key_norm and read_norm of memories that have them, where the study says nothing. own: those that each memory starts with "
            "('crosstalk describe comparable'); equal: identity, l2 and none for all, so that labels differ in their update rules",
            {"own", "equal"}),
        {"init", "",
         "laws by which parameters start, in place of those that describe MEMORY prints, as it prints them: "
         "'gate.bias = 0; key_embedding = N(0, 0.1^2)'"},
    };
    for (const auto* more : {&part_options(), &language_options(), &probe_options()})
      all.insert(all.end(), more->begin(), more->end());
    return all;
  }();
  return options;
}

namespace {

// The task's name, for messages.
std::string task_of(const Options& options) {
  return options.has("task.name") ? fmt::format("task.name = \"{}\"", options.get_string("task.name"))
                                  : "the task";
}

/// Codes of the retrieval model.
void refuse_codes(const Options& options) {
  for (const char* key : {"model.key_codes", "model.value_codes"}) {
    const auto spec = std::find_if(model_options().begin(), model_options().end(),
                                   [&](const OptionSpec& one) { return "model." + one.name == key; });
    if (!options.has(key) || options.at(key) == spec->default_value) continue;
    throw OptionError(
        key, fmt::format("{} belongs to the retrieval model, and model.name = \"{}\"; leave it out", key,
                         options.get_string("model.name")));
  }
}

/// Around examples there are no codes, and a probe's keys are the inputs.
void refuse_what_examples_lack(Options& options, int numbers) {
  for (const char* key : {"model.key_codes", "model.value_codes", "model.embedding", "model.probe_keys",
                          "model.probe_values"}) {
    const auto is_it = [&](const OptionSpec& one) { return "model." + one.name == key; };
    const auto spec = std::find_if(model_options().begin(), model_options().end(), is_it);
    const OptionValue derived = std::int64_t{spec->name == "embedding" ? numbers : 1};
    if (!options.has(key) || options.at(key) == spec->default_value || options.at(key) == derived) continue;
    throw OptionError(
        key, fmt::format("{} is of keys and values that are ids, and {} gives real numbers; leave it out",
                         key, task_of(options)));
  }
  if (is_probe(options)) {
    if (options.get_int("model.d_key") == 0) options.set("model.d_key", std::int64_t{numbers});
    if (options.get_int("model.d_key") != numbers)
      throw OptionError(
          "model.d_key",
          fmt::format(
              "keys of a probe are the inputs of examples as they are, {} numbers (task.inputs); leave model.d_key out",
              numbers));
    options.set("model.probe_values", 1);
  }
  options.set("model.embedding", std::int64_t{numbers});
}

}  // namespace

void resolve_model(Options& options, const Vocabulary& vocabulary) {
  const bool language = is_language(options);
  if (vocabulary.tokens > 0 && is_probe(options))
    throw OptionError(
        "model.name",
        fmt::format(
            "{} gives tokens, which a probe does not read; take a task of associations (crosstalk list tasks), or model.name = \"language\"",
            task_of(options)));
  if (vocabulary.tokens > 0 && !language)
    throw OptionError(
        "model.name",
        fmt::format("{} gives tokens, which the retrieval model does not read; add model.name = \"language\"",
                    task_of(options)));
  if (vocabulary.tokens == 0 && language)
    throw OptionError(
        "model.name",
        fmt::format(
            "model.name = \"language\" reads tokens, and {} gives {}; leave model.name out, or take a task of tokens (crosstalk list tasks)",
            task_of(options),
            vocabulary.numbers > 0 ? "examples of real numbers" : "associations of keys and values"));
  if (vocabulary.numbers > 0) refuse_what_examples_lack(options, vocabulary.numbers);
  if (language || is_probe(options)) refuse_codes(options);
  if (language) {
    resolve_language(options, vocabulary);
    resolve_parts(options);
    resolve_probe(options, vocabulary.keys);
    return;
  }
  refuse_language_options(options);
  if (options.get_int("model.d_key") == 0) options.set("model.d_key", 64);
  resolve_parts(options);
  resolve_probe(options, vocabulary.keys);
  if (options.get_string("model.key_codes") == "frozen" && options.get_int("model.embedding") == 0)
    options.set("model.embedding", options.get_int("model.d_key"));
  if (options.get_int("model.embedding") == 0)
    options.set("model.embedding", static_cast<std::int64_t>((vocabulary.keys + vocabulary.values) * 1.1));
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
    run(exec, BucketIds<Real>{*lists.ids, lists.channel, batches, *lists.order, *lists.start});
}

template <class Real>
std::unique_ptr<PieceGraphs<Real>> Model<Real>::pieces(int /*B*/, SequenceShape shape, const PieceUse& use) {
  throw OptionError(
      use.option,
      fmt::format("{} = {} is for the language model, whose sequences may be long; leave it out, or "
                  "add model.name = \"language\" (and a task of tokens)",
                  use.option, use.value > 0 ? use.value : shape.T));
}

template <class Real>
void Model<Real>::read_inits() {
  if (!options_.has("model.init")) return;
  try {
    parameters_.set_inits(options_.get_string("model.init"));
  } catch (const std::invalid_argument& error) {
    throw OptionError("model.init", fmt::format("model.init: {}", error.what()));
  }
}

template <class Real>
void Model<Real>::allocate(const std::string& owner) {
  for (const std::string& name : parameters_.unused_inits()) {
    std::vector<std::string> names;
    for (int i = 0; i < parameters_.count(); ++i) names.push_back(parameters_.name(i));
    throw OptionError("model.init", fmt::format("model.init: {} has no parameter {}; it has {}", owner, name,
                                                fmt::join(names, ", ")));
  }
  parameters_.allocate();
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> Model<Real>::begun(int B, SequenceShape shape, bool train,
                                                     int batches) const {
  auto result = std::make_unique<ModelGraph<Real>>(device_, R_, train);
  Graph<Real>& g = result->graph;
  g.set_products(products_);
  if (sharing_) g.set_sharing(*sharing_);
  BatchTensors& batch = result->batch;
  batch.B = B, batch.T = shape.T, batch.C = shape.C, batch.Q = shape.Q;
  result->batches = batches;
  batch.tokens = g.integers({B, shape.T, shape.C}, batches);
  batch.query = g.integers({B, shape.Q, 1}, batches);
  batch.position = g.integers({B, shape.Q}, batches);
  batch.target = g.integers({B, shape.Q}, batches);
  result->redraws =
      !options_.has("memory.favor_redraw") || options_.get_string("memory.favor_redraw") != "fixed";
  result->feature_seed = g.integers({2});
  result->feature_draw = g.integers({1});
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> Model<Real>::planned(std::unique_ptr<ModelGraph<Real>> built) {
  run_passes(built->graph);
  built->graph.plan();
  return built;
}

template <class Real>
std::unique_ptr<Model<Real>> make_model(const Options& options, const Vocabulary& vocabulary, Device device,
                                        int R, Precision products) {
  if (is_language(options))
    return std::make_unique<LanguageModel<Real>>(options, vocabulary, device, R, products);
  if (is_probe(options)) return std::make_unique<ProbeModel<Real>>(options, vocabulary, device, R, products);
  return std::make_unique<RetrievalModel<Real>>(options, vocabulary, device, R, products);
}

template std::unique_ptr<Model<float>> make_model(const Options&, const Vocabulary&, Device, int, Precision);
template std::unique_ptr<Model<double>> make_model(const Options&, const Vocabulary&, Device, int, Precision);

template class Model<float>;
template class Model<double>;
template struct ModelGraph<float>;
template struct ModelGraph<double>;

std::vector<double> half_lives_at_start(const Options& options, const Vocabulary& vocabulary) {
  constexpr int kDraws = 16;
  RetrievalModel<double> model(options, vocabulary, Device::cpu, 1);
  return model.half_lives(kDraws);
}

}  // namespace crosstalk
