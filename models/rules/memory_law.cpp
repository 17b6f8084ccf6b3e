// SPDX-License-Identifier: Apache-2.0
#include "models/rules/memory_law.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "models/apply_model.h"
#include "models/parts/parts.h"
#include "models/parts/ramps.h"
#include "models/rules/hoist.h"
#include "models/rules/kernels.h"
#include "models/rules/lower.h"
#include "models/rules/recognise.h"
#include "models/rules/report.h"
#include "models/rules/sequential.h"

namespace crosstalk::rules {
namespace {

/// "V,K", "K", "6"
std::string letters(Shape shape) {
  return shape.columns == 1 ? size_text(shape.rows)
                            : fmt::format("{},{}", size_text(shape.rows), size_text(shape.columns));
}

MemoryInput input_of(const Learned& one) {
  MemoryInput input{.name = one.name};
  const bool parameter = one.kind == Kind::parameter;
  if (one.shape.number()) {
    input.per = parameter ? Per::head : Per::token;
  } else if (one.shape == Shape{kK, 1}) {
    input.per = parameter ? Per::head_key : Per::key;
  } else if (one.shape == Shape{kV, 1} && !parameter) {
    input.per = Per::value;
  } else {
    input.per = Per::other;
    input.shape = fmt::format("[{}{}]", parameter ? "H," : "B,T,H,", letters(one.shape));
  }
  // A probe gives it its bias, where that is a number, else 0.
  input.open = Open{one.init == "constant" ? one.numbers[0] : 0, 0};
  return input;
}

/// True if a reading is a matrix that no query changes, times the query, perhaps times a number of the query: reads of many queries
/// then have the rank of their keys. Queries beside the sequence have no token of their own.
bool is_linear_read(Value read) {
  enum class In { fixed, linear, other };
  std::map<Value, In> known;
  for (Value node : order({read})) {
    const auto of = [&](std::size_t i) { return known.at(node->args[i]); };
    const auto all = [&](In what) {
      return std::all_of(node->args.begin(), node->args.end(), [&](Value a) { return known.at(a) == what; });
    };
    In in = In::other;
    const bool scaled = node->kind == Kind::mul && node->args[0]->shape.number();
    if (node->kind == Kind::asking) {
      in = In::other;
    } else if (node->kind == Kind::given && node->name == "q") {
      in = In::linear;
    } else if (all(In::fixed)) {
      in = In::fixed;
    } else if (node == read && node->kind == Kind::div && node->args[1]->shape.number()) {
      in = of(0);
    } else if (node == read && scaled) {
      in = of(1);
    } else if (node->kind == Kind::add || node->kind == Kind::sub || node->kind == Kind::neg ||
               node->kind == Kind::transpose) {
      if (all(In::linear)) in = In::linear;
    } else if (node->kind == Kind::mul || node->kind == Kind::matmul || node->kind == Kind::columns ||
               node->kind == Kind::rows) {
      if ((of(0) == In::fixed) != (of(1) == In::fixed) && (of(0) == In::linear || of(1) == In::linear))
        in = In::linear;
    } else if (node->kind == Kind::div && of(1) == In::fixed) {
      in = of(0);
    }
    known[node] = in;
  }
  return known.at(read) == In::linear;
}

/// The law of a memory with these options, and how engines run it.
struct OwnLaw {
  OwnText text;
  std::unique_ptr<Law> law;
  Plan plan;
  std::vector<Value> inputs;           ///< in the order of the text
  std::map<std::string, Value> named;  ///< inputs, weights, values, and q, k, v
};
OwnLaw made_law(OwnText text) {
  auto law = parse_law(text.steps, text.numbers, &text.memory);
  const Plan plan = recognise(*law);
  LawGraph& g = law->graph;
  OwnLaw out{std::move(text), std::move(law), plan, {}, {}};
  for (const Learned& one : out.law->learned) out.inputs.push_back(g.leaf(one.kind, one.name, one.shape));
  for (Value node : out.inputs) out.named.emplace(node->name, node);
  for (const Learned& one : out.law->weights)
    out.named.emplace(one.name, g.make(one.kind, {}, one.shape, one.name, 1));
  // What options leave out has no name.
  const std::set<Value> there = [&] {
    std::set<Value> all;
    for (const auto* some : {&out.law->learned, &out.law->weights})
      for (const Learned& one : *some)
        all.insert(g.make(one.kind, {}, one.shape, one.name, one.weight ? 1 : 0));
    return all;
  }();
  for (const auto& [name, value] : out.law->values)
    if (!holds(value, [&](Value n) { return is_learned_kind(n->kind) && there.count(n) == 0; }))
      out.named.emplace(name, value);
  for (const char* name : {"q", "k", "v"})
    out.named.emplace(name, g.leaf(Kind::given, name, {*name == 'v' ? kV : kK, 1}));
  return out;
}

/// Kept, so that addresses stay.
const OwnLaw& own_law(const Memory& memory, const Options& options, const TextPlace& place = {},
                      const std::vector<std::string>& absent = {}) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, TextPlace>, std::unique_ptr<OwnLaw>> known;
  std::string key = memory.name + memory.law;
  for (const OptionSpec& spec : memory.options) {
    const std::string name = "memory." + spec.name;
    key += "\n" + name + to_text(options.has(name) ? options.at(name) : spec.default_value);
  }
  for (const std::string& name : absent) key += "\nwithout " + name;
  const std::lock_guard lock(mutex);
  auto& one = known[{key, place}];
  if (one) return *one;
  OwnText text = own_text(memory, options, place);
  text.memory.absent = absent, text.memory.given = !place.learned;
  try {
    one = std::make_unique<OwnLaw>(made_law(std::move(text)));
  } catch (const LawError& error) {
    throw std::logic_error(
        fmt::format("memory {0} (models/memories/{0}.cpp): .law, step {1}, column {2}: {3}", memory.name,
                    error.step, error.column, error.what()));
  }
  return *one;
}

/// What a head takes for a token and a query, or a token (flops of models/memory.h).
double operations(const Plan& plan, double K, double V, double T, double Q) {
  double all = 0;
  for (const Asked& one : plan.asked) {
    const auto state = std::find_if(plan.states.begin(), plan.states.end(),
                                    [&](const StatePlan& s) { return s.name == one.state; });
    const RecurrencePlan& r = *state->recurrence;
    const bool channels = r.log_decay && !r.log_decay->shape.number();
    if (r.value_log_decay) return 14 * K * V * T;
    all += 6 + 4 * channels + 8 * (r.erase != RecurrencePlan::Erase::none) +
           4 * (r.erase == RecurrencePlan::Erase::free);
  }
  return all * K * T * Q;
}

template <class Real>
TextPlace place_of(Mixer<Real>& m, const Memory& memory) {
  TextPlace place;
  place.keys = m.K, place.values = m.V, place.d = m.d, place.heads = m.H, place.width = m.token_size();
  place.learned = m.learned(), place.beside = m.learned() && !m.has_input("of a token");
  place.earlier = m.earlier();
  // A text whose states look at queries: a probe without a model has them beside the sequence.
  if (memory.own_token && memory.own_queries && !m.at_tokens()) place.beside = true;
  if (memory.own_queries) place.scale = m.query_scale();
  return place;
}

template <class Real>
Var<Real> read_by_kernel(Mixer<Real>& m, const OwnLaw& own, const LawKernel& kernel) {
  Hoist<Real> hoist(m, *own.law);
  std::vector<Value> made;
  for (const Learned& one : own.law->learned)
    if (one.made) made.push_back(one.made);
  hoist.count(made);
  for (Value input : own.inputs) hoist.value(input);
  const Var<Real> o = kernel(m, [&](const char* name) {
    const auto found = own.named.find(name);
    return found == own.named.end() ? Var<Real>{} : hoist.value(found->second);
  });
  const Value read = own.law->read, asks = read->kind == Kind::mul ? read->args[0] : nullptr;
  if (!asks || !holds(asks, [](Value n) { return n->kind == Kind::asking; })) return o;
  return hoist.at_queries(asks, m.V) * o;
}

template <class Real>
Var<Real> build(const Memory& memory, Mixer<Real>& m) {
  std::vector<std::string> absent;
  for (const MemoryInput& input : memory.inputs)
    if (input.optional && !m.learned() && !m.has_input(input.name)) absent.push_back(input.name);
  TextPlace place = place_of(m, memory);
  // Whoever asks for eps says that it has an effect.
  if (holds(own_law(memory, m.options, place, absent).law->read, [](Value n) { return n->name == "eps"; }))
    place.eps = m.read_eps();
  const OwnLaw& own = own_law(memory, m.options, place, absent);
  const LawKernel* kernel = kernel_of_law(memory.name);
  const bool engine = own.plan.reason.empty() && !own.plan.transposed;
  if (!kernel && !engine && !memory.forms_state)
    throw std::logic_error(fmt::format(
        ".law is no call of the engines ({}); give .build too, or say .forms_state = true, and it runs token after token",
        own.plan.transposed ? "its state is H = S^T" : own.plan.reason));
  const auto token_by_token =
      [&] {  // a law of its own: the adjoint adds nodes to it, and others may build at the same time
        const auto law = parse_law(own.text.steps, own.text.numbers, &own.text.memory);
        return read_sequentially(m, *law);
      };
  const Var<Real> o = kernel   ? read_by_kernel(m, own, *kernel)
                      : engine ? read_law(m, *own.law, own.plan)
                               : token_by_token();
  return m.has("read_norm") ? normalised_read(m, o) : o;
}

std::string joined(const std::vector<std::string>& steps, std::size_t from, std::size_t to) {
  const auto at = [&](std::size_t i) { return steps.begin() + static_cast<std::ptrdiff_t>(i); };
  return fmt::format("{}", fmt::join(at(from), at(to), "; "));
}

}  // namespace

