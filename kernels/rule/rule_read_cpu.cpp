// A law that is a program on the CPU: a sequence and head an item of work.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/rule/rule_walk.h"

namespace crosstalk {
namespace {

/// A team of one. What an operation writes may be what it reads, entry by entry, and nothing else of it: no loop carries
/// anything.
struct RuleAlone : law::Alone {
  void each(int n, auto&& f) const {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) f(i);
  }
  template <class Real>
  Real* memory(Real* m) const {
    return m;
  }
  static constexpr bool kAhead = false;
  static const RuleOperation& operation(const RuleOperation* from) { return *from; }
  static const RuleOperation& decoded(const RuleOperation& op) { return op; }
  void sync() const {}
  template <class Real>
  void fetch(int n, const Real* from, Real* to) const {
    fill(n, to, [&](int i) { return from[i]; });
  }
  void fetched() const {}
  template <class Real>
  void put(int n, Real* to, const Real* from, bool adds) const {
    if (adds)
      each(n, [&](int i) { to[i] += from[i]; });
    else
      each(n, [&](int i) { to[i] = from[i]; });
  }
  template <class Real>
  void number(Real* y, Real x) const {
    *y = x;
  }
  void alone(auto&& f) const { f(); }
  template <class Rows>
  Rows* table(Rows* all) const {
    return all;
  }
  void fill(int n, auto* y, auto&& f) const {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) y[i] = f(i);
  }
  template <class Real, class Row>
  void cells(int rows, int columns, Real* y, Row&& row) const {
    for (int i = 0; i < rows; ++i) {
      const auto f = row(i);
      Real* to = y + i * columns;
#pragma GCC ivdep
      for (int j = 0; j < columns; ++j) to[j] = f(j);
    }
  }
  void entries(int rows, int columns, auto* y, auto&& f) const {
    cells(rows, columns, y, [&](int i) { return [i, &f](int j) { return f(i, j); }; });
  }
  /// The nearest of the positions that is at least `from` (up) or at most; outside of 0 .. T where there is none.
  int next_position(const std::int32_t* position, int Q, int T, int from, bool up) const {
    int next = up ? T + 1 : -1;
    for (int i = 0; i < Q; ++i) {
      const int p = position[i] < 0 ? 0 : position[i] > T ? T : position[i];
      if (up ? p >= from && p < next : p <= from && p > next) next = p;
    }
    return next;
  }
  /// Works as law::Alone's, four times as wide.
  void columns(int columns, int n, auto&& term, auto&& put) const {
    using Number = decltype(term(0, 0));
    constexpr int kMany = 4 * kWide;
    int i = 0;
    for (; i + kMany <= columns; i += kMany) {
      Number total[kMany] = {};
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < kMany; ++l) total[l] += term(i + l, j);
      for (int l = 0; l < kMany; ++l) put(i + l, total[l]);
    }
    law::Alone::columns(
        columns - i, n, [&](int l, int j) { return term(i + l, j); },
        [&](int l, Number x) { put(i + l, x); });
  }
  auto sum(int n, auto&& term) const {
    using Number = decltype(term(0));
    constexpr int kMany = 4 * kWide;
    Number partial[kMany] = {}, tail = 0;
    int j = 0;
    for (; j + kMany <= n; j += kMany)
      for (int l = 0; l < kMany; ++l) partial[l] += term(j + l);
    for (; j < n; ++j) tail += term(j);
    for (int l = 0; l < kWide; ++l)
      partial[l] = (partial[l] + partial[l + kWide]) + (partial[l + 2 * kWide] + partial[l + 3 * kWide]);
    return together(partial) + tail;
  }

 private:
  static constexpr int kWide = 16;
  template <class Number>
  static Number together(Number* partial) {
    for (int width = kWide / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) partial[l] += partial[l + width];
    return partial[0];
  }
};

/// Walks every sequence and head.
template <bool kBack, class Real>
void run(const Exec& exec, const RuleRead<Real>& op) {
  const law::RuleView<Real> view(op, op.program->on_host());
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(), [&](int r, std::int64_t item) {
    const RuleAlone team;
    law::RuleRows<Real> rows[RuleProgram::kMostInputs];
    const law::RuleWalk<Real, RuleAlone> walk(view, team, r, static_cast<int>(item), rows);
    kBack ? walk.backward() : walk.forward();
  });
}

}  // namespace

CROSSTALK_BOTH_WAYS(cpu, RuleRead, run<kBack>)

}  // namespace crosstalk
