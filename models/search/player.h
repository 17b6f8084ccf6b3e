// A law that goes from token to token on numbers that a function gives, many examples at once, in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/base/normal.h"
#include "kernels/base/random.h"
#include "models/rules/walk.h"

namespace crosstalk::search {

/// A standard normal that depends on its place alone: a quantity's number, the token, the example, the entry.
inline double drawn(int quantity, int t, int example, int entry) {
  RandomStream stream(0, RandomDomain::candidate, static_cast<std::uint32_t>(quantity * 4096 + t),
                      static_cast<std::uint32_t>(example * 65536 + entry));
  return normal_from_uniform(stream.uniform());
}

class Player {
 public:
  using Numbers = rules::Walk::Numbers;
  /// What stands in an entry of a leaf that is no state; q and k are made 1 long.
  using Fill = std::function<double(rules::Value leaf, int entry, int example)>;

  /// `also`: further values that are wanted of every token.
  Player(const rules::Law& law, const std::vector<rules::Value>& also, int examples, int K, int V, Fill fill)
      : law_(law),
        B_(examples),
        K_(K),
        V_(V),
        fill_(std::move(fill)),
        walk_(roots(law, also), examples, K, V) {
    for (const rules::LawState& one : law.states) {
      Numbers* x = one.start ? walk_.leaf(leaf_of(one)) : nullptr;
      if (!x) continue;
      rules::Walk start({one.start}, examples, K, V);
      for (rules::Value leaf : start.leaves()) fill_in(leaf, *start.leaf(leaf));
      start.run();
      *x = start.of(one.start);
    }
  }
  void token() {
    for (rules::Value leaf : walk_.leaves())
      if (leaf->kind != rules::Kind::state) fill_in(leaf, *walk_.leaf(leaf));
    walk_.run();
  }
  /// The states become what the last token makes of them.
  void advance() {
    std::vector<Numbers> next;
    for (const rules::LawState& one : law_.states) next.push_back(walk_.of(one.step));
    for (std::size_t i = 0; i < next.size(); ++i)
      if (Numbers* x = walk_.leaf(leaf_of(law_.states[i]))) *x = next[i];
  }
  /// What is read of queries beside the sequence, which have no token.
  Numbers ask() const {
    rules::Walk read({law_.read}, B_, K_, V_);
    for (rules::Value leaf : read.leaves()) {
      const bool of_token = leaf->kind == rules::Kind::token || leaf->name == "k" || leaf->name == "v";
      if (leaf->kind == rules::Kind::state) *read.leaf(leaf) = walk_.of(leaf);
      if (leaf->kind != rules::Kind::state && !of_token) fill_in(leaf, *read.leaf(leaf));
    }
    read.run();
    return read.of(law_.read);
  }
  const Numbers& of(rules::Value node) const { return walk_.of(node); }
  const rules::Walk& walk() const { return walk_; }

 private:
  static std::vector<rules::Value> roots(const rules::Law& law, std::vector<rules::Value> out) {
    for (rules::Value root : law.roots()) out.push_back(root);
    return out;
  }
  rules::Value leaf_of(const rules::LawState& one) const {
    for (rules::Value leaf : walk_.leaves())
      if (leaf->kind == rules::Kind::state && leaf->name == one.name) return leaf;
    return nullptr;
  }
  void fill_in(rules::Value leaf, Numbers& x) const {
    if (leaf->name == "head") return;
    const int n = static_cast<int>(x.size()) / B_;
    for (int b = 0; b < B_; ++b) {
      double square = 0;
      for (int e = 0; e < n; ++e) {
        double& to = x[static_cast<std::size_t>(e * B_ + b)];
        to = fill_(leaf, e, b), square += to * to;
      }
      const bool key = leaf->kind == rules::Kind::given && leaf->name != "v" && square > 0;
      for (int e = 0; e < n && key; ++e) x[static_cast<std::size_t>(e * B_ + b)] /= std::sqrt(square);
    }
  }
  const rules::Law& law_;
  const int B_, K_, V_;
  const Fill fill_;
  rules::Walk walk_;
};

}  // namespace crosstalk::search
