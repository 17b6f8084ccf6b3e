// Values that a layer hands on where a sequence is read in pieces: states of its memory, and tokens that its convolutions and shifts
// look back to.
//
// The first piece begins as every sequence does. A later one is given as `starts` what the one before has left as `ends`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "models/graph/graph.h"

namespace crosstalk {

/// States of the memory before the first token, where they are given, and after the last.
template <class Real>
struct Carried {
  std::map<std::string, Variable<Real>*> starts, ends;
  std::set<std::string> asked;  ///< starts that somebody has asked for, given or not
  bool parts = false;  ///< convolutions and shifts hand on tokens, too: the layer reads a piece of a sequence
  Tensor<std::int32_t>* places =
      nullptr;  ///< int32 [B,T]: tokens of the sequence up to each of the piece; nullptr: the first piece

  Var<Real> start(Graph<Real>& graph, const std::string& name) {
    asked.insert(name);
    const auto found = starts.find(name);
    return found == starts.end() ? Var<Real>{} : Var<Real>{&graph, found->second};
  }
  void end(const std::string& name, Var<Real> value) {
    value.graph->keep(value.variable);
    ends[name] = value.variable;
  }
  /// x [B,T,H,n] of the token before; before the first that of the piece before, or 0. `name` is handed on.
  Var<Real> token_before(const std::string& name, Var<Real> x);
};

/// A convolution as kernels/conv/short_conv.h has it, which goes on from the piece before: x and gate [B,T,C], w [C,W],
/// bias [C]; the last two may be nullptr. `name` and a number are handed on.
template <class Real>
Variable<Real>* carried_conv(Graph<Real>& graph, Carried<Real>& carried, const std::string& name,
                             Variable<Real>* x, Variable<Real>* w, bool silu, Variable<Real>* bias = nullptr,
                             Variable<Real>* gate = nullptr);

}  // namespace crosstalk
