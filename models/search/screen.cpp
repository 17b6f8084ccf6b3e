// What a law does before it is trained: its values on random tokens, in double.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "kernels/base/normal.h"
#include "kernels/base/text/digest.h"
#include "models/rules/report.h"
#include "models/rules/walk.h"
#include "models/search/candidate.h"
#include "models/search/law_text.h"

namespace crosstalk::search {
namespace {

using namespace rules;
using Numbers = Walk::Numbers;
/// Fills a leaf that is no state.
using Fill = std::function<void(Value leaf, Numbers& x)>;

/// A law that goes from token to token.
class Player {
 public:
  Player(const Law& law, const std::vector<Value>& also, int examples, int K, int V, const Fill& fill)
      : law_(law), examples_(examples), K_(K), V_(V), walk_(roots(law, also), examples, K, V) {
    for (const LawState& one : law.states) {
      if (!one.start) continue;
      Walk start({one.start}, examples, K, V);
      for (Value leaf : start.leaves()) fill(leaf, *start.leaf(leaf));
      start.run();
      if (Numbers* x = walk_.leaf(leaf_of(one))) *x = start.of(one.start);
    }
  }
  void token(const Fill& fill) {
    for (Value leaf : walk_.leaves())
      if (leaf->kind != Kind::state) fill(leaf, *walk_.leaf(leaf));
    walk_.run();
  }
  /// The states become what the last token makes of them.
  void advance() {
    std::vector<Numbers> next;
    for (const LawState& one : law_.states) next.push_back(walk_.of(one.step));
    for (std::size_t i = 0; i < next.size(); ++i)
      if (Numbers* x = walk_.leaf(leaf_of(law_.states[i]))) *x = next[i];
  }
  /// What is read of queries beside the sequence, which have no token.
  Numbers ask(const Fill& fill) const {
    Walk read({law_.read}, examples_, K_, V_);
    for (Value leaf : read.leaves()) {
      const bool asks = leaf->kind == Kind::asking || leaf->kind == Kind::parameter || leaf->name == "q";
      if (leaf->kind == Kind::state) {
        *read.leaf(leaf) = walk_.of(leaf);
      } else if (asks) {
        fill(leaf, *read.leaf(leaf));
      }
    }
    read.run();
    return read.of(law_.read);
  }
  const Walk& walk() const { return walk_; }

 private:
  static std::vector<Value> roots(const Law& law, std::vector<Value> out) {
    for (Value root : law.roots()) out.push_back(root);
    return out;
  }
  Value leaf_of(const LawState& one) const {
    for (Value leaf : walk_.leaves())
      if (leaf->kind == Kind::state && leaf->name == one.name) return leaf;
    return nullptr;
  }
  const Law& law_;
  const int examples_, K_, V_;
  Walk walk_;
};

/// A standard normal that depends on its place alone: the slot of a quantity, the token, the example, the entry.
double drawn(int slot, int t, int b, int entry) {
  RandomStream stream(0, RandomDomain::candidate, static_cast<std::uint32_t>(slot * 4096 + t),
                      static_cast<std::uint32_t>(b * 65536 + entry));
  return normal_from_uniform(stream.uniform());
}
/// The same of all entries; q and k have length 1.
std::vector<double> drawn(Value leaf, int slot, int t, int b, int entries) {
  std::vector<double> x(static_cast<std::size_t>(entries));
  for (int e = 0; e < entries; ++e) x[static_cast<std::size_t>(e)] = drawn(slot, t, b, e);
  const double length = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  const bool key = leaf->kind == Kind::given && leaf->name != "v";
  for (double& e : x) e *= key ? 1 / length : is_learned_kind(leaf->kind) ? 1.5 : 1;
  return x;
}
void put(Numbers& x, const std::vector<double>& from, int b, int examples, double times = 1) {
  for (std::size_t e = 0; e < from.size(); ++e)
    x[e * static_cast<std::size_t>(examples) + static_cast<std::size_t>(b)] = times * from[e];
}

/// Which projection gets the numbers of which, and signs: what training could as well have begun with.
struct Symmetry {
  std::vector<int> slot;      ///< by quantity
  std::vector<double> signs;  ///< of q and k, then by quantity
};

std::vector<Symmetry> symmetries(const Law& law) {
  constexpr std::size_t kMost = 1024;
  const std::size_t n = law.learned.size();
  std::vector<Symmetry> out(1);
  out[0].slot.resize(n), out[0].signs.assign(n + 2, 1);
  // Equal ones among all laws: by what they are, then in their order.
  std::vector<std::size_t> sorted(n);
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return learned_text(law.learned[a]) < learned_text(law.learned[b]);
  });
  for (std::size_t i = 0; i < n; ++i) out[0].slot[sorted[i]] = static_cast<int>(i);
  for (std::size_t i = 0; i < n + 2; ++i) {
    if (2 * out.size() > kMost || (i >= 2 && !signed_freely(law.learned[i - 2]))) continue;
    const std::size_t size = out.size();
    for (std::size_t j = 0; j < size; ++j) out.push_back(out[j]), out.back().signs[i] = -1;
  }
  // One after the other changes places with those of its kind behind it.
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t size = out.size();
    for (std::size_t j = i + 1; j < n; ++j) {
      if (learned_text(law.learned[i]) != learned_text(law.learned[j]) || out.size() + size > 4 * kMost)
        continue;
      for (std::size_t s = 0; s < size; ++s)
        out.push_back(out[s]), std::swap(out.back().slot[i], out.back().slot[j]);
    }
  }
  return out;
}

