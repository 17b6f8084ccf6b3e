// One key for laws that do the same: what they read of some random tokens, and how that changes with what they are given.
//
//   numbers(law, s) = reads, and d read / d given along random directions, of given numbers under the symmetry s
//   key             = of the numbers under every s, rounded and in order
//
// A symmetry exchanges projections that are made alike, or turns signs of projections, q and k: training could as well have begun
// with the law that it makes. Lengths of q and k are no direction, for memories norm their keys.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "kernels/base/text/digest.h"
#include "models/search/candidate.h"
#include "models/search/player.h"
#include "models/search/term.h"

namespace crosstalk::search {
namespace {

using namespace rules;

struct Symmetry {
  std::vector<int> slot;      ///< whose numbers a quantity gets
  std::vector<double> signs;  ///< of the quantities, then of q and k
};

std::vector<Symmetry> symmetries(const Law& law) {
  constexpr std::size_t kMost = 2048;
  const std::size_t n = law.learned.size();
  std::vector<Symmetry> out = {{std::vector<int>(n), std::vector<double>(n + 2, 1)}};
  // Which numbers are whose is the same in all laws: by what quantities are, then in their order.
  const auto text = [&](std::size_t i) { return learned_text(law.learned[i]); };
  std::vector<std::size_t> sorted(n);
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto a, auto b) { return text(a) < text(b); });
  for (std::size_t i = 0; i < n; ++i) out[0].slot[sorted[i]] = static_cast<int>(i);
  const auto doubled = [&](auto change) {
    const std::size_t size = out.size();
    for (std::size_t i = 0; i < size && out.size() < kMost; ++i) out.push_back(out[i]), change(out.back());
  };
  for (std::size_t i = 0; i < n + 2; ++i)
    if (i >= n || signed_freely(law.learned[i])) doubled([&](Symmetry& s) { s.signs[i] = -1; });
  // One after the other changes places with each of its kind behind it.
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<Symmetry> so_far = out;
    for (std::size_t j = i + 1; j < n; ++j)
      for (std::size_t k = 0; k < so_far.size() && text(i) == text(j) && out.size() < kMost; ++k)
        out.push_back(so_far[k]), std::swap(out.back().slot[i], out.back().slot[j]);
  }
  return out;
}

/// Numbers under each symmetry.
std::vector<std::vector<double>> played(Law& law, const std::vector<Symmetry>& all) {
  constexpr int kSequences = 2, kTokens = 5, K = 4, V = 3;
  const int B = kSequences * static_cast<int>(all.size());
  LawGraph& g = law.graph;
  const Value read = read_of_token(law), incoming = g.leaf(Kind::input, "d_read", {kV, 1});
  std::vector<Value> given, all_roots = law.roots();
  all_roots.push_back(read);
  std::map<Value, std::size_t> places;  // of quantities; of q and k behind them
  for (Value node : order(all_roots)) {
    if (is_learned_kind(node->kind)) {
      places[node] = static_cast<std::size_t>(&law.quantity(node) - law.learned.data());
    } else if (node->kind == Kind::given && (node->name == "q" || node->name == "k")) {
      places[node] = law.learned.size() + (node->name == "q" ? 0 : 1);
    }
  }
  for (Value node : order({read}))
    if (places.count(node) != 0 || (node->kind == Kind::given && node->name == "v")) given.push_back(node);
  g.begin_adjoint();
  std::vector<Value> by(given.size());
  const bool smooth = !holds(read, [](Value n) { return n->kind == Kind::largest; });  // which engines hoist
  if (smooth) by = gradients(g, {{read, incoming}}, given);
  std::vector<Value> wanted = {read};
  std::copy_if(by.begin(), by.end(), std::back_inserter(wanted), [](Value one) { return one != nullptr; });
  int t = 0;
  // Of the given, or a direction: with its symmetry.
  const auto number = [&](Value leaf, int entry, int b, int direction) {
    const Symmetry& s = all[static_cast<std::size_t>(b / kSequences)];
    const auto at = places.find(leaf);
    if (at == places.end()) return drawn(direction, t, b % kSequences, entry);  // v, what comes in
    const bool own = leaf->kind == Kind::parameter;
    const std::size_t i = at->second;
    const int slot = i < s.slot.size() ? 4 + s.slot[i] : leaf->name == "q" ? 2 : 3;
    const double x = drawn(slot + direction, own ? 0 : t, own ? 0 : b % kSequences, entry);
    return s.signs[i] * (i < s.slot.size() ? 1.5 : 1) * x;
  };
  Player player(law, wanted, B, K, V, [&](Value leaf, int e, int b) { return number(leaf, e, b, 0); });
  std::vector<std::vector<double>> out(all.size());
  for (; t < kTokens; ++t) {
    player.token();
    for (int b = 0; b < B; ++b) {
      const auto at = [&](const Player::Numbers& x, int e) { return x[static_cast<std::size_t>(e * B + b)]; };
      std::vector<double>& numbers = out[static_cast<std::size_t>(b / kSequences)];
      for (int e = 0; e < V; ++e) numbers.push_back(at(player.of(read), e));
      double slope = 0;
      for (std::size_t i = 0; i < given.size(); ++i) {
        if (!by[i]) continue;
        const Player::Numbers &x = player.of(given[i]), &d = player.of(by[i]);
        const bool key = given[i]->kind == Kind::given && given[i]->name != "v";
        double along = 0;
        for (int e = 0; e < player.walk().entries(given[i]) && key; ++e)
          along += number(given[i], e, b, 100) * at(x, e);
        for (int e = 0; e < player.walk().entries(given[i]); ++e)
          slope += (number(given[i], e, b, 100) - along * at(x, e)) * at(d, d.size() == x.size() ? e : 0);
      }
      numbers.push_back(slope);
    }
    player.advance();
  }
  return out;
}

}  // namespace

std::string value_key(const std::string& law) {
  const std::unique_ptr<Law> graph = parse_law(steps_of(law));
  const std::vector<Symmetry> turns = symmetries(*graph);
  std::vector<std::vector<double>> all;
  constexpr std::size_t kTogether = 64;  // as many as stay in the caches
  for (std::size_t i = 0; i < turns.size(); i += kTogether) {
    const auto first = turns.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = static_cast<std::ptrdiff_t>(std::min(turns.size() - i, kTogether));
    for (auto& one : played(*graph, {first, first + count})) all.push_back(std::move(one));
  }
  double most = 1e-6;  // below, it is rounding
  for (const auto& one : all)
    for (double x : one) most = std::isfinite(x) ? std::max(most, std::abs(x)) : INFINITY;
  std::vector<std::vector<std::int64_t>> rounded(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    for (double x : all[i]) rounded[i].push_back(std::llround(1e6 * x / most));
  std::sort(rounded.begin(), rounded.end());
  std::vector<std::string> kinds;
  for (const Learned& one : graph->learned) kinds.push_back(learned_text(one));
  std::sort(kinds.begin(), kinds.end());
  std::string said = fmt::format("{:.6g}, {}", most, fmt::join(kinds, ", "));
  for (const auto& one : rounded) said += fmt::format("\n{}", fmt::join(one, " "));
  if (!std::isfinite(most)) said = canonical_text(law);
  return digest_text(XXH3_128bits(said.data(), said.size()));
}

}  // namespace crosstalk::search
