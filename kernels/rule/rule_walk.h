// The walk of a RuleRead over one sequence and head, forward and backward, for any team (rule_execute.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>
#include <vector>

#include "kernels/rule/rule_arguments.h"
#include "kernels/rule/rule_execute.h"
#include "kernels/rule/rule_read.h"

namespace crosstalk::law {

template <class Real>
RuleArguments<Real> arguments_of(const RuleRead<Real>& op) {
  RuleArguments<Real> a{};
  // Of inputs that are one tensor, that whose row the walk stores first says whether what was there stays; the others add.
  const std::vector<RuleProgram::Input>& inputs = op.program->inputs;
  const auto turn = [&](std::size_t i) {
    const RulePer per = inputs[i].per;
    return std::pair(per == RulePer::sequence ? 2 : (per == RulePer::token) != op.program->before ? 1 : 0, i);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const In<Real>& x = op.x[i];
    bool adds = true, first = true;
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      if (!x.wanted() || !op.x[j].wanted() || op.x[j].gradient.data != x.gradient.data) continue;
      adds = adds && op.x[j].write == Write::add;
      first = first && turn(i) <= turn(j);
      a.shared = a.shared || inputs[i].per != inputs[j].per;
    }
    a.inputs[i] = {x.value.data, x.wanted() ? x.gradient.data : nullptr, x.value.replica_stride,
                   x.gradient.replica_stride, adds || !first};
  }
  for (std::size_t i = 0; i < op.program->states.size(); ++i) {
    const Out<Real>& end = op.end[i];
    a.ends[i] = {end.value.data, end.gradient.data, end.value.replica_stride, end.gradient.replica_stride};
  }
  a.position = op.position ? op.position.value.data : nullptr;
  a.position_stride = op.position.value.replica_stride;
  a.o = op.o.value.data, a.o_stride = op.o.value.replica_stride;
  a.d_o = op.o.gradient.data, a.d_o_stride = op.o.gradient.replica_stride;
  a.states = op.states.value.data, a.states_stride = op.states.value.replica_stride;
  a.work = op.work.value.data, a.work_stride = op.work.value.replica_stride;
  a.work_numbers = op.work.value.columns();
  a.T = op.T(), a.Q = op.Q(), a.H = op.H(), a.length = op.length;
  return a;
}

/// A RuleRead as its interpreters take it.
template <class Real>
struct RuleView : RuleLayout {
  struct Input {
    int rows, width, place, gradient_place;
    RulePer per;
  };
  struct End {
    int place, numbers;
  };
  RuleArguments<Real> a;
  RuleProgram::Lists lists;
  int constant_count, input_count, end_count, segments;
  Input inputs[RuleProgram::kMostInputs];
  End ends[RuleProgram::kMostStates];
  std::int64_t memory;  ///< where the program's memory begins in work

  RuleView(const RuleRead<Real>& op, const RuleProgram::Lists& lists_)
      : RuleLayout(*op.program),
        a(arguments_of(op)),
        lists(lists_),
        constant_count(static_cast<int>(op.program->constants.size())),
        input_count(static_cast<int>(op.program->inputs.size())),
        end_count(static_cast<int>(op.program->states.size())),
        segments((a.T + a.length - 1) / a.length),
        memory(a.work_numbers - padded<Real>(op.program->backward_numbers)) {
    before = before && !op.position;
    Input* input = inputs;
    for (const RuleProgram::Input& one : op.program->inputs)
      *input++ = {op.rows_of(one.per), one.width, one.place, one.gradient, one.per};
    End* end = ends;
    for (const RuleProgram::State& one : op.program->states) *end++ = {one.place, one.numbers()};
  }
};

/// An input of one sequence and head.
template <class Real>
struct RuleRows {
  const Real* value;  ///< of row 0
  Real* gradient;     ///< null: nobody wants it
  int apart;          ///< from row to row
  int width, place, gradient_place;
  RulePer per;
  bool adds;
};

/// One sequence and head; m is the program's memory.
template <class Real, class Team>
struct RuleWalk {
  using Rows = RuleRows<Real>;
  const RuleView<Real>& v;
  const Team& team;
  int r, item, b, h;
  Real* m_;
  Rows* rows_;  ///< memory for all inputs, where the team has none

  CT_HD RuleWalk(const RuleView<Real>& view, const Team& team_, int r_, int item_, Rows* rows)
      : v(view),
        team(team_),
        r(r_),
        item(item_),
        b(item_ / view.a.H),
        h(item_ % view.a.H),
        m_(work() + view.memory),
        rows_(rows) {}

