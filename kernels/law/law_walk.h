// A memory with a law of its own, token after token, written once for the CPU and for CUDA.
//
// A law is one sequence and head of an op: a state of `size` numbers, what a token makes of it, what a query
// reads from it, and both backwards. Forward keeps the state at every sqrt(T)-th token; backward goes from
// the last of these segments to the first, walks each once more with a state a token, and takes it back.
// A team does the work: one thread on the CPU, a block on CUDA (law_team.cuh). Its loops end together, so
// that the next may read what the last has written, and a sum has a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/buffer.h"
#include "kernels/base/form.h"
#include "kernels/base/functions.h"

/// Stands behind a law: the build makes it the versions of an op that has no file for a device (kernels/CMakeLists.txt), by
/// law::run of law_cpu.h or law_team.cuh.
#define CROSSTALK_LAW(Op, Law)
#define CROSSTALK_LAW_ON(device, Op, Law) CROSSTALK_BOTH_WAYS(device, Op, law::run<Law, kBack>)

namespace crosstalk::law {

/// Tokens between two kept states: about the square root of all of them.
CT_HD constexpr int segment_length(int T) {
  int length = 1;
  while (length * length < T) ++length;
  return length;
}
CT_HD constexpr int segments(int T) { return (T + segment_length(T) - 1) / segment_length(T); }
/// Numbers that a walk needs beside it: the states around the tokens of a segment, their gradient, and
/// `scratch` of the law.
CT_HD constexpr std::int64_t work_numbers(int T, std::int64_t size, std::int64_t scratch) {
  return (segment_length(T) + 2) * size + scratch;
}

/// Checks the tokens of a memory: q [R,B,Q,H,K], k [R,B,T,H,K], where values are dense v [R,B,T,H,V], and position.
void check_tokens(const auto& op, const PlanCheck& want) {
  const auto fits = [&](const auto& x, int rows) {
    return x.value.rank == 4 && x.value.dim(0) == op.B() && x.value.dim(1) == rows &&
           x.value.dim(2) == op.H();
  };
  want(fits(op.k, op.T()), "k has shape [B,T,H,K]");
  want(fits(op.q, op.Q()) && op.q.value.dim(3) == op.K(), "q and k do not fit");
  want(!op.v || fits(op.v, op.T()), "v and k do not fit");
  want(op.position || op.Q() == op.T(), "without positions every token is read: Q = T");
}
/// Shapes reads of R replicas and, of an op that no form covers, what its law keeps and works with; false where a form has
/// planned that.
template <template <class> class Op, class Real>
bool plan_walk(Op<Real>& op, int R, std::int64_t size, std::int64_t scratch) {
  op.o.value = shaped<Real>(R, {op.B(), op.Q(), op.H(), op.V()});
  if constexpr (requires { op.form; }) {
    op.form = op.device == Device::cuda ? choose_form(op) : nullptr;
    if (op.form) return op.form->plan(op), false;
  }
  op.states.value = shaped<Real>(R, {op.B(), op.H(), segments(op.T()), size});
  op.work.value = shaped<Real>(R, {op.B(), op.H(), work_numbers(op.T(), size, scratch)});
  return true;
}

/// A team of one.
struct Alone {
  /// f(i) for i < n.
  void each(int n, auto&& f) const {
    for (int i = 0; i < n; ++i) f(i);
  }
  /// f(i, j) for i < rows, j < columns; neighbours in j lie side by side.
  void cells(int rows, int columns, auto&& f) const {
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) f(i, j);
  }
  /// put(i, sum of term(i, j) over j < n) for i < rows; neighbours in j lie side by side. Partial sums in a
  /// fixed order, which the compiler computes side by side.
  void rows(int rows, int n, auto&& term, auto&& put) const {
    using Number = decltype(term(0, 0));
    for (int i = 0; i < rows; ++i) {
      Number partial[kWide] = {}, tail = 0;
      int j = 0;
      for (; j + kWide <= n; j += kWide)
        for (int l = 0; l < kWide; ++l) partial[l] += term(i, j + l);
      for (; j < n; ++j) tail += term(i, j);
      for (int width = kWide / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) partial[l] += partial[l + width];
      put(i, partial[0] + tail);
    }
  }
  /// The same where neighbours in i lie side by side.
  void columns(int columns, int n, auto&& term, auto&& put) const {
    using Number = decltype(term(0, 0));
    int i = 0;
    for (; i + kWide <= columns; i += kWide) {
      Number total[kWide] = {};
      for (int j = 0; j < n; ++j)
        for (int l = 0; l < kWide; ++l) total[l] += term(i + l, j);
      for (int l = 0; l < kWide; ++l) put(i + l, total[l]);
    }
    for (; i < columns; ++i) {
      Number total = 0;
      for (int j = 0; j < n; ++j) total += term(i, j);
      put(i, total);
    }
  }
  /// Sum of term(i) over i < n.
  auto sum(int n, auto&& term) const {
    auto total = term(0);
    for (int i = 1; i < n; ++i) total += term(i);
    return total;
  }

