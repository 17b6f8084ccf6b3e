// What a memory's file says: one Memory, a preset over parts with its update rule. The file NAME.cpp holds a function
// `Memory NAME()` in namespace crosstalk::memories; the build finds it, and NAME_test.cpp with its oracle beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/parts.h"

namespace crosstalk {

/// Floats of one head's state with keys of size K (after phi), values of size V, after T tokens.
using StateSize = std::int64_t (*)(const Options& options, std::int64_t K, std::int64_t V, std::int64_t T);
namespace state {
/// A matrix V x K.
inline std::int64_t matrix(const Options&, std::int64_t K, std::int64_t V, std::int64_t) { return K * V; }
/// The same and z, the sum of keys, where read_norm is "attention".
inline std::int64_t matrix_and_sum(const Options& o, std::int64_t K, std::int64_t V, std::int64_t) {
  return (V + (o.get_string("memory.read_norm") == "attention" ? 1 : 0)) * K;
}
/// Keys and values of all tokens.
inline std::int64_t cache(const Options&, std::int64_t K, std::int64_t V, std::int64_t T) {
  return T * (K + V);
}
}  // namespace state

/// One generic lambda [](auto& m) that takes a Mixer and gives what is read, [B,Q,H,V], kept for both precisions.
struct Build {
  std::function<Var<float>(Mixer<float>&)> single;
  std::function<Var<double>(Mixer<double>&)> precise;
  template <class F>
  Build(F f)
      : single([f](Mixer<float>& m) { return f(m); }), precise([f](Mixer<double>& m) { return f(m); }) {}
  Var<float> operator()(Mixer<float>& m) const { return single(m); }
  Var<double> operator()(Mixer<double>& m) const { return precise(m); }
};

struct Memory {
  std::string name, summary;
  std::string equation;  ///< the update and the read, in plain text
  std::string source;    ///< authors, year, arXiv number
  std::string notes = {};
  std::vector<Part> parts = {};
  std::vector<OptionSpec> options = {};  ///< the memory's own
  std::vector<MemoryInput> inputs = {};  ///< what build() asks m.input() for
  std::vector<std::string> states = {"S"};
  bool own_queries = true;   ///< false: nothing is asked by a key, and m.queries() has none
  bool own_keys = true;      ///< false: it makes its keys from a gate, and m.keys() has none
  bool forms_state = false;  ///< not linear in its state, which is formed however few reads there are
  bool own_token =
      false;  ///< a query reads the token at which it stands in a way of its own (Mixer::at_tokens)
  bool keeps_keys = false;  ///< no feature dimension bounds it: d_dot is 0
  ProjectionInit projection_init = ProjectionInit::uniform;
  StateSize state = state::matrix;
  std::function<void(Options&)> resolve = {};  ///< after the parts'
  Build build;
};

/// All of them, by name. Generated from the files of models/memories/.
const std::vector<Memory>& all_memories();
const Memory& memory_named(const std::string& name);
/// Derives and refuses what the memory's parts and the memory itself say, without building anything.
void resolve_alone(const Memory& memory, Options& options);

}  // namespace crosstalk
