// Guesses of what somebody may have meant: a table of synonyms, and distances between words.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace crosstalk {
namespace {

/// Small letters and digits: "AdamW", "adam-w" and "adam_w" are one word.
std::string folded(std::string_view name) {
  std::string word;
  for (const char c : name)
    if (const auto byte = static_cast<unsigned char>(c); std::isalnum(byte) != 0)
      word += static_cast<char>(std::tolower(byte));
  return word;
}

/// Letters left out, added, changed, or swapped with their neighbour.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, row(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before = row;
    std::swap(row, next);
  }
  return row.back();
}

/// The one name that goes on where `word` ends; "" for several.
std::string continued(const std::string& word, const std::vector<std::string>& names) {
  if (word.size() < 3) return "";
  std::string only;
  for (const std::string& name : names) {
    if (folded(name).compare(0, word.size(), word) != 0 || name == only) continue;
    if (!only.empty()) return "";
    only = name;
  }
  return only;
}

/// The one dotted name of which `word` is the last part: model.d_key for dkey; "" for several.
std::string ending_in(const std::string& word, const std::vector<std::string>& names) {
  std::string only;
  for (const std::string& name : names) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || folded(name.substr(dot + 1)) != word || name == only) continue;
    if (!only.empty()) return "";
    only = name;
  }
  return only;
}

}  // namespace

const std::vector<Synonym>& synonyms() {
  static const std::vector<Synonym> all = {
      // Memories.
      {"softmax",
       {"attention", "attn", "transformer", "selfattention", "fullattention", "softmaxattention",
        "vanillaattention", "dotproductattention", "multiheadattention", "causalattention", "mha", "sdpa"}},
      {"linear_attention", {"linear", "lineartransformer", "linearattn", "sumrule", "la"}},
      {"sliding_window", {"swa", "local", "localattention", "windowattention", "slidingwindowattention"}},
      {"fox", {"forgettingtransformer", "forgettingattention"}},
      {"attention_sink", {"sink", "sinks", "softmax1", "gptoss"}},
      {"rope", {"rotary", "rotaryembedding", "rotaryembeddings"}},
      {"path", {"pathattention"}},
      {"retnet", {"retention", "retentivenetwork"}},
      {"fast_weights", {"fastweight", "fastweightprogrammer"}},
      {"simple_gla", {"simplegatedlinearattention"}},
      {"mamba2", {"mamba", "ssd", "ssm"}},
      {"mamba1", {"s6", "selectivessm"}},
      {"gla", {"gatedlinearattention"}},
      {"hgrn2", {"hgrn"}},
      {"mlstm", {"xlstm"}},
      {"rwkv7", {"rwkv", "goose"}},
      {"rwkv6", {"finch"}},
      {"delta", {"deltarule", "fwp"}},
      {"gated_delta", {"gateddeltanet", "gateddeltarule", "gdn"}},
      {"gated_delta2", {"gateddeltanet2", "gdn2"}},
      {"log_linear_gated_delta", {"loglineargateddeltanet"}},
      {"kda", {"kimi", "kimilinear", "kimideltaattention"}},
      {"fwm", {"fastweightmemory"}},
      {"mesa", {"mesanet"}},
      {"s4d", {"s4", "dss"}},
      {"ttt_linear", {"ttt"}},
      {"titans_linear", {"titans"}},
      // Tasks.
      {"recall", {"ar", "associativerecall"}},
      {"mqar", {"multiqueryassociativerecall", "zoology"}},
      {"words", {"statetracking", "wordproblem", "groups", "parity"}},
      {"automaton",
       {"flipflop", "regbench", "dyck", "evenpairs", "cyclenavigation", "majority", "finiteautomaton",
        "dfa"}},
      {"trace", {"repl", "program", "code", "repltrace"}},
      {"induction", {"inductionhead", "inductionheads"}},
      {"file", {"custom", "npy", "numpy", "owntask"}},
      {"tokens", {"arrays", "datasegment", "tokenfile", "tokenfiles"}},
      {"text", {"corpus", "bytes", "wikitext", "enwik8", "charlm", "languagemodelling", "languagemodeling"}},
      {"mad_recall", {"incontextrecall", "noisyrecall", "fuzzyrecall"}},
      {"selective_copy", {"selectivecopying", "copying"}},
      {"memorise", {"memorize", "memorisation", "memorization"}},
      {"arithmetic", {"modulararithmetic", "modarithmetic", "mano"}},
      {"context_recall",
       {"cdar", "jointrecall", "contextdependentrecall", "contextdependentassociativerecall"}},
      {"compression", {"autoencoding"}},
      {"palindrome", {"reversestring", "reversal", "copy", "bucketsort", "set"}},
      {"stacks", {"stack", "64stacks", "stackmanipulation"}},
      {"k_hop", {"khopinduction", "hops", "multihop"}},
      {"brevo", {"toposort", "topologicalorder", "ancestors", "dependencies"}},
      {"reachability", {"dag", "dagreachability", "graphreachability"}},
      // Feature maps.
      {"elu1", {"elu", "eluplusone", "eluplus1"}},
      {"favor", {"performer", "favorplus"}},
      {"rfa", {"rff", "randomfourierfeatures", "randomfeatures"}},
      {"taylor", {"based", "taylorexp"}},
      {"power", {"poly", "polynomial"}},
      {"identity", {"none", "linear"}},
      // Values of keys.
      {"bf16", {"fp16", "float16", "half", "bfloat16", "amp", "mixed"}},
      {"fp32", {"float32", "float", "single"}},
      {"fp64", {"float64", "double"}},
      {"tf32", {"tensorfloat32"}},
      {"constant", {"none"}},
      {"cosine", {"cosineannealing", "cosineannealinglr", "cos"}},
      {"layer", {"layernorm", "ln"}},
      {"rms", {"rmsnorm"}},
      {"language", {"lm", "gpt", "transformer", "languagemodel"}},
      // Keys.
      {"train.learning_rate", {"lr", "stepsize", "rate"}},
      {"train.weight_decay", {"wd"}},
      {"train.batch", {"batchsize", "bs", "minibatch"}},
      {"train.max_steps", {"steps", "numsteps", "nsteps", "iterations", "iters", "trainsteps"}},
      {"train.epochs", {"epoch", "nepochs", "numepochs", "maxepochs"}},
      {"train.warmup_steps", {"warmup", "numwarmupsteps"}},
      {"train.clip_norm", {"clip", "gradclip", "gradientclip", "maxgradnorm"}},
      {"train.schedule", {"scheduler", "lrschedule", "lrscheduler"}},
      {"train.optimizer", {"optim", "optimiser", "opt"}},
      {"train.precision", {"dtype", "fp16", "bf16", "amp", "mixedprecision"}},
      {"train.patience", {"earlystopping", "earlystop"}},
      {"model.width",
       {"dmodel", "hidden", "hiddensize", "hiddendim", "dim", "embeddim", "nembd", "modeldim"}},
      {"model.layers", {"nlayers", "numlayers", "nlayer", "depth"}},
      {"model.heads", {"nheads", "numheads", "nhead"}},
      {"model.d_key", {"keydim", "dk", "keysize", "dqk", "headdim", "dhead"}},
      {"task.vocabulary", {"vocab", "vocabsize"}},
      {"task.length",
       {"seqlen", "sequencelength", "contextlength", "blocksize", "inputseqlen", "maxlen", "maxlength"}},
      {"task.pairs", {"kvpairs", "numkvpairs", "npairs"}},
      {"task.associations", {"load", "nassociations", "numassociations"}},
      // Commands.
      {"run", {"train", "fit", "start"}},
      {"plot", {"draw", "figure", "visualize"}},
      {"list", {"ls"}},
      {"status", {"progress", "ps"}},
      {"describe", {"info", "explain", "man", "show"}},
      {"new", {"init", "create"}},
      // Columns of records.
      {"eval_accuracy", {"acc", "accuracy", "evalacc", "valacc", "valaccuracy", "validationaccuracy"}},
      {"test_accuracy", {"testacc"}},
      {"eval_loss", {"loss", "valloss", "validationloss"}},
  };
  return all;
}