 private:
  static constexpr int kWide = 16;
};

/// One sequence and head of an input [R,B,n,H,width], or of one with other dimensions of n * H * width in
/// all.
template <class Real>
struct Rows {
  const Real* value = nullptr;  ///< of row 0; null: absent
  Real* gradient = nullptr;     ///< null: nobody wants it
  std::int64_t apart = 0;       ///< from row to row
  int count = 0, width = 0;
  bool clears = false;  ///< the gradient holds nothing yet

  CT_HD Rows(const In<Real>& in, int r, int b, int h, int n, int H, int width_)
      : apart(static_cast<std::int64_t>(H) * width_), count(n), width(width_) {
    if (!in) return;
    const std::int64_t first = (static_cast<std::int64_t>(b) * n * H + h) * width;
    value = in.value.at(r) + first;
    if (in.wanted()) gradient = in.gradient.at(r) + first;
    clears = in.write == Write::overwrite;
  }
  CT_HD explicit operator bool() const { return value != nullptr; }
  CT_HD const Real* row(int t) const { return value + t * apart; }
  /// The only number of row t; `otherwise` where the input is absent.
  CT_HD Real number(int t, Real otherwise) const { return value ? value[t * apart] : otherwise; }

  /// The gradient of row t gets what f(i) gives.
  CT_HD void add(const auto& team, int t, auto&& f) const {
    if (!gradient) return;
    Real* to = gradient + t * apart;
    team.each(width, [&](int i) { to[i] += f(i); });
  }
  /// The gradient of row t gets factor times sums over j < n of term(i, j), number i of the row after number: neighbours
  /// in j lie side by side, or neighbours in i.
  CT_HD void add_rows(const auto& team, int t, int n, auto&& term, Real factor = 1) const {
    if (!gradient) return;
    Real* to = gradient + t * apart;
    team.rows(width, n, term, [&](int i, Real sum) { to[i] += factor * sum; });
  }
  CT_HD void add_columns(const auto& team, int t, int n, auto&& term, Real factor = 1) const {
    if (!gradient) return;
    Real* to = gradient + t * apart;
    team.columns(width, n, term, [&](int i, Real sum) { to[i] += factor * sum; });
  }
  /// The gradient of the only number of row t gets factor times the sum of term(i) over i < n.
  CT_HD void add_sum(const auto& team, int t, int n, auto&& term, Real factor = 1) const {
    if (!gradient) return;
    const Real sum = team.sum(n, term);
    add(team, t, [&](int) { return factor * sum; });
  }
  /// A gradient that is to be overwritten becomes 0: all that follows adds.
  CT_HD void clear(const auto& team) const {
    if (!gradient || !clears) return;
    for (int t = 0; t < count; ++t) {
      Real* to = gradient + t * apart;
      team.each(width, [&](int i) { to[i] = 0; });
    }
  }
};

/// Place of a law in the tensors, and its memory.
template <class Real>
struct Place {
  int r, b, h, T, Q, H;
  std::int64_t size;  ///< numbers of a state
  const std::int32_t* position;
  Real *work, *states;  ///< `states` null: nothing is kept
  bool before = false;  ///< without positions, query t stands before token t

  template <class Op>
  CT_HD Place(const Op& op, int r_, int item, std::int64_t size_)
      : r(r_),
        b(item / op.H()),
        h(item % op.H()),
        T(op.T()),
        Q(op.Q()),
        H(op.H()),
        size(size_),
        position(op.position ? op.position.value.at(r_) + static_cast<std::int64_t>(b) * op.Q() : nullptr),
        work(op.work.value.at(r_) + item * static_cast<std::int64_t>(op.work.value.columns())),
        states(op.states ? op.states.value.at(r_) + item * segments(op.T()) * size_ : nullptr) {}

  /// Tokens that query i sees.
  CT_HD int seen_by(int i) const {
    if (!position) return i + 1;
    return position[i] < 0 ? 0 : position[i] > T ? T : position[i];
  }
  /// Row of query i in o.
  CT_HD std::int64_t query(int i) const { return (static_cast<std::int64_t>(b) * Q + i) * H + h; }
  /// f(i) for every query that sees n tokens.
  CT_HD void queries(int n, auto&& f) const {
    if (!position) {
      const int i = before ? n : n - 1;
      if (i >= 0 && i < Q) f(i);
      return;
    }
    for (int i = 0; i < Q; ++i)
      if (seen_by(i) == n) f(i);
  }
  /// Memory of the law's own, behind the states and their gradient.
  CT_HD Real* scratch() const { return work + (segment_length(T) + 2) * size; }
};

