// A model whose projections and parameters are given numbers, and that keeps every input that a memory makes of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <utility>

#include "kernels/base/random.h"
#include "models/memories/memory_file.h"

namespace crosstalk::checks {

class GivenMixer final : public Mixer<double> {
 public:
  struct Given {
    Var<double> x;
    int writes;  ///< rows a token; 0: one for the model
    Init init;
  };
  std::map<std::string, Given> given;
  std::map<std::string, Var<double>> made;

  GivenMixer(Graph<double>& target, const Options& options_, const MixerSizes& sizes, double depth = 0)
      : Mixer(target, options_, sizes), depth_(depth) {}
  Var<double> keys() override { return leaf("k", {1, T * N, H, d}, N, Init::normal(1)); }
  Var<double> queries() override { return leaf("q", {1, T, H, d}, 1, Init::normal(1)); }
  Var<double> values() override { return leaf("v", {1, T * N, H, V}, N, Init::normal(1)); }
  const Tensor<std::int32_t>* position() const override { return nullptr; }
  double depth() const override { return depth_; }
  Var<double> token(const std::string& name, int width, std::optional<Init> bias, Through,
                    bool per_write) override {
    const int writes = per_write ? N : 1;
    return leaf(name, {1, T * writes, H, width}, writes, bias.value_or(Init::constant(0)));
  }
  Var<double> parameter(const std::string& name, std::vector<int> dims, Init init) override {
    int of_row = 1;
    for (std::size_t i = 1; i < dims.size(); ++i) of_row *= dims[i];
    return leaf(name, {1, 1, dims[0], of_row}, 0, init);
  }
  Var<double> input(const std::string& name, const std::function<Var<double>()>& law) override {
    const Var<double> x = law();
    graph.keep(x.variable->root());
    return made[name] = x;
  }
  void note(const std::string& name, Var<double> x) override {
    if (name == "written_key") input(name, [&] { return x; });
  }
  Variable<double>* omega(int) override { throw std::logic_error("no random features"); }

  /// Fills all that is given: replica r draws with seed r + 1, and number(init, u, i) makes number i of a uniform u.
  template <class Number>
  void fill(const Number& number) {
    for (auto& [name, one] : given) {
      std::uint32_t stream = 0;
      for (const char c : name) stream = 31 * stream + static_cast<unsigned char>(c);
      const Tensor<double> x = one.x.variable->value;
      for (int r = 0; r < x.R; ++r) {
        RandomStream random(static_cast<std::uint64_t>(r + 1), RandomDomain::initialisation, stream);
        for (std::int64_t i = 0; i < x.size(); ++i) x.at(r)[i] = number(one.init, random.uniform(), i);
      }
    }
  }

 private:
  Var<double> leaf(const std::string& name, std::initializer_list<Dimension> dims, int writes, Init init) {
    auto [at, is_new] = given.try_emplace(name);
    if (is_new) at->second = {{&graph, graph.variable(dims, false)}, writes, std::move(init)};
    return at->second.x;
  }
  double depth_;
};

}  // namespace crosstalk::checks