/// Reads of some tokens, and their gradients along random directions, under a symmetry each: in turn.
std::vector<std::vector<double>> played(Law& law, const std::vector<Symmetry>& all) {
  constexpr int kSequences = 2, kTokens = 5, K = 4, V = 3;
  const int B = kSequences * static_cast<int>(all.size());
  LawGraph& g = law.graph;
  const Value read = read_of_token(law), incoming = g.leaf(Kind::input, "d_read", {kV, 1});
  std::vector<Value> wanted;
  for (Value node : order({read}))
    if (is_learned_kind(node->kind) || (node->kind == Kind::given && node->name != "head"))
      wanted.push_back(node);
  g.begin_adjoint();
  const bool smooth =
      !holds(read, [](Value n) { return n->kind == Kind::largest; });  // which has no gradient here
  std::vector<Value> by(wanted.size()), roots = {read};
  if (smooth) by = gradients(g, {{read, incoming}}, wanted);
  for (Value one : by)
    if (one) roots.push_back(one);
  int t = 0;
  /// Of a leaf in every example: numbers of its slot, with its sign.
  const auto numbers = [&](Value leaf, Numbers& x, int from) {
    const auto entries = static_cast<int>(x.size()) / B;
    const auto at = std::find_if(law.learned.begin(), law.learned.end(),
                                 [&](const Learned& one) { return one.name == leaf->name; });
    const bool learned = is_learned_kind(leaf->kind), own = leaf->kind == Kind::parameter;
    const auto i = static_cast<std::size_t>(at - law.learned.begin());
    const int given = leaf->name == "q" ? 0 : leaf->name == "k" ? 1 : leaf->name == "v" ? 2 : 3;
    std::map<std::pair<int, int>, std::vector<double>> known;
    for (int b = 0; b < B; ++b) {
      const Symmetry& s = all[static_cast<std::size_t>(b / kSequences)];
      const int slot = learned ? 4 + s.slot[i] : given;
      const double sign = learned ? s.signs[i + 2] : given < 2 ? s.signs[static_cast<std::size_t>(given)] : 1;
      std::vector<double>& one = known[{slot, b % kSequences}];
      if (one.empty()) one = drawn(leaf, slot + from, own ? 0 : t, own ? 0 : b % kSequences, entries);
      put(x, one, b, B, sign);
    }
  };
  const Fill fill = [&](Value leaf, Numbers& x) {
    if (leaf->name != "head") numbers(leaf, x, 0);
  };
  Player player(law, roots, B, K, V, fill);
  std::vector<std::vector<double>> out(all.size());
  const auto add = [&](const Numbers& x, int b, int entry) {
    out[static_cast<std::size_t>(b / kSequences)].push_back(x[static_cast<std::size_t>(entry * B + b)]);
  };
  for (; t < kTokens; ++t) {
    player.token(fill);
    for (int b = 0; b < B; ++b)
      for (int e = 0; e < V; ++e) add(player.walk().of(read), b, e);
    Numbers slopes(static_cast<std::size_t>(B), 0);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!by[i]) continue;
      const Numbers& gradient = player.walk().of(by[i]);
      Numbers direction(player.walk().of(wanted[i]).size());
      numbers(wanted[i], direction, 100);
      const Numbers& x = player.walk().of(wanted[i]);
      const bool sphere = wanted[i]->kind == Kind::given && wanted[i]->name != "v";
      for (std::size_t b = 0; b < slopes.size(); ++b) {
        double along = 0;  // of its length, which is 1
        for (std::size_t e = b; e < x.size() && sphere; e += slopes.size()) along += direction[e] * x[e];
        for (std::size_t e = b; e < x.size(); e += slopes.size())
          slopes[b] += (direction[e] - along * x[e]) * gradient[gradient.size() == x.size() ? e : b];
      }
    }
    for (int b = 0; b < B; ++b) add(slopes, b, 0);
    player.advance();
  }
  return out;
}

}  // namespace

