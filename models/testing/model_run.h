// A model with one graph, filled from the host: parameters by name, batches by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/optimizer/adam.h"
#include "models/model.h"
#include "models/testing/hand_batch.h"
#include "models/testing/sequence.h"
#include "models/testing/variants.h"

namespace crosstalk::checks {

/// Parameters of one replica by name, flat and row-major.
using Parameters = std::map<std::string, Vector>;

/// Sizes that tests share: small, no two equal.
constexpr int kKeys = 5, kValues = 4, kDKey = 3, kEmbedding = 6, kB = 2, kT = 6;

struct ModelShape {
  int keys = kKeys, values = kValues;
  bool second_key = false;
  int B = kB;
  SequenceShape sequence{kT, 2, 1};
  int tokens = 0;  ///< of a language model, whose answers are `values`

  Vocabulary vocabulary() const { return {tokens > 0 ? 0 : keys, values, second_key, tokens}; }
};

template <class Real>
class ModelRun {
 public:
  ModelRun(const Options& options, const ModelShape& shape_, int R, bool train)
      : shape(shape_),
        owned_(make_model<Real>(options, shape_.vocabulary(), Device::cpu, R)),
        model(*owned_),
        graph(model.graph(shape_.B, shape_.sequence, train)),
        scalars_(Device::cpu) {
    rate_ = shaped<double>(R, {1});
    step_ = shaped<std::int32_t>(R, {1});
    scalars_.reserve(&rate_);
    scalars_.reserve(&step_);
    scalars_.allocate();
    for (int r = 0; r < R; ++r) rate_.at(r)[0] = 1e-2, step_.at(r)[0] = 0;
  }
  ModelShape shape;

 private:
  std::unique_ptr<Model<Real>> owned_;

 public:
  Model<Real>& model;
  std::unique_ptr<ModelGraph<Real>> graph;

  void set_batch(int r, const HandBatch& batch) {
    const auto copy = [r](Tensor<std::int32_t>* to, const std::vector<std::int32_t>& from) {
      if (to->size() != static_cast<std::int64_t>(from.size())) throw std::logic_error("batch: sizes differ");
      std::copy(from.begin(), from.end(), to->at(r));
    };
    copy(graph->batch.tokens, batch.tokens);
    copy(graph->batch.query, batch.query);
    copy(graph->batch.position, batch.position);
    copy(graph->batch.target, batch.target);
  }
  void set_features(int r, std::int32_t seed, std::int32_t draw) {
    graph->feature_seed->at(r)[0] = seed;
    graph->feature_seed->at(r)[1] = 0;
    graph->feature_draw->at(r)[0] = draw;
    if (graph->dropout_draw) graph->dropout_draw->at(r)[0] = draw;
  }
  void set_rate(int r, double rate) { rate_.at(r)[0] = rate; }

  Tensor<Real> parameter(const std::string& name) {
    auto& block = model.parameters();
    for (int i = 0; i < block.count(); ++i)
      if (block.name(i) == name) return block.value(i);
    throw std::out_of_range("the model has no parameter " + name);
  }
  void set_parameter(int r, const std::string& name, const Vector& values) {
    const Tensor<Real> p = parameter(name);
    if (p.size() != static_cast<std::int64_t>(values.size())) throw std::logic_error(name + ": sizes differ");
    for (std::int64_t i = 0; i < p.size(); ++i)
      p.at(r)[i] = static_cast<Real>(values[static_cast<std::size_t>(i)]);
  }
  void set_parameters(int r, const Parameters& parameters) {
    for (const auto& [name, values] : parameters) set_parameter(r, name, values);
  }
  void zero_parameters(int r) {
    auto& block = model.parameters();
    for (int i = 0; i < block.count(); ++i) {
      const Tensor<Real> p = block.value(i);
      std::fill(p.at(r), p.at(r) + p.size(), Real(0));
    }
  }
  Parameters parameters(int r) {
    Parameters copy;
    auto& block = model.parameters();
    for (int i = 0; i < block.count(); ++i) {
      const Tensor<Real> p = block.value(i);
      copy[block.name(i)] = Vector(p.at(r), p.at(r) + p.size());
    }
    return copy;
  }
  /// Random numbers of a size at which every part matters.
  Parameters random_parameters(std::uint64_t seed) {
    Parameters drawn;
    auto& block = model.parameters();
    for (int i = 0; i < block.count(); ++i) {
      RandomStream random(seed, RandomDomain::initialisation, static_cast<std::uint32_t>(1000 + i));
      Vector& values = drawn[block.name(i)];
      for (std::int64_t j = 0; j < block.value(i).size(); ++j)
        values.push_back(0.6 * normal_from_uniform(random.uniform()));
    }
    return drawn;
  }

  void forward(const Exec& exec = {}) { graph->graph.forward(exec); }
  void backward(const Exec& exec = {}) { graph->graph.backward(exec); }
  /// Forward, backward, Adam.
  void train_step(const Exec& exec = {}) {
    forward(exec);
    backward(exec);
    for (int i = 0; i < exec.count(step_.R); ++i) ++step_.at(exec.replica(i))[0];
    auto& p = model.parameters();
    AdamStep<Real> adam;
    adam.parameter = p.values();
    adam.gradient = p.gradients();
    adam.m = p.first_moments();
    adam.v = p.second_moments();
    adam.learning_rate = rate_;
    adam.step = step_;
    run(exec, adam);
  }
  Real loss(int r) const { return graph->loss.loss->value.at(r)[0]; }
  const Real* y(int r, int b, int i) const {
    return graph->output->value.at(r) + (b * shape.sequence.Q + i) * shape.values;
  }

 private:
  Arena scalars_;
  Tensor<double> rate_;
  Tensor<std::int32_t> step_;
};

/// Numbers that one replica is given.
struct Example {
  Parameters parameters;
  HandBatch batch;
  std::int32_t feature_seed, feature_draw;
  double peak = 1;  ///< largest number that is read
};

template <class Real>
void give(ModelRun<Real>& run, int r, const Example& example) {
  run.set_parameters(r, example.parameters);
  run.set_batch(r, example.batch);
  run.set_features(r, example.feature_seed, example.feature_draw);
}

/// The first example from `seed` on whose reads are below 10: nothing is divided by what almost vanishes.
inline Example find_example(const Options& options, const ModelShape& shape, std::uint64_t seed) {
  ModelRun<double> run(options, shape, 1, true);
  for (std::uint64_t n = seed * 100000; n < seed * 100000 + 1000; ++n) {
    RandomStream random(n, RandomDomain::task_train, 7);
    Example example{run.random_parameters(n),
                    random_batch(random, shape.B, shape.sequence, shape.keys, shape.values),
                    static_cast<std::int32_t>(n % 1000), static_cast<std::int32_t>(n % 7)};
    give(run, 0, example);
    run.forward();
    for (int b = 0; b < shape.B; ++b)
      for (int i = 0; i < shape.sequence.Q; ++i)
        for (int v = 0; v < shape.values && example.batch.target_at(b, i) >= 0; ++v)
          example.peak = std::max(example.peak, std::abs(run.y(0, b, i)[v]));
    if (std::isfinite(run.loss(0)) && example.peak < 10) return example;
  }
  throw std::runtime_error("no example has reads below 10");
}

}  // namespace crosstalk::checks
