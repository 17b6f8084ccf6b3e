// SPDX-License-Identifier: Apache-2.0
#include "models/rules/rule_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "kernels/base/error.h"
#include "models/apply_model.h"
#include "models/engines.h"
#include "models/memory_files.h"
#include "models/parts/parts.h"
#include "models/rules/lower.h"
#include "models/rules/memory_law.h"
#include "models/rules/program.h"
#include "models/rules/sequential.h"

namespace crosstalk::rules {
namespace {

void check_engine(const Rule& rule) {
  if (rule.refused.empty()) return;
  throw OptionError("memory.law",
                    fmt::format("nothing can run this law: {}; and it is no call of the other engines: {}",
                                rule.refused, rule.plan.reason));
}

template <class Real>
Var<Real> build(Mixer<Real>& m) {
  const Rule& rule = rule_of(m.options);
  check_engine(rule);
  bool carried = m.wants_end();
  for (const LawState& one : rule.law->states) carried = carried || m.start(one.name);
  const bool turned = carried && rule.plan.transposed;
  if (turned && rule.plan.reason.empty() && m.has("form") && m.text("form") != "automatic" &&
      m.text("form") != "recurrent")
    throw OptionError(
        "memory.form",
        fmt::format("memory.form = \"{}\" of a law whose state is the transpose of what engines keep "
                    "gives no states; write it for S = H^T, or use \"automatic\" or \"recurrent\"",
                    m.text("form")));
  if (rule.plan.reason.empty() && !turned) return read_law(m, *rule.law, rule.plan);
  // A law of its own: the adjoint adds nodes to it, and others may build at the same time.
  const std::unique_ptr<Law> law = parse_law(steps_of(rule.text), numbers_of(m.options));
  return read_sequentially(m, *law);
}

}  // namespace

const std::vector<OptionSpec>& number_options() {
  static const std::vector<OptionSpec> all = [] {
    std::vector<OptionSpec> specs;
    for (const char* name : {"c", "c2", "c3"}) {
      OptionSpec spec{name, 1.0, "a number that the law may name, for grids; 1 where it does not"};
      spec.tried = {1.0};
      specs.push_back(spec);
    }
    return specs;
  }();
  return all;
}

std::vector<NamedNumber> numbers_of(const Options& options) {
  std::vector<NamedNumber> out;
  for (const OptionSpec& one : number_options()) {
    const std::string key = fmt::format("memory.{}", one.name);
    out.push_back({one.name, options.has(key) ? options.get_double(key) : 1});
  }
  return out;
}

void resolve_law(Options& options) {
  const std::string& given = options.get_string("memory.law");
  const std::vector<NamedNumber> numbers = numbers_of(options);
  const Rule& rule = rule_of(options);
  check_engine(rule);
  if (options.has("memory.form")) {
    const std::string& form = options.get_string("memory.form");
    if (rule.plan.reason.empty() && form == "compiled")
      throw OptionError(
          "memory.form",
          "memory.form = \"compiled\" is of laws that run token after token, and the engines of the "
          "built-in memories run this one; use \"automatic\"");
    if (!rule.plan.reason.empty() && form != "automatic" && form != "recurrent" && form != "compiled")
      throw OptionError("memory.form",
                        fmt::format("memory.form = \"{}\" is of recurrences, and this law runs token "
                                    "after token: {}; use \"automatic\", \"recurrent\" or \"compiled\"",
                                    form, rule.plan.reason));
  }
  std::vector<Value> all = rule.law->roots();
  for (const LawState& one : rule.law->states)
    if (one.start) all.push_back(one.start);
  for (const NamedNumber& one : numbers) {
    const bool named = std::any_of(all.begin(), all.end(), [&](Value root) {
      return holds(root, [&](Value n) { return n->kind == Kind::number && n->name == one.name; });
    });
    if (named || one.value == 1) continue;
    const std::vector<std::string> steps = steps_of(given);
    const bool set = std::any_of(steps.begin(), steps.end(), [&](const std::string& step) {
      return parse_step(step, 1).name == one.name;
    });
    throw OptionError(
        "memory." + one.name,
        fmt::format("memory.{0} = {1}, but {2}, or leave memory.{0} away", one.name, one.value,
                    set ? fmt::format("a step of the law sets {}; take that step away", one.name)
                        : fmt::format("the law does not name {0}; write {0} in it", one.name)));
  }
  if (given != rule.text) options.set("memory.law", rule.text);
}

Memory memory_with(const Rule& rule) {
  const Law& law = *rule.law;
  Memory memory{
      .name = "rule",
      .summary = "a law written in the study file",
      .does = "what its law says, which is text in the study file",
      .family = Family::own_law,
      .equation = rule.text,
      .source = "docs/rules.md",
      .notes = "A law is a list of steps: what the token decides, what it does to states, and what is read.",
      .flops = flops::weights<14>,
      .parts = {feature_map("identity"), key_norm("l2")},
      .options = {{"law", std::string("beta = sigmoid(token); S += beta (v - S k) k^T; read S q"),
                   "the steps of the law, a list of strings or one with ; between them"}},
      .states = {},
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return numbers_of_states(*rule_of(o).law, K, V); },
      .check = resolve_law,
      .build = [](auto& m) { return build(m); },
  };
  memory.options.insert(memory.options.end(), number_options().begin(), number_options().end());
  std::vector<std::string> forms = form_names();
  forms.push_back("compiled");
  memory.options.push_back(
      {"form", forms.front(),
       "which of the equal forms computes it (automatic: by shapes; compiled: a law that runs token after token, by NVRTC for the GPU at hand)",
       0, 0, forms});
  follow(law, memory);
  return memory;
}

