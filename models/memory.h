// Description that a memory gives of itself: name, equation, options, inputs, feature dimension, state size, and how it is built into a
// graph. Each is declared by a file of models/memories/.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/size.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

template <class Real>
struct Var;
template <class Real>
class Mixer;

/// Starts of the key and query projections of the retrieval model.
enum class ProjectionInit {
  uniform,  ///< U(-1/sqrt(d_key), 1/sqrt(d_key)) (Schlag, Irie, Schmidhuber 2021, linearAttention.py)
  xavier,   ///< U(-a, a), a = sqrt(6 / (inputs + d_key)) (the same, softmaxAttention.py)
};

/// Extent of an input of a memory, a number for each; "." stands for [B,T,H].
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
constexpr Size hidden(std::int64_t K) { return Size(4 * K); }

/// Value of an input in a probe without learned gates (models/mixers/probe_model.h): value + key k_t.
struct Open {
  double value = 0, key = 0;
};

/// Numbers for which an input makes sense; tests draw them from it, and now and then `rare`.
struct Range {
  double low = 0, high = 0;
  std::optional<double> rare = {};
  bool given() const { return low < high; }
};

/// An input of a memory besides q, k and v: gates, rates, further keys. A model makes it from the token
/// by the memory's law; `crosstalk apply` reads it from a file. One called x0 or NAME_0 is what a state x or NAME
/// is before the first token.
struct MemoryInput {
  std::string name;
  Per per = Per::token;
  bool optional = false;
  std::string shape = {};   ///< Per::other: "[H,V,K]", in the letters of apply (models/apply_model.h)
  std::string symbol = {};  ///< what the equation calls it, where that is not its name: "kappa"
  /// Value with which nothing is held back and nothing fades. Absent: 0 for what is called log_..., else 1.
  std::optional<Open> open = {};
  Range range = {};   ///< not given: tests draw normal numbers
  bool unit = false;  ///< rows have length 1
};

/// A token's effect on what a memory holds; tables list memories by it.
enum class Family {
  keeps,    ///< keeps keys and values: keeps_keys, no states, and state::cache follow
  adds,     ///< adds to a state
  erases,   ///< takes out of a state what it replaces
  own_law,  ///< has a law of its own
};
const char* title_of(Family family);

/// Options with their checks that several memories share (models/parts/parts.h).
struct Part {
  std::vector<OptionSpec> options;
  std::function<void(Options&)> resolve = {};
};

/// Floats of one head's state with keys of size K (after phi), values of size V, after T tokens.
using StateSize =
    std::function<std::int64_t(const Options& options, std::int64_t K, std::int64_t V, std::int64_t T)>;
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

/// About how many floating-point operations one head takes to train a sequence, forward and backward, with keys of size K
/// (after phi), values of size V, T tokens and Q queries, values being ids.
using Flops = std::function<double(const Options& options, double K, double V, double T, double Q)>;
namespace flops {
/// Weights of tokens for queries: 6 is a product q.k and the gradients of both, 10 with a decay a channel, 14 with an erase
/// along the key, 18 with both.
template <int each>
double weights(const Options&, double K, double, double T, double Q) {
  return each * K * T * Q;
}
/// A state V x K that is formed at every token.
template <int each>
double formed_state(const Options&, double K, double V, double T, double) {
  return each * K * V * T;
}
}  // namespace flops

/// One generic lambda [](auto& m) that takes a Mixer and gives what is read, [B,Q,H,V], kept for both precisions.
struct Build {
  std::function<Var<float>(Mixer<float>&)> single;
  std::function<Var<double>(Mixer<double>&)> precise;
  Build() = default;
  template <class F>
  Build(F f)
      : single([f](Mixer<float>& m) { return f(m); }), precise([f](Mixer<double>& m) { return f(m); }) {}
  Var<float> operator()(Mixer<float>& m) const;
  Var<double> operator()(Mixer<double>& m) const;
};

/// Channels of a head: none (1), those of its keys (K) or of its values (V).
enum class HeadChannels { none, keys, values };

/// A thing that a published layer lacks or has otherwise, and what follows.
struct Difference {
  std::string what, consequence;
};

/// The layer that a memory's authors put around it: what model.layer = "published" sets where a study says nothing.
struct PublishedLayer {
  std::string source;  ///< a paper, a file at a commit; "; FILE": the source of the memory, then the file
  /// Options of the model's parts and of the memory: "inner=true, biases=query -out_gate, memory.mini_batch=16".
  std::string settings = {};
  std::vector<std::pair<std::string, OptionValue>> set =
      {};                             ///< the same by their whole names; the registry makes it
  double expand_k = 1, expand_v = 1;  ///< keys and values of all heads, as multiples of model.width
  /// model.out_norm_eps is this times as large: K where the source divides queries by sqrt(K), which the norm of what is read
  /// undoes but for its eps: norm(o / sqrt(K); eps) = norm(o; K eps). V where the source says so.
  HeadChannels eps_times = HeadChannels::none;
  std::int64_t parameters = 0;  ///< of one layer of width 64 with 2 heads, as the source counts; 0: no count
  /// Ends of names of parameters that the source takes out of weight decay (train.no_decay = "marked").
  std::vector<std::string> undecayed = {};
  std::vector<Difference> lacks = {};  ///< what the authors have and no part can say
  explicit operator bool() const { return !source.empty(); }
};