  /// The tensor of replica r.
  template <class T>
  CT_HD T* mine(T* first, long long stride) const {
    return first + r * stride;
  }
  CT_HD Real* work() const { return mine(v.a.work, v.a.work_stride) + item * v.a.work_numbers; }
  CT_HD const std::int32_t* positions() const {
    return mine(v.a.position, v.a.position_stride) + static_cast<std::int64_t>(b) * v.a.Q;
  }
  CT_HD Real* memory() const { return team.memory(m_); }
  CT_HD Rows* rows() const { return team.table(rows_); }
  CT_HD void run(const RuleProgram::Part& part) const {
    if (part.count > 0) run(v.lists.operations + part.first, part.count);
  }
  /// Runs operations; where threads are few one is read while the one before it is done.
  CT_HD CROSSTALK_ONE_COPY void run(const RuleOperation* from, int count) const {
    Real* const m = memory();
    if constexpr (Team::kAhead) {
      auto next = Team::operation(from);
      for (int i = 0; i < count;) {
        const RuleOperation op = Team::decoded(next);
        const int after = i + 1 + (op.code == RuleCode::numbers ? op.inner : 0);
        if (after < count) next = Team::operation(from + after);
        one(op, from + i + 1, m);
        i = after;
      }
    } else {
      for (int i = 0; i < count; ++i) {
        const RuleOperation op = Team::decoded(Team::operation(from + i));
        one(op, from + i + 1, m);
        if (op.code == RuleCode::numbers) i += op.inner;
      }
    }
  }
  CT_HD void one(const RuleOperation& op, const RuleOperation* behind, Real* m) const {
    if (op.code == RuleCode::numbers) {
      team.alone([&] {
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
        for (int i = 0; i < op.inner; ++i) execute_number(Team::decoded(Team::operation(behind + i)), m);
      });
    } else {
      execute(team, op, m);
    }
  }
  CT_HD std::int64_t row(int rows, int n, int width) const {
    return ((static_cast<std::int64_t>(b) * rows + n) * v.a.H + h) * width;
  }
  /// Begins to load inputs; team.fetched() ends it.
  CT_HD void load(RulePer per, int n) const { load(rows(), v.input_count, memory(), per, n); }
  CT_HD CROSSTALK_ONE_COPY void load(const Rows* rows, int count, Real* m, RulePer per, int n) const {
    for (int i = 0; i < count; ++i) {
      const Rows& x = rows[i];
      if (x.per == per) team.fetch(x.width, x.value + static_cast<std::int64_t>(n) * x.apart, m + x.place);
    }
  }
  CT_HD void store_gradients(RulePer per, int n) const {
    store_gradients(rows(), v.input_count, memory(), per, n);
  }
  CT_HD CROSSTALK_ONE_COPY void store_gradients(const Rows* rows, int count, const Real* m, RulePer per,
                                                int n) const {
    for (int i = 0; i < count; ++i) {
      const Rows& x = rows[i];
      if (x.per == per && x.gradient)
        team.put(x.width, x.gradient + static_cast<std::int64_t>(n) * x.apart, m + x.gradient_place, x.adds);
    }
    team.sync();
  }
  CT_HD std::int64_t query(int i) const { return row(v.a.Q, i, v.outputs); }
  /// f(i) for every query that sees n tokens.
  CT_HD void queries(int n, auto&& f) const {
    if (!v.a.position) {
      const int i = v.before ? n : n - 1;
      if (i >= 0 && i < v.a.Q) f(i);
      return;
    }
    const std::int32_t* position = positions();
    for (int i = 0; i < v.a.Q; ++i) {
      const int seen = position[i] < 0 ? 0 : position[i] > v.a.T ? v.a.T : position[i];
      if (seen == n) f(i);
    }
  }
  CT_HD Real* kept(int segment) const {
    return mine(v.a.states, v.a.states_stride) +
           (static_cast<std::int64_t>(item) * v.segments + segment) * v.size;
  }
  /// States, elsewhere.
  CT_HD CROSSTALK_ONE_COPY void store(int place, Real* to, int n) const {
    const Numbers<Real> numbers{memory() + place};
    team.fill(n, to, [&](auto i) { return numbers[i]; });
  }
  CT_HD void begin() const {
    Real* const m = memory();
    team.each(v.constant_count,
              [&](int i) { m[v.lists.constants[i].place] = static_cast<Real>(v.lists.constants[i].value); });
    Rows* const all = rows();
    team.each(v.input_count, [&](int i) {
      const auto& x = v.inputs[i];
      const auto& of = v.a.inputs[i];
      const std::int64_t first = row(x.rows, 0, x.width);
      all[i] = {mine(of.value, of.value_stride) + first,
                of.gradient ? mine(of.gradient, of.gradient_stride) + first : nullptr,
                v.a.H * x.width,
                x.width,
                x.place,
                x.gradient_place,
                x.per,
                of.adds != 0};
    });
    load(RulePer::sequence, 0);
    team.fetched();
  }