std::string value_key(const std::string& law) {
  std::vector<std::vector<double>> all;
  const std::vector<Symmetry> turns = symmetries(*parse_law(steps_of(law)));
  constexpr std::size_t kTogether = 64;
  const std::unique_ptr<Law> graph = parse_law(steps_of(law));
  for (std::size_t i = 0; i < turns.size(); i += kTogether) {
    const auto end = turns.begin() + static_cast<std::ptrdiff_t>(std::min(turns.size(), i + kTogether));
    for (auto& one : played(*graph, {turns.begin() + static_cast<std::ptrdiff_t>(i), end}))
      all.push_back(one);
  }
  double most = 0;
  for (const auto& one : all)
    for (double x : one) most = std::isfinite(x) ? std::max(most, std::abs(x)) : x;
  if (!std::isfinite(most)) {
    const std::string text = canonical_text(law);
    return digest_text(XXH3_128bits(text.data(), text.size()));
  }
  std::vector<std::vector<std::int64_t>> rounded;
  for (const auto& one : all) {
    rounded.emplace_back();
    for (double x : one) rounded.back().push_back(std::llround(most > 0 ? 1e6 * x / most : 0));
  }
  std::sort(rounded.begin(), rounded.end());
  std::string bytes = fmt::format("{:.6g}", most);
  std::vector<std::string> kinds;
  for (const Learned& one : graph->learned) kinds.push_back(learned_text(one));
  std::sort(kinds.begin(), kinds.end());
  bytes += fmt::format("{}", fmt::join(kinds, " "));
  for (const auto& one : rounded) bytes += fmt::format("{}", fmt::join(one, " "));
  return digest_text(XXH3_128bits(bytes.data(), bytes.size()));
}

std::optional<std::string> unstable(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  if (const auto warnings = warnings_of(*law); !warnings.empty()) return warnings[0];
  constexpr int kTokens = 128, B = 8, K = 8, V = 8;
  int t = 0;
  const Fill fill = [&](Value leaf, Numbers& x) {
    const bool own = leaf->kind == Kind::parameter;
    for (int b = 0; b < B && leaf->name != "head"; ++b)
      put(x, drawn(leaf, leaf->id, own ? 0 : t, b, static_cast<int>(x.size()) / B), b, B);
  };
  Player player(*law, {}, B, K, V, fill);
  double early = 1;
  for (; t < kTokens; ++t) {
    player.token(fill), player.advance();
    double most = 0;
    for (const LawState& one : law->states)
      for (double x : player.walk().of(one.step))
        most = std::isfinite(x) ? std::max(most, std::abs(x)) : INFINITY;
    if (t < kTokens / 4) early = std::max(early, most);
    if (most > 64 * early)
      return fmt::format("on random tokens its states grow from {:.3g} to {:.3g} within {} tokens", early,
                         most, t + 1);
  }
  for (double x : player.ask(fill))
    if (!std::isfinite(x)) return "on random tokens what it reads is not finite";
  return {};
}