std::int64_t numbers_of_states(const Law& law, std::int64_t K, std::int64_t V, const Memory* memory) {
  const auto size = [&](int n) -> std::int64_t { return sized(n, K, V); };
  std::int64_t all = 0;
  for (const LawState& one : law.states)
    if (!memory || memory->law.empty() || !one.shape.number() || hands_on(*memory, one))
      all += size(one.shape.rows) * size(one.shape.columns);
  return all;
}

bool hands_on(const Memory& memory, const LawState& state) {
  const auto& named = memory.states;
  return named.size() > 1 ? std::count(named.begin(), named.end(), state.name) > 0 : !state.shape.number();
}

void follow(const Law& law, Memory& memory) {
  for (const Learned& one : law.learned) {
    const auto declared = std::find_if(memory.inputs.begin(), memory.inputs.end(),
                                       [&](const MemoryInput& input) { return input.name == one.name; });
    if (declared == memory.inputs.end()) {
      memory.inputs.push_back(input_of(one));
    } else if (one.made && declared->per == Per::token) {
      const MemoryInput input = input_of(one);
      declared->per = input.per, declared->shape = input.shape;
    }
  }
  const bool own = !memory.law.empty(), listed = own && memory.states.size() > 1;
  const Memory said = memory;
  if (!listed) memory.states.clear();
  for (const LawState& one : law.states) {
    if (own && !hands_on(said, one)) continue;
    if (!listed)
      memory.states.insert(own && one.name == "S" ? memory.states.begin() : memory.states.end(), one.name);
    const std::string name = start_name(one.name);
    const bool sum = (one.name == "z" || one.name == "n") && one.shape == Shape{kK, 1};
    const bool usual = one.name == "S" || (own && (sum || one.shape.number()));
    if (usual || std::any_of(memory.inputs.begin(), memory.inputs.end(),
                             [&](const MemoryInput& input) { return input.name == name; }))
      continue;
    MemoryInput start{.name = name, .per = Per::other, .optional = true};
    start.shape = fmt::format("[B,H,{}]", letters(one.shape));
    memory.inputs.push_back(start);
  }
  memory.own_token = memory.own_token || law.before;
  memory.bounded_by_rank = memory.bounded_by_rank || is_linear_read(law.read);
}

