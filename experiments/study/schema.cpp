// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace crosstalk {
namespace {

const OptionSpec* find_spec(const std::vector<OptionSpec>& specs, const std::string& name) {
  const auto it =
      std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& s) { return s.name == name; });
  return it == specs.end() ? nullptr : &*it;
}

template <class Named>
const Named* find_named(const std::vector<Named>& all, const std::string& name) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Named& n) { return n.name == name; });
  return it == all.end() ? nullptr : &*it;
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& named : all) names.push_back(named.name);
  return names;
}

}  // namespace

const SchemaTask* Schema::find_task(const std::string& name) const { return find_named(tasks, name); }
const SchemaMemory* Schema::find_memory(const std::string& name) const { return find_named(memories, name); }
std::vector<std::string> Schema::task_names() const { return names_of(tasks); }
std::vector<std::string> Schema::memory_names() const { return names_of(memories); }

std::vector<std::string> Schema::keys() const {
  std::set<std::string> all = {"task.name", "memory.name", "data_seed", "init_seed"};
  const auto add = [&](const char* prefix, const std::vector<OptionSpec>& specs) {
    for (const OptionSpec& spec : specs) all.insert(fmt::format("{}.{}", prefix, spec.name));
  };
  for (const SchemaTask& task : tasks) add("task", task.options);
  for (const SchemaMemory& memory : memories) add("memory", memory.options);
  add("model", model);
  add("train", train);
  add("eval", eval);
  return {all.begin(), all.end()};
}

bool Schema::knows(const std::string& key) const {
  const std::vector<std::string> all = keys();
  return std::binary_search(all.begin(), all.end(), key);
}

std::string Schema::unknown_key(const std::string& key) const {
  const std::vector<std::string> all = keys();
  const std::size_t dot = key.find('.');
  const std::string prefix = key.substr(0, dot == std::string::npos ? 0 : dot + 1);
  const std::string last = key.substr(prefix.size());

  std::string near;
  for (const std::string& known : all) {  // the right name under the wrong prefix, or under none
    if (near.empty() && known.substr(known.find('.') + 1) == last) near = known;
  }
  if (near.empty()) near = key_elsewhere_called(last);
  if (!std::binary_search(all.begin(), all.end(), near)) near.clear();
  std::vector<std::string> siblings;
  for (const std::string& known : all) {
    if (!prefix.empty() && known.compare(0, prefix.size(), prefix) == 0) siblings.push_back(known);
  }
  if (near.empty()) {  // compare behind the prefix: it would make all its keys look alike
    std::vector<std::string> ends;
    for (const std::string& sibling : siblings) ends.push_back(sibling.substr(prefix.size()));
    if (const std::string end = nearest_name(last, ends); !end.empty()) near = prefix + end;
  }
  if (near.empty() && prefix.empty()) {  // no prefix at all: whatever lies behind one
    std::vector<std::string> ends;
    for (const std::string& known : all) ends.push_back(known.substr(known.find('.') + 1));
    if (const std::string end = nearest_name(last, ends); !end.empty())
      near = all[static_cast<std::size_t>(std::find(ends.begin(), ends.end(), end) - ends.begin())];
  }
  if (near.empty()) near = nearest_name(key, all);
  if (!near.empty()) return fmt::format("unknown key {}; did you mean {}?", key, near);
  if (!siblings.empty()) return fmt::format("unknown key {}; it could be {}", key, join_names(siblings));
  return fmt::format(
      "unknown key {}; keys begin with task., model., memory., train. or eval., or are data_seed or "
      "init_seed",
      key);
}

const OptionSpec* find_option(const Schema& schema, const std::string& task, const std::string& memory,
                              const std::string& key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return nullptr;
  const std::string prefix = key.substr(0, dot), name = key.substr(dot + 1);
  if (prefix == "model") return find_spec(schema.model, name);
  if (prefix == "train") return find_spec(schema.train, name);
  if (prefix == "eval") return find_spec(schema.eval, name);
  if (prefix == "task") {
    const SchemaTask* kind = schema.find_task(task);
    return kind ? find_spec(kind->options, name) : nullptr;
  }
  if (prefix == "memory") {
    const SchemaMemory* kind = schema.find_memory(memory);
    return kind ? find_spec(kind->options, name) : nullptr;
  }
  return nullptr;
}

std::string key_elsewhere_called(const std::string& name) {
  static const std::vector<std::pair<std::string, std::vector<std::string>>> known = {
      {"train.learning_rate", {"lr", "step_size"}},
      {"train.weight_decay", {"wd"}},
      {"train.batch", {"batch_size", "bs", "batchsize"}},
      {"train.max_steps", {"steps", "num_steps", "n_steps", "iterations", "iters", "train_steps"}},
      {"train.warmup_steps", {"warmup", "num_warmup_steps"}},
      {"train.clip_norm", {"clip", "grad_clip", "gradient_clip", "max_grad_norm"}},
      {"train.schedule", {"scheduler", "lr_schedule"}},
      {"train.precision", {"dtype"}},
      {"model.width", {"d_model", "hidden", "hidden_size", "dim", "embed_dim", "n_embd"}},
      {"model.layers", {"n_layers", "num_layers", "n_layer", "depth"}},
      {"model.heads", {"n_heads", "num_heads", "n_head"}},
      {"model.d_key", {"key_dim", "d_k", "key_size"}},
      {"task.vocabulary", {"vocab", "vocab_size"}},
      {"task.length",
       {"seq_len", "seqlen", "sequence_length", "context_length", "block_size", "input_seq_len"}},
      {"task.pairs", {"kv_pairs", "num_kv_pairs", "n_pairs"}},
      {"task.associations", {"load", "n_associations", "num_associations"}},
  };
  for (const auto& [key, names] : known) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return key;
  }
  return "";
}

std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

}  // namespace crosstalk