bool dead(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  constexpr int kTokens = 12, B = 4, K = 8, V = 6;
  // What is read where values, keys or queries, and projections of their size, are others.
  const auto read = [&](int other) {
    int t = 0;
    const Fill fill = [&](Value leaf, Numbers& x) {
      const bool asks = leaf->kind == Kind::asking || leaf->name == "q";
      const int kind = asks ? 3 : leaf->shape == Shape{kV, 1} ? 1 : leaf->shape == Shape{kK, 1} ? 2 : 0;
      const bool own = leaf->kind == Kind::parameter;
      const int shift = !own && kind == other ? 1000 : 0;
      for (int b = 0; b < B && leaf->name != "head"; ++b)
        put(x, drawn(leaf, leaf->id + shift, own ? 0 : t, b, static_cast<int>(x.size()) / B), b, B);
    };
    Player player(*law, {}, B, K, V, fill);
    for (; t < kTokens; ++t) player.token(fill), player.advance();
    return player.ask(fill);
  };
  const Numbers as_is = read(0);
  double most = 0;
  for (double x : as_is) most = std::max(most, std::abs(x));
  for (const int other : {1, 2, 3}) {
    const Numbers changed = read(other);
    double apart = 0;
    for (std::size_t i = 0; i < changed.size(); ++i) apart = std::max(apart, std::abs(changed[i] - as_is[i]));
    if (!(apart > 1e-6 * most)) return true;
  }
  return false;
}

double probe(const std::string& text) {
  const std::unique_ptr<Law> law = parse_law(steps_of(text));
  constexpr int kTokens = 24, kKeys = 12, kSequences = 8, K = 16, V = 16, kLevels = 9;
  constexpr int B = kLevels * kSequences;
  const auto word = [&](int t, int sequence, int what) {
    RandomStream stream(1, RandomDomain::candidate, static_cast<std::uint32_t>(t),
                        static_cast<std::uint32_t>(sequence));
    return what == 0 ? stream.below(kKeys) : (stream.next(), stream.below(V));
  };
  int t = 0, asked = 0;
  const Fill fill = [&](Value leaf, Numbers& x) {
    std::fill(x.begin(), x.end(), 0);
    const auto at = [&](std::uint32_t entry, int b) -> double& {
      return x[entry * B + static_cast<std::size_t>(b)];
    };
    const auto gate = std::find_if(law->learned.begin(), law->learned.end(),
                                   [&](const Learned& one) { return one.name == leaf->name; });
    for (int b = 0; b < B; ++b) {
      const int sequence = b % kSequences, level = b / kSequences;
      if (leaf->name == "k") at(word(t, sequence, 0), b) = 1;
      if (leaf->name == "v") at(word(t, sequence, 1), b) = 1;
      if (leaf->name == "q") at(static_cast<std::uint32_t>(asked), b) = 1;
      if (!is_learned_kind(leaf->kind)) continue;
      // Every second gate goes through its levels for each of the others.
      const int digit = (gate - law->learned.begin()) % 2 == 0 ? level % 3 : level / 3;
      const double constant = gate->init == "constant" ? gate->numbers[0] : 4.0 * (digit - 1);
      for (std::uint32_t e = 0; e < x.size() / B; ++e) at(e, b) = constant;
    }
  };
  Player player(*law, {}, B, K, V, fill);
  for (; t < kTokens; ++t) player.token(fill), player.advance();
  std::vector<double> product(kLevels, 0), square(kLevels, 0), wanted(kLevels, 0);
  for (; asked < kKeys; ++asked) {
    const Numbers out = player.ask(fill);
    for (int b = 0; b < B; ++b) {
      int last = -1;
      for (int i = 0; i < kTokens; ++i)
        if (word(i, b % kSequences, 0) == static_cast<std::uint32_t>(asked)) last = i;
      if (last < 0) continue;
      const auto level = static_cast<std::size_t>(b / kSequences);
      const std::size_t value = word(last, b % kSequences, 1);
      for (std::size_t e = 0; e < V; ++e)
        square[level] += out[e * B + static_cast<std::size_t>(b)] * out[e * B + static_cast<std::size_t>(b)];
      product[level] += out[value * B + static_cast<std::size_t>(b)], wanted[level] += 1;
    }
  }
  // 0.5 |c out - want|^2 at its least, c = out.want / out.out.
  double best = 0.5;
  for (std::size_t i = 0; i < kLevels; ++i)
    if (square[i] > 0 && std::isfinite(square[i]))
      best = std::min(best, 0.5 * (1 - product[i] * product[i] / (square[i] * wanted[i])));
  return best;
}

}  // namespace crosstalk::search