  /// The next token at which a query stands, up or down from t: T + 1 or -1 where there is none. Without positions every one.
  CT_HD int next_query(int t, bool up) const {
    return v.a.position ? team.next_position(positions(), v.a.Q, v.a.T, t, up) : t;
  }

  CT_HD void forward() const {
    Real* const m = memory();
    begin();
    run(v.start);
    const int length = v.a.length;
    int next = next_query(0, true);
    for (int t = 0; t <= v.a.T; ++t) {
      if (t == next) {
        queries(t, [&](int i) {
          load(RulePer::query, i);
          team.fetched();
          run(v.read);
          team.put(v.outputs, mine(v.a.o, v.a.o_stride) + query(i), m + v.output, false);
          team.sync();
        });
        next = next_query(t + 1, true);
      }
      if (t == v.a.T) break;
      load(RulePer::token, t);
      if (v.a.states && t % length == 0) store(0, kept(t / length), v.size);
      team.fetched();
      run(v.step);
    }
    for (int i = 0; i < v.end_count; ++i) {
      const auto& end = v.ends[i];
      const auto& of = v.a.ends[i];
      if (of.value)
        team.put(end.numbers, mine(of.value, of.value_stride) + static_cast<std::int64_t>(item) * end.numbers,
                 m + end.place, false);
    }
  }

  CT_HD void take_back_query(int i) const {
    Real* const m = memory();
    if (v.a.d_o) {
      load(RulePer::query, i);
      team.fetch(v.outputs, mine(v.a.d_o, v.a.d_o_stride) + query(i), m + v.output_gradient);
      team.fetched();
      run(v.read_back);
    }
    store_gradients(RulePer::query, i);
  }
  CT_HD void backward() const {
    Real* const m = memory();
    begin();
    team.each(v.gradients_end - v.gradients, [&](int i) { m[v.gradients + i] = 0; });
    for (int i = 0; i < v.end_count; ++i) {
      const auto& end = v.ends[i];
      const auto& of = v.a.ends[i];
      const Real* from =
          of.gradient ? mine(of.gradient, of.gradient_stride) + static_cast<std::int64_t>(item) * end.numbers
                      : nullptr;
      Real* to = m + v.state_gradient + end.place;
      team.each(end.numbers, [&](int j) { to[j] = from ? from[j] : Real(0); });
    }
    // The states before each token of a segment, and what its step leaves.
    Real* around = work();
    const std::int64_t apart = v.size + v.kept;
    const int length = v.a.length;
    int next = next_query(v.a.T, false);
    for (int segment = v.segments - 1; segment >= 0; --segment) {
      const int first = segment * length, tokens = first + length < v.a.T ? length : v.a.T - first;
      team.fetch(v.size, kept(segment), m);
      for (int t = 0; t < tokens; ++t) {
        load(RulePer::token, first + t);
        team.fetched();
        store(0, around + t * apart, v.size);
        run(v.step_again);
        if (v.kept > 0) store(v.size, around + t * apart + v.size, v.kept);
      }
      // The states of the program are those behind the token, here and after each turn: adjoints leave them as they are.
      for (int t = tokens - 1; t >= 0; --t) {
        if (first + t + 1 == next) {
          queries(first + t + 1, [&](int i) { take_back_query(i); });
          next = next_query(first + t, false);
        }
        team.fetch(v.size + v.kept, around + t * apart, m);
        load(RulePer::token, first + t);
        team.fetched();
        run(v.step_back);
        store_gradients(RulePer::token, first + t);
      }
    }
    run(v.start_again);
    if (next == 0) queries(0, [&](int i) { take_back_query(i); });
    run(v.start_back);
    store_gradients(RulePer::sequence, 0);
  }
};

}  // namespace crosstalk::law