/// A memory: a preset over parts, declared by models/memories/NAME.cpp. What figures, tables, tests and documents say of
/// it, they take from here. Options live under "memory.".
struct Memory {
  std::string name = {};  ///< that of its file: "softmax", "linear_attention", "delta", ...
  std::string summary;    ///< one line
  std::string does;       ///< what a token does, for tables: "fades all as the token says, then adds"
  Family family = Family::adds;
  /// Its law in the language of docs/rules.md, a step a line. Where it stands, what follows is made from it unless it is given:
  /// equation, laws, inputs' extents and ranges, states, state, flops, own_token, bounded_by_rank, build (models/rules/memory_law.h).
  std::string law = {};
  std::string equation = {};  ///< the update and the read of q, k, v and the inputs, in plain text
  std::string laws = {};      ///< how a model makes the inputs, in plain text
  std::string source;         ///< authors, year, arXiv number
  std::string notes = {};     ///< sentences
  /// Reads beside the sequence are W x_q with one W [V,d_dot] a sequence: their rank is at most d_dot (results/numbers/theory.h).
  bool bounded_by_rank = false;
  bool order_free = false;  ///< reads beside the sequence do not depend on the order of the tokens
  Flops flops = {};         ///< absent: flops::weights<6>
  std::vector<Part> parts = {};
  std::vector<OptionSpec> options =
      {};  ///< its own; the registry puts those of its parts before them, and `form` behind
  std::vector<MemoryInput> inputs = {};     ///< what build() asks m.input() for
  std::vector<std::string> states = {"S"};  ///< what it carries from token to token
  bool own_queries = true;                  ///< false: nothing is asked by a key, and m.queries() has none
  bool own_keys = true;                     ///< false: it makes its keys from a gate, and m.keys() has none
  bool forms_state = false;  ///< not linear in its state, which is formed however few reads there are
  /// On a GPU one token after the other, forward and back, for its step depends on what it has read: no form over chunks.
  bool token_by_token = false;
  bool own_token =
      false;  ///< a query reads the token at which it stands in a way of its own (Mixer::at_tokens)
  bool read_at_all =
      false;  ///< on a GPU all tokens of a language model ask, wherever answers are due: its kernels are faster
  bool keeps_keys = false;  ///< no feature dimension bounds it: d_dot is 0
  ProjectionInit projection_init = ProjectionInit::uniform;
  StateSize state = {};  ///< absent: state::matrix
  /// Further letters of shapes, each with the whole-number option that says its size: {{'S', "slots"}}.
  std::map<char, std::string> letters = {};
  /// Runs after the parts': derives options in place, and refuses combinations without meaning with the reason (OptionError).
  std::function<void(Options&)> check = {};
  Build build = {};
  PublishedLayer published = {};

  /// Fills derived options in place and refuses combinations without meaning (OptionError). Reads "model.d_key" and
  /// "model.heads".
  void resolve(Options& options) const;
  /// Resolves what the parts and the memory itself say, without building anything.
  void resolve_alone(Options& options) const;
  /// Dimension of phi(k), all heads together; 0 for memories that keep their keys.
  std::int64_t d_dot(const Options& options) const;
  /// Floats kept per sequence at inference after `length` tokens: all heads with `values` value dimensions each (in a
  /// probe with those of its codes), or all layers of a language model.
  std::int64_t state_size(const Options& options, std::int64_t values, std::int64_t length) const;
  /// Options that none of its parts has.
  std::vector<OptionSpec> own_options() const;
  /// The layer around it as its authors run it, in sentences.
  std::string published_text() const;
  /// Equation, laws, notes and source in sentences.
  std::string description() const;
};

/// All of them, by name: those of models/memories/.
const std::vector<Memory>& all_memories();
const Memory* find_memory(const std::string& name);
/// The same; there must be one.
const Memory& memory_named(const std::string& name);

/// Feature maps, for `list feature-maps`.
struct FeatureMapInfo {
  std::string name, formula, d_dot, source;
  bool positive;  ///< features are never negative, so sums of them may divide
};
const std::vector<FeatureMapInfo>& feature_map_infos();

/// Options of the models under "model.".
const std::vector<OptionSpec>& model_options();
/// Derives sizes that are 0 (model.d_key, and model.embedding = int(1.1 (keys + values)) of the retrieval model); refuses
/// what the model cannot do. Before Memory::resolve, which needs the sizes.
void resolve_model(Options& options, const Vocabulary& vocabulary);

}  // namespace crosstalk
