// SPDX-License-Identifier: Apache-2.0
#include "models/testing/law_oracle.h"

#include "models/apply_model.h"
#include "models/rules/memory_law.h"

namespace crosstalk::checks {

rules::plain::Evaluator evaluated_law(const Memory& memory, const Options& options, double eps, bool given,
                                      const rules::plain::Sizes& sizes, const rules::plain::Given& numbers) {
  rules::TextPlace place;
  place.keys = place.d = sizes.K, place.values = sizes.V, place.eps = eps, place.learned = !given;
  if (options.has("model.heads")) place.heads = static_cast<double>(options.get_int("model.heads"));
  place.width = place.heads * sizes.K;
  if (options.has("memory.scale")) place.scale = options.get_double("memory.scale");
  const rules::OwnText text = rules::own_text(memory, options, place);
  rules::plain::Own own{.options = text.memory.options, .given = given};
  for (const rules::NamedNumber& one : text.numbers) own.numbers[one.name] = one.value;
  own.numbers["head"] = numbers.count("head") != 0 ? numbers.at("head")[0] : 0;
  const auto keys = numbers.find("k");
  own.of_writes = {"k", "v"};
  for (const MemoryInput& input : memory.inputs) {
    if (input.per != Per::write) continue;
    own.of_writes.insert(input.name);
    if (given) own.writes = static_cast<int>(keys->second.size()) / (sizes.T * sizes.K);
  }
  const auto size = [&](int n) { return rules::sized(n, sizes.K, sizes.V); };
  for (const rules::Learned& one : text.memory.inputs) {
    const bool made = std::any_of(text.steps.begin(), text.steps.end(), [&](const std::string& step) {
      return rules::parse_step(step, 1).name == one.name;
    });
    if ((!made || given) && numbers.count(one.name) != 0)
      own.inputs[one.name] = {size(one.shape.rows), size(one.shape.columns)};
  }
  return {text.steps, sizes, numbers, own};
}

Matrix read_by_law(const Memory& memory, const Sequence& s) {
  rules::plain::Given numbers;
  const auto flat = [](const Matrix& rows, int times) {
    Vector all;
    for (int i = 0; i < times; ++i)
      for (const Vector& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  };
  for (const auto& [name, rows] : s.in) numbers[name] = flat(rows, rows.size() == 1 ? s.T : 1);
  for (int t = 0; t < s.T && !s.q.empty(); ++t) {
    const Vector q = s.query(t);
    numbers["q"].insert(numbers["q"].end(), q.begin(), q.end());
  }
  numbers["k"] = flat(s.k, 1), numbers["v"] = flat(s.v, 1);
  for (const MemoryInput& input : memory.inputs)  // one that is left out is 0
    if (input.optional && !s.has(input.name) && input.name.back() != '0')
      numbers[input.name] = Vector(static_cast<std::size_t>(s.T), 0);
  for (const std::string& state : memory.states)
    if (const std::string start = start_name(state); s.has(start))
      numbers[state + "0"] = flat(s.input(start), 1);
  Options options = s.options;
  if (divides_reads(s) || !s.given("read_norm"))
    options.set("memory.read_norm", std::string(divides_reads(s) ? "attention" : "none"));
  rules::plain::Evaluator law = evaluated_law(memory, options, read_eps(s), true, {s.T, s.K, s.V}, numbers);
  const auto rows_of = [&](const std::vector<int>& places, int columns) {
    Matrix rows;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i % static_cast<std::size_t>(columns) == 0) rows.emplace_back();
      rows.back().push_back(law.tape.at(places[i]));
    }
    return rows;
  };
  law_states.clear();
  for (const auto& [name, state] : law.states)
    for (const int place : state.x) law_states[name].push_back(law.tape.at(place));
  if (s.witness != nullptr) {  // with some options a memory has no z, or one that it has not at its defaults
    for (const rules::LawState& one : rules::given_law(memory, options).states)
      if (!one.shape.number() || rules::hands_on(memory, one))
        s.witness->floats += std::ssize(law.states.at(one.name).x);
  }
  Matrix read = rows_of(law.read, s.V);
  if (s.text("read_norm") == "layernorm")
    for (Vector& row : read) row = layer_norm(row);
  return read;
}

namespace {

[[maybe_unused]] const bool known = [] {
  law_oracle() = [](const std::string& name) -> Oracle {
    const Memory& memory = memory_named(name);
    if (memory.law.empty()) return nullptr;
    return [&memory](const Sequence& s) { return read_by_law(memory, s); };
  };
  return true;
}();

}  // namespace
}  // namespace crosstalk::checks