namespace {

/// "repeat OPTION: a{n} = f(a{n-1}); b{n} = .." is these steps for each n from 1 to the option, and {OPTION} its number.
std::vector<std::string> repeated(std::string line, const Memory& memory, const Options& options) {
  const auto replace = [](std::string text, const std::string& what, std::int64_t by) {
    for (std::size_t at; (at = text.find(what)) != std::string::npos;)
      text.replace(at, what.size(), std::to_string(by));
    return text;
  };
  const bool repeats = line.starts_with("repeat ");
  const std::size_t colon = repeats ? line.find(':') : 0;
  std::int64_t times = 1;
  for (const OptionSpec& spec : memory.options) {
    const auto* whole = std::get_if<std::int64_t>(&spec.default_value);
    if (!whole) continue;
    const std::int64_t n =
        options.has("memory." + spec.name) ? options.get_int("memory." + spec.name) : *whole;
    line = replace(line, "{" + spec.name + "}", n);
    if (repeats && line.substr(7, colon - 7) == spec.name) times = n;
  }
  if (!repeats) return {line};
  std::vector<std::string> steps;
  for (std::int64_t n = 1; n <= times; ++n) {
    std::string all = replace(replace(line.substr(colon + 2), "{n-1}", n - 1), "{n}", n);
    for (std::size_t end; (end = all.find("; ")) != std::string::npos; all.erase(0, end + 2))
      steps.push_back(all.substr(0, end));
    steps.push_back(all);
  }
  return steps;
}

}  // namespace

