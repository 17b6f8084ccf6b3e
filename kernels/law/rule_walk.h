// The walk of a RuleRead over one sequence and head, forward and backward, for any team (rule_execute.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/rule_execute.h"
#include "kernels/law/rule_read.h"

namespace crosstalk::law {

/// A tensor's memory, replica by replica.
template <class T>
struct Strided {
  T* data = nullptr;
  std::int64_t stride = 0;
  template <class U>
  static Strided of(const Tensor<U>& x) {
    return {x.data, x.replica_stride};
  }
  CT_HD T* at(int r) const { return data + r * stride; }
  CT_HD explicit operator bool() const { return data != nullptr; }
};

/// A RuleRead as kernels take it.
template <class Real>
struct RuleView {
  struct Input {
    Strided<Real> value, gradient;  ///< gradient without memory: nobody wants it
    int rows, width, place, gradient_place;
    RulePer per;
    bool adds;
  };
  struct End {
    Strided<Real> value, gradient;
    int place, numbers;
  };
  using Part = RuleProgram::Part;
  RuleProgram::Lists lists;
  int constant_count;
  Part start, step, read, start_again, step_again, start_back, step_back, read_back;
  Input inputs[RuleProgram::kMostInputs];
  End ends[RuleProgram::kMostStates];
  int input_count, end_count;
  int T, Q, H, length, segments, size, kept_numbers, output, outputs, output_gradient, state_gradient,
      gradients, gradients_end;
  bool before;
  Strided<const std::int32_t> position;
  Strided<Real> o, d_o, work, states;
  std::int64_t work_numbers;  ///< of a sequence and head
  std::int64_t memory;        ///< where the program's memory begins in work

  RuleView(const RuleRead<Real>& op, const RuleProgram::Lists& lists_) : lists(lists_) {
    const RuleProgram& p = *op.program;
    constant_count = static_cast<int>(p.constants.size()), start = p.start, step = p.step, read = p.read;
    start_again = p.start_again, step_again = p.step_again;
    start_back = p.start_back, step_back = p.step_back, read_back = p.read_back;
    input_count = static_cast<int>(p.inputs.size()), end_count = static_cast<int>(p.states.size());
    for (int i = 0; i < input_count; ++i) {
      const RuleProgram::Input& one = p.inputs[static_cast<std::size_t>(i)];
      const In<Real>& x = op.x[i];
      inputs[i] = {Strided<Real>::of(x.value),
                   x.wanted() ? Strided<Real>::of(x.gradient) : Strided<Real>{},
                   op.rows_of(one.per),
                   one.width,
                   one.place,
                   one.gradient,
                   one.per,
                   x.write == Write::add};
    }
    for (int i = 0; i < end_count; ++i) {
      const RuleProgram::State& one = p.states[static_cast<std::size_t>(i)];
      ends[i] = {Strided<Real>::of(op.end[i].value), Strided<Real>::of(op.end[i].gradient), one.place,
                 one.numbers()};
    }
    T = op.T(), Q = op.Q(), H = op.H(), length = op.length, segments = (T + length - 1) / length,
    size = p.size, kept_numbers = p.kept;
    output = p.output, outputs = p.outputs, output_gradient = p.output_gradient;
    state_gradient = p.state_gradient, gradients = p.gradients, gradients_end = p.gradients_end;
    before = p.before && !op.position;
    position = {op.position ? op.position.value.data : nullptr, op.position.value.replica_stride};
    o = Strided<Real>::of(op.o.value), d_o = Strided<Real>::of(op.o.gradient);
    work = Strided<Real>::of(op.work.value), states = Strided<Real>::of(op.states.value);
    work_numbers = op.work.value.columns();
    memory = work_numbers - padded<Real>(p.backward_numbers);
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
        b(item_ / view.H),
        h(item_ % view.H),
        m_(view.work.at(r_) + item_ * view.work_numbers + view.memory),
        rows_(rows) {}

  CT_HD Real* memory() const { return team.memory(m_); }
  CT_HD Rows* rows() const { return team.table(rows_); }
  CT_HD void run(const RuleProgram::Part& part) const {
    if (part.count > 0) run(v.lists.operations + part.first, part.count);
  }
  /// Where threads are few an operation is read while the one before it is done.
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
    return ((static_cast<std::int64_t>(b) * rows + n) * v.H + h) * width;
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
  CT_HD std::int64_t query(int i) const { return row(v.Q, i, v.outputs); }
  /// f(i) for every query that sees n tokens.
  template <class F>
  CT_HD void queries(int n, F&& f) const {
    if (!v.position) {
      const int i = v.before ? n : n - 1;
      if (i >= 0 && i < v.Q) f(i);
      return;
    }
    const std::int32_t* position = v.position.at(r) + static_cast<std::int64_t>(b) * v.Q;
    for (int i = 0; i < v.Q; ++i) {
      const int seen = position[i] < 0 ? 0 : position[i] > v.T ? v.T : position[i];
      if (seen == n) f(i);
    }
  }
  CT_HD Real* kept(int segment) const {
    return v.states.at(r) + (static_cast<std::int64_t>(item) * v.segments + segment) * v.size;
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
      const std::int64_t first = row(x.rows, 0, x.width);
      all[i] = {x.value.at(r) + first,
                x.gradient ? x.gradient.at(r) + first : nullptr,
                v.H * x.width,
                x.width,
                x.place,
                x.gradient_place,
                x.per,
                x.adds};
    });
    load(RulePer::sequence, 0);
    team.fetched();
  }