const Rule& rule_of(const std::string& text, const std::vector<NamedNumber>& numbers) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Rule>> known;
  std::string key = text;
  for (const NamedNumber& one : numbers) key += fmt::format("\n{}={}", one.name, one.value);
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return *it->second;
  }
  auto rule = std::make_unique<Rule>();
  rule->text = accept_law(steps_of(text), numbers).text;
  rule->law = parse_law(steps_of(rule->text), numbers);
  rule->plan = recognise(*rule->law);
  if (!rule->plan.reason.empty() || rule->plan.transposed)
    rule->refused = refused_by_program(*parse_law(steps_of(rule->text), numbers));
  rule->memory = completed(memory_with(*rule));
  const std::lock_guard lock(mutex);
  return *known.try_emplace(key, std::move(rule)).first->second;
}

const Rule& rule_of(const Options& options) {
  const std::string& text = options.get_string("memory.law");
  try {
    return rule_of(text, numbers_of(options));
  } catch (const LawError& error) {
    throw OptionError("memory.law", fmt::format("step {}, column {} of the law: {}", error.step, error.column,
                                                error.what()));
  }
}

std::optional<LawError> refused_law(const std::vector<std::string>& steps) {
  std::vector<NamedNumber> numbers;
  for (const OptionSpec& one : number_options()) numbers.push_back({one.name, 1});
  const std::vector<std::string> cut = steps.size() == 1 ? steps_of(steps[0]) : steps;
  try {
    accept_law(cut, numbers);
    return {};
  } catch (const LawError& error) {
    int column = error.column;
    for (int i = 1; steps.size() == 1 && i < error.step; ++i)
      column += static_cast<int>(cut[static_cast<std::size_t>(i) - 1].size()) + 1;
    return LawError(steps.size() == 1 ? 1 : error.step, column, error.what());
  }
}

}  // namespace crosstalk::rules

namespace crosstalk {

const Memory& memory_of(const Options& options) {
  const Memory& memory = memory_named(options.get_string("memory.name"));
  if (memory.name != "rule" || !options.has("memory.law")) return memory;
  return rules::rule_of(options).memory;
}

}  // namespace crosstalk
