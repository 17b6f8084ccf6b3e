// View that a model gives of a sequence (Model::capture): what its memory is given, decides, weighs and keeps, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/graph/nodes.h"

namespace crosstalk {

/// Filled while a graph is built, read after its forward(). Besides these there is the graph's output.
template <class Real>
struct Captured {
  struct Tensor {
    std::string name;  ///< "k", "phi_k", an input of the memory, "token.NAME": a projection, ...
    Variable<Real>* value;
  };
  int layer = 0;  ///< of a language model: the layer that is looked into, a memory; set by who asks

  std::vector<Tensor> tensors;                    ///< in the order of their making; each variable once
  std::map<std::string, Variable<Real>*> states;  ///< after the last token: S [1,H,V,K], z [1,H,1,K], ...
  Variable<Real>* weights = nullptr;              ///< [1,H,Q,M]: of every write in every read; or none
  int reads = 0;                                  ///< how often weights were noted
  std::optional<double> eps;                      ///< weights are yet to be divided by (their sum + eps)

  /// x of any shape under this name; the first name of a variable stays, of two variables of a name the last.
  void note(const std::string& name, Var<Real> x) {
    if (!x) return;
    const bool feature = name.starts_with("phi_");  // is the key itself where there is no map
    for (Tensor& known : tensors) {
      if (known.name == name) {  // the last counts
        x.graph->keep(known.value = x.variable);
        return;
      }
      if (feature || known.value->root() != x.variable->root()) continue;
      if (known.name.starts_with("token.")) known.name = name;
      return;
    }
    x.graph->keep(x.variable);
    tensors.push_back({name, x.variable});
  }
  /// Weights [1,H,Q,M], still to be divided where eps is given. A sum of several reads has no weights of its own.
  void note_weights(Var<Real> x, std::optional<double> divided_by) {
    if (++reads > 1) {
      weights = nullptr;
      return;
    }
    x.graph->keep(x.variable);
    weights = x.variable, eps = divided_by;
  }
  /// A state after the last token.
  void note_state(const std::string& name, Var<Real> x) {
    x.graph->keep(x.variable);
    states[name] = x.variable;
  }
};

}  // namespace crosstalk