  /// The next token at which a query stands, up or down from t: T + 1 or -1 where there is none. Without positions every one.
  CT_HD int next_query(int t, bool up) const {
    if (!v.position) return t;
    return team.next_position(v.position.at(r) + static_cast<std::int64_t>(b) * v.Q, v.Q, v.T, t, up);
  }

  CT_HD void forward() const {
    Real* const m = memory();
    begin();
    run(v.start);
    const int length = v.length;
    int next = next_query(0, true);
    for (int t = 0; t <= v.T; ++t) {
      if (t == next) {
        queries(t, [&](int i) {
          load(RulePer::query, i);
          team.fetched();
          run(v.read);
          team.put(v.outputs, v.o.at(r) + query(i), m + v.output, false);
          team.sync();
        });
        next = next_query(t + 1, true);
      }
      if (t == v.T) break;
      load(RulePer::token, t);
      if (v.states && t % length == 0) store(0, kept(t / length), v.size);
      team.fetched();
      run(v.step);
    }
    for (int i = 0; i < v.end_count; ++i) {
      const auto& end = v.ends[i];
      if (end.value)
        team.put(end.numbers, end.value.at(r) + static_cast<std::int64_t>(item) * end.numbers, m + end.place,
                 false);
    }
  }

  CT_HD void take_back_query(int i) const {
    Real* const m = memory();
    if (v.d_o) {
      load(RulePer::query, i);
      team.fetch(v.outputs, v.d_o.at(r) + query(i), m + v.output_gradient);
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
      const Real* from =
          end.gradient ? end.gradient.at(r) + static_cast<std::int64_t>(item) * end.numbers : nullptr;
      Real* to = m + v.state_gradient + end.place;
      team.each(end.numbers, [&](int j) { to[j] = from ? from[j] : Real(0); });
    }
    // The states before each token of a segment, and what its step leaves.
    Real* around = v.work.at(r) + item * v.work_numbers;
    const std::int64_t apart = v.size + v.kept_numbers;
    const int length = v.length;
    int next = next_query(v.T, false);
    for (int segment = v.segments - 1; segment >= 0; --segment) {
      const int first = segment * length, tokens = first + length < v.T ? length : v.T - first;
      team.fetch(v.size, kept(segment), m);
      for (int t = 0; t < tokens; ++t) {
        load(RulePer::token, first + t);
        team.fetched();
        store(0, around + t * apart, v.size);
        run(v.step_again);
        if (v.kept_numbers > 0) store(v.size, around + t * apart + v.size, v.kept_numbers);
      }
      // The states of the program are those behind the token, here and after each turn: adjoints leave them as they are.
      for (int t = tokens - 1; t >= 0; --t) {
        if (first + t + 1 == next) {
          queries(first + t + 1, [&](int i) { take_back_query(i); });
          next = next_query(first + t, false);
        }
        team.fetch(v.size + v.kept_numbers, around + t * apart, m);
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
