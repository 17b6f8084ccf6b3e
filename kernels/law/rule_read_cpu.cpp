// A law that is a program on the CPU: a sequence and head an item of work.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/law/rule_walk.h"

namespace crosstalk {
namespace {

/// A team of one. What an operation writes may be what it reads, entry by entry, and nothing else of it: no loop carries
/// anything.
struct RuleAlone : law::Alone {
  template <class F>
  void each(int n, F&& f) const {
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
    if (adds) {
      each(n, [&](int i) { to[i] += from[i]; });
    } else {
      each(n, [&](int i) { to[i] = from[i]; });
    }
  }
  template <class Real>
  void number(Real* y, Real x) const {
    *y = x;
  }
  template <class Real, class F>
  void fill(int n, Real* y, F&& f) const {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) y[i] = f(i);
  }
  template <class Real, class F>
  void cells(int rows, int columns, Real* y, F&& f) const {
    for (int i = 0; i < rows; ++i) {
#pragma GCC ivdep
      for (int j = 0; j < columns; ++j) y[i * columns + j] = f(i, j);
    }
  }
  template <class Real, class F>
  void entries(int rows, int columns, Real* y, F&& f) const {
    cells(rows, columns, y, f);
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
  template <class Term>
  auto sum(int n, Term&& term) const {
    decltype(term(0)) total = 0;
    rows(
        1, n, [&](int, int j) { return term(j); }, [&](int, auto x) { total = x; });
    return total;
  }
};

// Not inlined, as in law_cpu.h: one copy, and hence the same bits for any number of threads.
template <class Real>
[[gnu::noinline]] void forward_item(const law::RuleView<Real>& view, int r, int item) {
  const RuleAlone team;
  law::RuleWalk<Real, RuleAlone>{view, team, r, item,
                                 view.work.at(r) + item * view.work_numbers + view.memory}
      .forward();
}
template <class Real>
[[gnu::noinline]] void backward_item(const law::RuleView<Real>& view, int r, int item) {
  const RuleAlone team;
  law::RuleWalk<Real, RuleAlone>{view, team, r, item,
                                 view.work.at(r) + item * view.work_numbers + view.memory}
      .backward();
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const RuleRead<Real>& op) {
  const law::RuleView<Real> view(op, op.program->on_host());
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { forward_item(view, r, static_cast<int>(item)); });
}
template <class Real>
void backward_cpu(const Exec& exec, const RuleRead<Real>& op) {
  const law::RuleView<Real> view(op, op.program->on_host());
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { backward_item(view, r, static_cast<int>(item)); });
}

CROSSTALK_INSTANTIATE(cpu, RuleRead)

}  // namespace crosstalk
