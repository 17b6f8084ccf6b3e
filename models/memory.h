// A memory as the program sees it: name, equation, options, inputs, feature dimension, state size. How it is
// built into a graph is in models/memories/.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/options.h"

namespace crosstalk {

/// How the key and query projections of the retrieval model start.
enum class ProjectionInit {
  uniform,  ///< U(-1/sqrt(d_key), 1/sqrt(d_key)) (Schlag, Irie, Schmidhuber 2021, linearAttention.py)
  xavier,   ///< U(-a, a), a = sqrt(6 / (inputs + d_key)) (the same, softmaxAttention.py)
};

/// What an input of a memory has a number for; "." stands for [B,T,H].
enum class Per {
  token,     ///< [.]
  key,       ///< [.,K]
  value,     ///< [.,V]
  write,     ///< [B,T,N,H]: every write of a token
  head,      ///< [H]
  head_key,  ///< [H,K]
  other,     ///< as MemoryInput::shape says
};

/// Hidden units of a memory that is a network, with keys of size K.
constexpr int hidden(int K) { return 4 * K; }

/// What a probe without learned gates (models/probe_model.h) gives an input: value + key k_t.
struct Open {
  double value = 0, key = 0;
};

/// What a memory is fed with besides q, k and v: gates, rates, further keys. A model makes it from the token
/// by the memory's law; `crosstalk apply` reads it from a file. One called x0 or NAME_0 is what a state x or NAME
/// is before the first token.
struct MemoryInput {
  std::string name;
  Per per = Per::token;
  bool optional = false;
  std::string shape = {};  ///< Per::other: "[H,V,K]", in the letters of apply (M: hidden units)
  /// Such that nothing is held back and nothing fades. Absent: 0 for what is called log_..., else 1.
  std::optional<Open> open = {};
};

/// A registered memory: a preset over parts. Options live under "memory.".
struct MemoryKind {
  std::string name;                 ///< "softmax", "linear_attention", "delta", ...
  std::string summary;              ///< one line
  std::string equation;             ///< in plain text
  std::string source;               ///< authors, year, arXiv number
  std::string description;          ///< equation and source in sentences
  std::vector<OptionSpec> options;  ///< feature_map, nu, d_dot, ...; without "name"
  std::vector<MemoryInput> inputs;  ///< besides q, k, v
  std::vector<std::string> states;  ///< what it carries from token to token
  /// Fills derived options in place and refuses combinations without meaning with the reason (OptionError).
  /// Reads "model.d_key" and "model.heads".
  std::function<void(Options& options)> resolve;
  /// Dimension of phi(k), all heads together; 0 for memories that keep their keys.
  std::function<std::int64_t(const Options& options)> d_dot;
  /// Floats kept per sequence at inference after `length` tokens: all heads with `values` value dimensions each (in a
  /// probe with those of its codes), or all layers of a language model.
  std::function<std::int64_t(const Options& options, std::int64_t values, std::int64_t length)> state_size;
  ProjectionInit projection_init = ProjectionInit::uniform;
  bool own_queries = true;   ///< false: nothing is asked by a key
  bool own_keys = true;      ///< false: it makes its keys from a gate
  bool forms_state = false;  ///< not linear in its state, which is formed however few reads there are
};

const std::vector<MemoryKind>& memory_kinds();
const MemoryKind* find_memory(const std::string& name);

/// Feature maps, for `list feature-maps`.
struct FeatureMapInfo {
  std::string name, formula, d_dot, source;
  bool positive;  ///< features are never negative, so sums of them may divide
};
const std::vector<FeatureMapInfo>& feature_map_infos();

/// Options of the models under "model.".
const std::vector<OptionSpec>& model_options();
/// Derives sizes that are 0 (model.d_key, and model.embedding = int(1.1 (keys + values)) of the retrieval model); refuses
/// what the model cannot do. Before MemoryKind::resolve, which needs the sizes.
void resolve_model(Options& options, const Vocabulary& vocabulary);

}  // namespace crosstalk
