// How recognise() works: terms of a step in its state, fields of a Recurrence, and what a reading asks. For its own files.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "models/rules/recognise.h"

namespace crosstalk::rules {

/// Why a step is not of the form.
struct NotSuch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// c Diag(l) S Diag(m), c (Diag(l) S x), c (Diag(l) S x) y^T, or without S: c x, c x y^T. nullptr: 1.
struct Term {
  enum class Of { state, column, rank_one, free } of = Of::free;
  Value c = nullptr, l = nullptr, m = nullptr, x = nullptr, y = nullptr;
};

struct RankOne {
  Value c, x, y;
};

/// Most terms of a step, and most writes of a token.
inline constexpr std::size_t kMostTerms = 200;
inline constexpr int kMostWrites = 16;

class Recogniser {
 public:
  explicit Recogniser(Law& law) : law_(law), g_(law.graph) {}
  Plan plan();

 private:
  Bounds bounds_of(Value root) { return rules::bounds_of(law_, root); }
  Value times(Value a, Value b) { return !a ? b : !b ? a : g_.mul(a, b); }
  Value negative(Value c) { return c ? g_.neg(c) : g_.number(-1); }
  bool holds_S(Value node) const {
    return holds(node, [&](Value n) { return n == S_; });
  }
  static bool one(Value c) { return !c || (c->kind == Kind::number && c->name.empty() && c->value == 1); }
  /// Marks what the graph can do for all tokens at once: numbers and vectors.
  void hoistable(Value root) const;
  /// The node with what vectors are at this token as leaves; in a step of another state, with what those that are walked were before.
  Value now(Value root, bool in_step);
  /// The reading asks H^T: H is kept as S = H^T.
  bool read_transposed(const LawState& one) const;
  /// A node with S in place of H^T, where H is left nowhere.
  Value upright(const LawState& one, Value node) const;
  ScanPlan scan(const LawState& one);
  void walk_scan(Value node, Value c, ScanPlan& out);

  std::vector<Term> terms(Value node);
  std::vector<Term> terms_of_product(Value node);
  static std::vector<Term> together(std::vector<Term> left, const std::vector<Term>& right);
  std::vector<Term> free_terms(Value node, Value c);
  std::pair<Value, Value> factor(Value vector);
  std::string key(Value x) const;
  bool same(Value a, Value b) const { return key(a) == key(b); }
  std::vector<RankOne> joined(const std::vector<RankOne>& parts);
  std::optional<std::pair<Value, Value>> without(Value e, Value x, Value decay);
  Value without_factor(Value product, Value decay);
  Value negated(Value c);
  void decays(RecurrencePlan& out, Value decay, Value rows);
  RecurrencePlan fields(Value step);
  RecurrencePlan several(Value step, int writes = 1);
  std::string summed(Value product, Value query) const;
  std::optional<Asked> quotient(const Plan& plan, Value node) const;
  Reading asked(const Plan& plan, bool divide);
  Value without_zeros(Value root);
  void reading(Plan& out);

  Law& law_;
  LawGraph& g_;
  std::set<std::string> scans_, walks_;
  Value S_ = nullptr;
};

}  // namespace crosstalk::rules
