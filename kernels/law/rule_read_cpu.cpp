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
  template <class F>
  void cells(int rows, int columns, F&& f) const {
    for (int i = 0; i < rows; ++i) {
#pragma GCC ivdep
      for (int j = 0; j < columns; ++j) f(i, j);
    }
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
  const law::RuleView<Real> view(op, op.program->operations.data());
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { forward_item(view, r, static_cast<int>(item)); });
}
template <class Real>
void backward_cpu(const Exec& exec, const RuleRead<Real>& op) {
  const law::RuleView<Real> view(op, op.program->operations.data());
  parallel_items(exec, op.o.value.R, std::int64_t{op.B()} * op.H(),
                 [&](int r, std::int64_t item) { backward_item(view, r, static_cast<int>(item)); });
}

CROSSTALK_INSTANTIATE(cpu, RuleRead)

}  // namespace crosstalk
