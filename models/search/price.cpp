// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "models/rules/memory_law.h"
#include "models/rules/recognise.h"
#include "models/rules/report.h"
#include "models/search/candidate.h"

namespace crosstalk::search {

Price price(const std::string& text, int K, int V) {
  const std::unique_ptr<rules::Law> law = rules::parse_law(rules::steps_of(text));
  Price out;
  out.operations = rules::operations_of(*law, K, V);
  out.floats = rules::numbers_of_states(*law, K, V);
  out.gates = static_cast<int>(law->learned.size()), out.states = static_cast<int>(law->states.size());
  for (rules::Value node : rules::order(law->roots()))
    out.nodes += !node->is_leaf() && node->kind != rules::Kind::transpose;
  out.why = rules::recognise(*law).reason;
  out.engines = out.why.empty();
  return out;
}

std::optional<std::string> exceeds(const Price& price, const Limits& limits) {
  const auto over = [](const char* does, auto has, const char* what,
                       auto most) -> std::optional<std::string> {
    if (most <= 0 || has <= most) return {};
    return fmt::format("it {} {} {}, and at most {} are allowed", does, has, what, most);
  };
  for (const auto& one : {over("takes", price.operations, "operations a token", limits.operations),
                          over("keeps", price.floats, "floats of state", limits.floats),
                          over("learns", price.gates, "quantities", limits.gates),
                          over("has", price.nodes, "operations in its text", limits.nodes),
                          over("has", price.states, "states", limits.states)})
    if (one) return one;
  return {};
}

}  // namespace crosstalk::search
