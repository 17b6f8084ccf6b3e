// One layer of the language model by itself: a memory between its projections, as a function of tokens x [B,T,width] and of
// parameters that lie with the caller.
//
//   y = W_o finish(memory(project(x)))       models/mixers/language_mixer.h; without norm and residual stream
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/mixers/language_mixer.h"

namespace crosstalk {

/// Options of a layer of the language model, from options "model." and "memory." that somebody gave, checked; what is left out
/// is as in a study. With a vocabulary those of a whole language model. Throws OptionError.
Options layer_options(const Memory& memory, const Options& given,
                      const Vocabulary& vocabulary = {.values = 2, .tokens = 2});

/// Parameters of a layer, named as in a language model ("layers.0.key.weight"), and how they start.
template <class Real>
void declare_layer(ParameterBlock<Real>& parameters, const Options& options, int layer);

/// States with which a layer can begin: those of its memory, or why it cannot go on from one.
struct LayerStates {
  std::vector<std::string> names;
  std::vector<std::vector<int>> shapes;  ///< of one sequence
  std::string refused;
};
LayerStates layer_states(const Memory& memory, const Options& options);

/// Demands of a pass of a layer.
struct LayerUse {
  int B = 1, T = 1;
  int R = 1;  ///< replicas: layers side by side, each with parameters and tokens of its own
  Device device = Device::cpu;
  bool backward = false;       ///< gradients of x and of the parameters
  bool starts = false;         ///< states before the first token are given
  bool ends = false;           ///< states after the last are wanted
  bool end_gradients = false;  ///< backward begins at them too
  Precision products = Precision::full;
};

template <class Real>
class LayerModel {
 public:
  /// Options are those of layer_options(). `layer`: its number among model.layers, which decides names of parameters, and how some start.
  LayerModel(const Options& options, int layer, const LayerUse& use);

  /// Values to fill before, gradients to read after the passes.
  ParameterBlock<Real>& parameters() { return parameters_; }
  Variable<Real>* x() const { return x_; }
  Variable<Real>* y() const { return y_; }
  Tensor<Real> cotangent() const { return cotangent_->value; }
  const Carried<Real>& states() const { return carried_; }
  const std::map<std::string, Variable<Real>*>& end_cotangents() const { return end_cotangents_; }
  /// Shape of a state as it is shown: as the input of apply that it would be at the start, where there is one. `dims`: of its tensor at
  /// the end.
  std::vector<int> state_shape(const std::string& state, const std::vector<int>& dims) const;
  Graph<Real>& graph() { return target_.graph; }
  const Graph<Real>& graph() const { return target_.graph; }
  /// Seed of random features [R,2], low and high word, where the memory draws some.
  Tensor<std::int32_t> feature_seed() const { return *target_.feature_seed; }
  Tensor<std::int32_t> feature_draw() const { return *target_.feature_draw; }

 private:
  const Options options_;
  ParameterBlock<Real> parameters_;
  ModelGraph<Real> target_;
  Carried<Real> carried_;
  std::map<std::string, Variable<Real>*> end_cotangents_;
  Variable<Real>*x_ = nullptr, *y_ = nullptr, *cotangent_ = nullptr;
};

}  // namespace crosstalk