std::string synonym_of(std::string_view name, const std::vector<std::string>& names) {
  const std::string word = folded(name);
  for (const Synonym& synonym : synonyms())
    if (std::find(synonym.others.begin(), synonym.others.end(), word) != synonym.others.end())
      if (const auto at = std::find(names.begin(), names.end(), synonym.ours); at != names.end()) return *at;
  return "";
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  const std::string word = folded(name);
  if (word.empty()) return "";
  for (const std::string& candidate : names)
    if (folded(candidate) == word) return candidate;
  if (word.ends_with('y'))  // memory: memories
    for (const std::string& candidate : names)
      if (folded(candidate) == word.substr(0, word.size() - 1) + "ies") return candidate;
  if (const std::string meant = synonym_of(name, names); !meant.empty()) return meant;
  if (const std::string whole = ending_in(word, names); !whole.empty()) return whole;
  if (const std::string whole = continued(word, names); !whole.empty()) return whole;
  std::string best;
  std::size_t least = word.size() < 3 ? 1 : 2 + (word.size() - 1) / 4;  // fewer changes are near enough
  for (const std::string& candidate : names) {
    const std::string other = folded(candidate);
    // One of three letters is too much: gsa is no gla.
    if (word.size() == 3 && other.size() == 3 &&
        !std::is_permutation(word.begin(), word.end(), other.begin()))
      continue;
    if (const std::size_t away = distance(word, other); away < least) {
      least = away;
      best = candidate;
    }
  }
  return best;
}

}  // namespace crosstalk
