// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/known_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "experiments/inspect/inspect.h"

namespace crosstalk {
namespace {

const char* shape_of(Per per) {
  switch (per) {
    case Per::token:
      return "[T,H,1]";
    case Per::key:
      return "[T,H,K]";
    case Per::value:
      return "[.,H,V]";  // a token's or a query's
    case Per::write:
      return "[M,H,1]";
    case Per::head:
      return "[1,H,1]";
    case Per::head_key:
      return "[1,H,K]";
    default:
      return "[.,H,.]";
  }
}

/// Arrays of the task, which asks Q times in any model.
bool of_task(const std::string& name) {
  return name.starts_with("query") || name == "answer" || name == "output";
}

ArrayMeaning plain_meaning(const std::string& name, const Memory& memory, bool language) {
  for (const MemoryInput& input : memory.inputs)
    if (input.name == name) return {shape_of(input.per), fmt::format("input {} of {}", name, memory.name)};
  for (const KnownArray& known : known_arrays()) {
    if (name != known.name) continue;
    return {language && known.shape_in_language ? known.shape_in_language : known.shape,
            language && known.meaning_in_language ? known.meaning_in_language : known.meaning};
  }
  if (name.starts_with("token.")) return {"[T,H,n]", "projection of the token, before its nonlinearity"};
  if (name.starts_with("state_")) return {"[P,H,.,.]", fmt::format("the state {}", name.substr(6))};
  return {"[.,H,.]", "made by the memory on its way"};
}

}  // namespace

const std::vector<KnownArray>& known_arrays() {
  static const std::vector<KnownArray> all = {
      {"keys", "[T]", "key of each token; of a swap, the first"},
      {"values", "[T]", "value written with it; -1: none"},
      {"second_keys", "[T]", "second key of a swap; -1: none (tasks with swaps)"},
      {"inputs", "[T,n]", "inputs of the examples shown (task regression)"},
      {"outputs", "[T,1]", "their outputs (task regression)"},
      {"query_inputs", "[Q,n]", "inputs that are asked (task regression)"},
      {"query_outputs", "[Q,1]", "the output that is right for each (task regression)"},
      {"operations", "[T]", "0 pad, 1 write, 2 swap, 3 identity, 4 asks for an answer, 5 multiplies"},
      {"tokens", "[T]", "ids of the tokens (a language model has these alone)"},
      {"query", "[Q]", "key asked", "token at which the answer is due"},
      {"query_position", "[Q]", "number of leading tokens that the read sees",
       "number of tokens up to the one at which the answer is due, and with it"},
      {"answer", "[Q]", "value that is right", "answer that is right; -1: none is due"},
      {"output", "[Q,V]", "what is read, heads added up; the largest entry is the answer given",
       "logits of the whole model, of every answer; the largest is the answer given", "[Q,answers]"},
      {"q", "[Q,H,d]", "queries before phi"},
      {"k", "[M,H,d]", "keys before phi; M = T times writes a token"},
      {"v", "[M,H,V]", "values that are written (a language model)"},
      {"retrieved", "[Q,H,V]", "what the memory reads, before a norm or a gate of it (a language model)"},
      {"phi_q", "[Q,H,K]", "queries after phi and key_norm"},
      {"phi_k", "[M,H,K]", "keys after phi and key_norm"},
      {"score_key", "[M,H,K]", "what queries are compared with, where it is not phi_k (turned, normalised)"},
      {"score_query", "[Q,H,K]", "and what is compared with it"},
      {"write_key", "[M,H,K]", "the key under which is written, where it is not phi_k"},
      {"write_gain", "[M,H,1]", "what a write is multiplied by, where no input of the memory is that"},
      {"decay", "[T,H,1]", "what the state is multiplied by, where it is not given as log_decay"},
      {"erase_read", "[M,H,K]", "along which is read what is erased, where it is not the key"},
      {"erase_write", "[M,H,K]", "along which is erased, where it is not the key"},
      {"erase_gain", "[M,H,1]", "what erasing is multiplied by, where it is not the write's gain"},
      {"INPUT", "[T,H,.]", "each input of the memory ('crosstalk describe MEMORY'), as the token decides it"},
      {"token.NAME", "[T,H,n]", "each further projection of the token, before its nonlinearity"},
      {"read_weights", "[H,Q,M]",
       "output = sum over writes of weight times value, before read_norm layernorm",
       "retrieved = sum over writes of weight times v; row t reads at token t"},
      {"key_overlap", "[H,M,M]",
       "products of keys as they are written and compared, phi(k_i).phi(k_j): the crosstalk"},
      {"positions", "[P]", "numbers of tokens after which states are given"},
      {"state_S", "[P,H,V,K]", "the state, likewise state_z where reads are divided, and further states"},
      {"spectrum_positions", "[N]", "numbers of tokens after which singular values are given"},
      {"singular_values", "[N,H,min(V,K)]", "of the state S, the largest first"},
      {"effective_rank", "[N,H]",
       "exp(-sum p log p), p = singular values over their sum (Roy and Vetterli 2007); 0 of an empty state"},
      {"half_life", "[T,H,1|K]", "tokens after which half of the state is left: log(1/2) / log(decay)"},
  };
  return all;
}

ArrayMeaning meaning_of(const std::string& name, const Memory& memory, bool language) {
  ArrayMeaning found = plain_meaning(name, memory, language);
  if (language && !of_task(name)) std::ranges::replace(found.shape, 'Q', 'T');
  return found;
}

bool is_vector(const std::string& name) {
  static const std::set<std::string> vectors = {
      "k", "q", "v", "phi_k", "phi_q", "a", "b", "retrieved", "score_query", "erase_read", "erase_write"};
  return vectors.count(name) != 0 || name.find("key") != std::string::npos || name.starts_with("token.");
}

std::string inspect_reference() {
  std::string text;
  for (const KnownArray& known : known_arrays())
    text += fmt::format("  {:<18} {:<15} {}\n", known.name, known.shape, known.meaning);
  return text;
}

}  // namespace crosstalk