OwnText own_text(const Memory& memory, const Options& options, const TextPlace& place) {
  OwnText out;
  for (std::size_t at = 0, end = 0; at < memory.law.size(); at = end + 1) {
    end = std::min(memory.law.find('\n', at), memory.law.size());
    std::string line = memory.law.substr(at, end - at);
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) continue;
    out.steps.push_back(line);
    if (line.starts_with("repeat ") || line.find('{') != std::string::npos) {
      const std::vector<std::string> all = repeated(line, memory, options);
      out.steps.pop_back(), out.steps.insert(out.steps.end(), all.begin(), all.end());
      continue;
    }
    const std::string name = parse_step(line, static_cast<int>(out.steps.size())).name;
    if (std::any_of(memory.inputs.begin(), memory.inputs.end(),
                    [&](const MemoryInput& one) { return one.name == name; }))
      out.of_inputs = out.steps.size();
  }
  out.numbers = {{"eps", place.eps},     {"scale", place.scale},
                 {"keys", place.keys},   {"values", place.values},
                 {"d", place.d},         {"heads", place.heads},
                 {"width", place.width}, {"odds", place.earlier / (1 - place.earlier)}};
  out.numbers.push_back(
      {"rwkv7_rank", static_cast<double>(rwkv7_rank(2.5 * place.d / 64, static_cast<int>(place.width)))});
  out.memory.asks_at_tokens = memory.own_token && !place.beside;
  out.memory.options = {{"learned", place.learned ? "true" : "false"},
                        {"beside", place.beside ? "true" : "false"}};
  for (const OptionSpec& spec : memory.options) {
    const std::string key = "memory." + spec.name;
    const OptionValue& value = options.has(key) ? options.at(key) : spec.default_value;
    const auto* word = std::get_if<std::string>(&value);
    out.memory.options[spec.name] = word ? *word : to_text(value);
    if (const auto* whole = std::get_if<std::int64_t>(&value))
      out.numbers.push_back({spec.name, static_cast<double>(*whole)});
    if (const auto* real = std::get_if<double>(&value)) out.numbers.push_back({spec.name, *real});
  }
  for (const MemoryInput& input : memory.inputs) {
    if (input.optional && input.name.back() == '0') continue;  // the start of a state
    const bool of_head = input.per == Per::head || input.per == Per::head_key ||
                         (input.per == Per::other && input.shape.find('T') == std::string::npos);
    Learned one{.kind = of_head ? Kind::parameter : Kind::token, .name = input.name};
    one.each_write = input.per == Per::write, one.any_sign = input.range.given() && input.range.low < 0;
    if (of_head) one.init = "uniform", one.numbers = {1};
    const auto size = [&](std::string_view letter) {
      const auto own = memory.letters.find(letter[0]);
      if (own == memory.letters.end())
        return letter == "K" ? kK : letter == "V" ? kV : letter == "M" ? kM : std::stoi(std::string(letter));
      return static_cast<int>(std::stod(out.memory.options.at(own->second)));
    };
    std::vector<int> sizes;
    if (input.per == Per::key || input.per == Per::head_key) sizes = {kK};
    if (input.per == Per::value) sizes = {kV};
    if (input.per == Per::other) {
      for (std::size_t at = input.shape.find('H') + 1; at < input.shape.size() - 1;) {
        const std::size_t end = std::min(input.shape.find(',', at + 1), input.shape.size() - 1);
        sizes.push_back(size(input.shape.substr(at + 1, end - at - 1)));
        at = end;
      }
    }
    one.shape = {sizes.empty() ? 1 : sizes[0], sizes.size() > 1 ? sizes[1] : 1};
    out.memory.inputs.push_back(one);
  }
  return out;
}

