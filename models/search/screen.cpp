// What a law costs, and does before it is trained: on random tokens, and on the task with gates that are set.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/rules/memory_law.h"
#include "models/rules/recognise.h"
#include "models/rules/report.h"
#include "models/search/candidate.h"
#include "models/search/player.h"

namespace crosstalk::search {
namespace {

using namespace rules;

/// Numbers as training may begin with: projections about their bias, parameters about what they start at.
double at_start(const Law& law, Value leaf, int t, int example, int entry) {
  const bool own = leaf->kind == Kind::parameter;
  const double x = drawn(leaf->id, own ? 0 : t, own ? 0 : example, entry);
  if (!is_learned_kind(leaf->kind) || law.quantity(leaf).init != "constant") return x;
  return law.quantity(leaf).numbers[0] + (own ? 0 : x);
}

}  // namespace

Price price(const std::string& text, int K, int V) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  Price out;
  out.operations = operations_of(*law, K, V);
  out.floats = numbers_of_states(*law, K, V);
  out.gates = static_cast<int>(law->learned.size()), out.states = static_cast<int>(law->states.size());
  for (Value node : order(law->roots())) out.nodes += !node->is_leaf() && node->kind != Kind::transpose;
  out.why = recognise(*law).reason;
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

std::optional<std::string> unstable(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  if (const auto warnings = warnings_of(*law); !warnings.empty()) return warnings[0];
  constexpr int kTokens = 128;
  int t = 0;
  Player player(*law, {}, 4, 8, 8, [&](Value leaf, int e, int b) { return at_start(*law, leaf, t, b, e); });
  double early = 1;
  for (; t < kTokens; ++t) {
    player.token(), player.advance();
    double most = 0;
    for (const LawState& one : law->states)
      for (double x : player.of(one.step)) most = std::isfinite(x) ? std::max(most, std::abs(x)) : INFINITY;
    if (!(most <= 64 * early))
      return fmt::format("on random tokens its states grow to {:.3g} within {} tokens", most, t + 1);
    if (t < kTokens / 4 && most < 1e3) early = std::max(early, most);
  }
  for (double x : player.ask())
    if (!std::isfinite(x)) return "on random tokens what it reads is not finite";
  return {};
}

bool dead(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  // Four sequences as they are, then with other values, keys and queries each, and other projections of their size.
  constexpr int kTokens = 12, kSequences = 4, B = 4 * kSequences;
  int t = 0;
  Player player(*law, {}, B, 8, 6, [&](Value leaf, int e, int b) {
    const bool asks = leaf->kind == Kind::asking || leaf->name == "q", own = leaf->kind == Kind::parameter;
    const int kind = own                           ? 0
                     : asks                        ? 3
                     : leaf->shape == Shape{kV, 1} ? 1
                     : leaf->shape == Shape{kK, 1} ? 2
                                                   : 0;
    const bool other = kind != 0 && kind == b / kSequences;
    return at_start(*law, leaf, t + (other ? 1000 : 0), b % kSequences, e);
  });
  for (; t < kTokens; ++t) player.token(), player.advance();
  const Player::Numbers read = player.ask();
  std::array<double, 4> apart = {};
  double most = 0;
  for (std::size_t i = 0; i < read.size(); ++i) {
    const std::size_t b = i % B, kind = b / kSequences;
    most = std::max(most, std::abs(read[i]));
    apart[kind] = std::max(apart[kind], std::abs(read[i] - read[i - kind * kSequences]));
  }
  return !(std::min({apart[1], apart[2], apart[3]}) > 1e-6 * most);
}

double probe(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  constexpr int kTokens = 24, kKeys = 12, kSequences = 8, kSize = 16;
  // The first gate and every second one behind it at each of three levels, for each of those of the others.
  const std::size_t gates = law->learned.size(), levels = gates == 0 ? 1 : gates == 1 ? 3 : 9;
  const auto B = static_cast<int>(levels) * kSequences;
  int asked = 0, t = 0;
  std::array<std::array<int, kSequences>, kTokens> keys, values;
  for (int i = 0; i < kTokens * kSequences; ++i) {
    RandomStream random(1, RandomDomain::candidate, static_cast<std::uint32_t>(i));
    keys[i / kSequences][i % kSequences] = static_cast<int>(random.below(kKeys));
    values[i / kSequences][i % kSequences] = static_cast<int>(random.below(kSize));
  }
  Player player(*law, {}, B, kSize, kSize, [&](Value leaf, int e, int b) -> double {
    if (leaf->name == "q") return e == asked;
    if (leaf->kind == Kind::given) return e == (leaf->name == "k" ? keys : values)[t][b % kSequences];
    const Learned& gate = law->quantity(leaf);
    const int level = b / kSequences, digit = (&gate - law->learned.data()) % 2 == 0 ? level % 3 : level / 3;
    return gate.init == "constant" ? gate.numbers[0] : 4 * (digit - 1);
  });
  for (; t < kTokens; ++t) player.token(), player.advance();
  std::vector<double> product(levels, 0), square(levels, 0), wanted(levels, 0);
  for (; asked < kKeys; ++asked) {
    const Player::Numbers out = player.ask();
    for (int b = 0; b < B; ++b) {
      int last = kTokens - 1;
      while (last >= 0 && keys[last][b % kSequences] != asked) --last;
      if (last < 0) continue;
      const auto level = static_cast<std::size_t>(b / kSequences);
      const auto at = [&](int e) { return out[static_cast<std::size_t>(e * B + b)]; };
      for (int e = 0; e < kSize; ++e) square[level] += at(e) * at(e);
      product[level] += at(values[last][b % kSequences]), wanted[level] += 1;
    }
  }
  // 0.5 |c out - want|^2 at its least, where c = out.want / out.out, over the number of questions.
  double best = 0.5;
  for (std::size_t i = 0; i < levels; ++i)
    if (square[i] > 0 && std::isfinite(square[i]))
      best = std::min(best, 0.5 * (1 - product[i] * product[i] / (square[i] * wanted[i])));
  return std::max(best, 0.0);
}

}  // namespace crosstalk::search