template <class Real, class Team>
CT_HD void copy(const Team& team, const Real* from, Real* to, std::int64_t n) {
  team.each(static_cast<int>(n), [&](int i) { to[i] = from[i]; });
}

/// A part of the state, `numbers` of it from `offset` on: a law's each_part(f) calls f of every one.
template <class Real>
struct Part {
  const In<Real>& start;  ///< [R,B,H,numbers]
  const Out<Real>& end;   ///< the same
  int offset, numbers;
  Real otherwise = 0;  ///< what the part begins as where it is not given
};

/// The state before the first token; begin() of a law makes what is in no part.
template <class Law, class Team, class Real>
CT_HD void begin_state(const Law& law, const Team& team, Real* S) {
  law.each_part([&](const Part<Real>& part) {
    const Rows<Real> from(part.start, law.at.r, law.at.b, law.at.h, 1, law.at.H, part.numbers);
    team.each(part.numbers, [&](int i) { S[part.offset + i] = from ? from.value[i] : part.otherwise; });
  });
  if constexpr (requires { law.begin(team, S); }) law.begin(team, S);
}
template <class Law, class Team, class Real>
CT_HD void end_state(const Law& law, const Team& team, const Real* S) {
  law.each_part([&](const Part<Real>& part) {
    if (!part.end || !part.end.value.data) return;
    copy(team, S + part.offset, part.end.value.at(law.at.r) + std::int64_t{law.item} * part.numbers,
         part.numbers);
  });
}
/// dL/dS behind the last token; begin_gradient() of a law makes what is in no part.
template <class Law, class Team, class Real>
CT_HD void begin_gradients(const Law& law, const Team& team, Real* G) {
  law.clear(team);
  law.each_part([&](const Part<Real>& part) {
    Rows<Real>(part.start, law.at.r, law.at.b, law.at.h, 1, law.at.H, part.numbers).clear(team);
    const Real* from = part.end && part.end.gradient.data
                           ? part.end.gradient.at(law.at.r) + std::int64_t{law.item} * part.numbers
                           : nullptr;
    team.each(part.numbers, [&](int i) { G[part.offset + i] = from ? from[i] : Real(0); });
  });
  if constexpr (requires { law.begin_gradient(team, G); }) law.begin_gradient(team, G);
}
template <class Law, class Team, class Real>
CT_HD void end_gradients(const Law& law, const Team& team, const Real* G) {
  law.each_part([&](const Part<Real>& part) {
    Rows<Real>(part.start, law.at.r, law.at.b, law.at.h, 1, law.at.H, part.numbers).add(team, 0, [&](int i) {
      return G[part.offset + i];
    });
  });
}

CT_HD void walk_forward(const auto& law, const auto& team) {
  auto* S = law.at.work;
  begin_state(law, team, S);
  for (int t = 0; t <= law.at.T; ++t) {
    law.at.queries(t, [&](int i) { law.read(team, S, i); });
    if (t == law.at.T) break;
    const int length = segment_length(law.at.T);
    if (law.at.states && t % length == 0)
      copy(team, S, law.at.states + t / length * law.at.size, law.at.size);
    law.step(team, t, S, S);
  }
  end_state(law, team, S);
}

CT_HD void walk_backward(const auto& law, const auto& team) {
  const std::int64_t size = law.at.size;
  const int length = segment_length(law.at.T);
  auto *states = law.at.work, *G = states + (length + 1) * size;  // dL/dS_t
  begin_gradients(law, team, G);
  for (int segment = segments(law.at.T) - 1; segment >= 0; --segment) {
    const int begin = segment * length, tokens = begin + length < law.at.T ? length : law.at.T - begin;
    copy(team, law.at.states + segment * size, states, size);
    for (int t = 0; t < tokens; ++t) law.step(team, begin + t, states + t * size, states + (t + 1) * size);
    for (int t = tokens - 1; t >= 0; --t) {
      law.at.queries(begin + t + 1, [&](int i) { law.read_back(team, i, states + (t + 1) * size, G); });
      law.step_back(team, begin + t, states + t * size, G);
    }
  }
  begin_state(law, team, states);
  law.at.queries(0, [&](int i) { law.read_back(team, i, states, G); });
  end_gradients(law, team, G);
}

}  // namespace crosstalk::law