const Law& given_law(const Memory& memory, const Options& options) { return *own_law(memory, options).law; }

std::unique_ptr<Law> study_law(const Memory& memory, const Options& options, bool given) {
  Options all = options;
  fill_defaults(all, "memory", memory.options);
  if (memory.check) memory.check(all);
  OwnText text = own_text(memory, all, {.learned = !given});
  text.memory.study = true, text.memory.given = given;
  if (given)
    text.steps.erase(text.steps.begin(), text.steps.begin() + static_cast<std::ptrdiff_t>(text.of_inputs));
  return parse_law(text.steps, text.numbers, &text.memory);
}

}  // namespace crosstalk::rules

namespace crosstalk {

void follow_law(Memory& memory) {
  using namespace rules;
  if (memory.law.empty()) return;
  const auto kept = std::make_shared<Memory>(memory);  // as its file says it
  const OwnLaw& own = own_law(*kept, {});
  if (memory.equation.empty())
    memory.equation = joined(own.text.steps, own.text.of_inputs, own.text.steps.size());
  if (memory.laws.empty()) memory.laws = joined(own.text.steps, 0, own.text.of_inputs);
  follow(*own.law, memory);
  for (MemoryInput& input : memory.inputs) {
    const auto one = std::find_if(own.law->learned.begin(), own.law->learned.end(),
                                  [&](const Learned& learned) { return learned.name == input.name; });
    if (input.range.given() || one == own.law->learned.end() || !one->made) continue;
    const Bounds b = bounds_of(*own.law, one->made);
    if (b.high <= 0) input.range = {-1.5, -0.01, -20};
    if (b.low >= 0) input.range = {0.05, 0.95};
    if (b.low == -1 && b.high == 1) input.range = {-0.9, 0.9};
  }
  if (!memory.state)
    memory.state = [kept](const Options& o, std::int64_t K, std::int64_t V, std::int64_t) {
      return numbers_of_states(*own_law(*kept, o).law, K, V, kept.get());
    };
  if (!memory.flops)
    memory.flops = [kept](const Options& o, double K, double V, double T, double Q) {
      const OwnLaw& law = own_law(*kept, o);
      const double writes = o.has("memory.writes") ? static_cast<double>(o.get_int("memory.writes")) : 1;
      // Token after token: forward, and twice as much backward.
      return law.plan.reason.empty() ? writes * operations(law.plan, K, V, T, Q)
                                     : 3 * operations_of(*law.law, K, V) * T;
    };
  if (!memory.build.single) memory.build = [kept](auto& m) { return build(*kept, m); };
}

}  // namespace crosstalk
