// Executes operations of a rule_program.h with a team: one thread on the CPU, a block on CUDA. Every operation ends together.
//
//   fill(n, y, f)              y_i = f(i), i < n
//   cells(rows, columns, y, f) y_ij = f(i, j)
//
// f may read y where it is written, and nowhere else: a team works out several entries before it stores them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/elementwise/elementwise.h"
#include "kernels/law/law_walk.h"
#include "kernels/law/rule_program.h"

// On a GPU one copy of a function in a kernel, however often it is called: an interpreter's code must fit the caches.
#if defined(__CUDACC__)
#define CROSSTALK_ONE_COPY __noinline__
#else
#define CROSSTALK_ONE_COPY __attribute__((noinline))
#endif

namespace crosstalk::law {

template <class Real, class Team, class F>
CT_HD void execute_pairs(const Team& team, const RuleOperation& op, Real* m, F&& f) {
  const int n = op.rows * op.columns;
  const Real *a = m + op.a, *b = m + op.b;
  Real* y = m + op.y;
  if (op.flags & RuleOperation::kNumberA) {
    const Real x = a[0];
    team.fill(n, y, [&](int i) { return f(x, b[i]); });
  } else if (op.flags & RuleOperation::kNumberB) {
    const Real x = b[0];
    team.fill(n, y, [&](int i) { return f(a[i], x); });
  } else {
    team.fill(n, y, [&](int i) { return f(a[i], b[i]); });
  }
}

/// On the CPU inlined, so that loops know the function.
template <class Real>
#if defined(__CUDACC__)
CT_HD __noinline__
#else
inline
#endif
    Real
    map_once(MapKind kind, Real x) {
  return mapped(kind, x);
}

template <class Real, class Team>
CT_HD void execute_map(const Team& team, const RuleOperation& op, Real* m) {
  const int n = op.rows * op.columns;
  const Real* a = m + op.a;
  Real* y = m + op.y;
  switch (op.map) {
    case kRuleSqrt:
      return team.each(n, [&](int i) { y[i] = sqrt_(a[i] < 0 ? Real(0) : a[i]); });
    case kRuleAbs:
      return team.each(n, [&](int i) { y[i] = a[i] < 0 ? -a[i] : a[i]; });
    case kRuleSign:
      return team.each(n, [&](int i) { y[i] = a[i] > 0 ? Real(1) : a[i] < 0 ? Real(-1) : Real(0); });
    case kRulePositive:
      return team.each(n, [&](int i) { y[i] = a[i] > 0 ? Real(1) : Real(0); });
    case static_cast<int>(MapKind::relu):
      return team.each(n, [&](int i) { y[i] = a[i] > 0 ? a[i] : Real(0); });
    case static_cast<int>(MapKind::inverse):
      return team.each(n, [&](int i) { y[i] = a[i] == 0 ? Real(0) : 1 / a[i]; });
    default: {
      const auto kind = static_cast<MapKind>(op.map);
      return team.each(n, [&](int i) { y[i] = map_once(kind, a[i]); });
    }
  }
}

template <class Real, class Team>
CT_HD void execute_product(const Team& team, const RuleOperation& op, Real* m) {
  const Real *a = m + op.a, *b = m + op.b;
  Real* y = m + op.y;
  const int rows = op.rows, columns = op.columns, n = op.inner;
  const bool ta = op.flags & RuleOperation::kTransposedA, tb = op.flags & RuleOperation::kTransposedB;
  const auto put = [&](int i, Real sum) { y[i] = sum; };
  if (n == 1) {
    team.cells(rows, columns, y, [&](int i, int j) { return a[i] * b[j]; });
  } else if (rows == 1 && columns == 1) {
    const Real sum = team.sum(n, [&](int l) { return a[l] * b[l]; });
    team.fill(1, y, [&](int) { return sum; });
  } else if (columns == 1 && !ta) {
    team.rows(
        rows, n, [&](int i, int l) { return a[i * n + l] * b[l]; }, put);
  } else if (columns == 1) {
    team.columns(
        rows, n, [&](int i, int l) { return a[l * rows + i] * b[l]; }, put);
  } else if (rows == 1 && tb) {
    team.rows(
        columns, n, [&](int j, int l) { return a[l] * b[j * n + l]; }, put);
  } else if (rows == 1) {
    team.columns(
        columns, n, [&](int j, int l) { return a[l] * b[l * columns + j]; }, put);
  } else {
    const int ai = ta ? 1 : n, al = ta ? rows : 1, bl = tb ? 1 : columns, bj = tb ? n : 1;
    team.cells(rows, columns, y, [&](int i, int j) {
      Real sum = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
      for (int l = 0; l < n; ++l) sum += a[i * ai + l * al] * b[l * bl + j * bj];
      return sum;
    });
  }
}

template <class Real, class Team>
CT_HD void execute_sums(const Team& team, const RuleOperation& op, Real* m) {
  const Real *a = m + op.a, *b = m + op.b;
  Real* y = m + op.y;
  const int n = op.inner, rows = op.rows;
  const auto put = [&](int i, Real sum) { y[i] = sum; };
  if (op.code == RuleCode::sum) {
    const Real sum =
        op.b < 0 ? team.sum(n, [&](int i) { return a[i]; }) : team.sum(n, [&](int i) { return a[i] * b[i]; });
    team.fill(1, y, [&](int) { return sum; });
  } else if (op.code == RuleCode::row_sums) {
    if (op.b < 0) {
      team.rows(
          rows, n, [&](int i, int l) { return a[i * n + l]; }, put);
    } else {
      team.rows(
          rows, n, [&](int i, int l) { return a[i * n + l] * b[i * n + l]; }, put);
    }
  } else if (op.b < 0) {
    team.columns(
        rows, n, [&](int i, int l) { return a[l * rows + i]; }, put);
  } else {
    team.columns(
        rows, n, [&](int i, int l) { return a[l * rows + i] * b[l * rows + i]; }, put);
  }
}

/// c + s a b^T and c + s a * b.
template <class Real, class Team>
CT_HD void execute_added(const Team& team, const RuleOperation& op, Real* m) {
  const Real *a = m + op.a, *b = m + op.b, *c = m + op.c;
  Real* y = m + op.y;
  const int columns = op.columns, n = op.rows * columns;
  const Real sign = op.flags & RuleOperation::kMinus ? Real(-1) : Real(1);
  if (op.code == RuleCode::add_outer) {
    team.cells(op.rows, columns, y, [&](int i, int j) { return c[i * columns + j] + sign * a[i] * b[j]; });
  } else if (op.flags & RuleOperation::kNumberA) {
    const Real x = sign * a[0];
    team.fill(n, y, [&](int i) { return c[i] + x * b[i]; });
  } else {
    team.fill(n, y, [&](int i) { return c[i] + sign * a[i] * b[i]; });
  }
}

template <class Real, class Team>
CT_HD void execute_softmax(const Team& team, const RuleOperation& op, Real* m) {
  const int n = op.rows * op.columns;
  const Real* a = m + op.a;
  Real* y = m + op.y;
  Real most = a[0];
  for (int i = 1; i < n; ++i) most = a[i] > most ? a[i] : most;
  const Real total = team.sum(n, [&](int i) { return exp_(a[i] - most); });
  team.each(n, [&](int i) { y[i] = exp_(a[i] - most) / total; });
}

template <class Real, class Team>
CT_HD void execute(const Team& team, const RuleOperation& op, Real* m) {
  const Real *a = m + op.a, *b = m + op.b;
  Real* y = m + op.y;
  const int rows = op.rows, columns = op.columns, n = rows * columns;
  switch (op.code) {
    case RuleCode::set:
      return team.fill(n, y, [&](int) { return static_cast<Real>(op.value); });
    case RuleCode::add:
      return execute_pairs(team, op, m, [](Real p, Real q) { return p + q; });
    case RuleCode::sub:
      return execute_pairs(team, op, m, [](Real p, Real q) { return p - q; });
    case RuleCode::mul:
      return execute_pairs(team, op, m, [](Real p, Real q) { return p * q; });
    case RuleCode::div:
      if (op.flags & RuleOperation::kNumberB) {
        const Real inverse = 1 / b[0];
        return team.fill(n, y, [&](int i) { return a[i] * inverse; });
      }
      return execute_pairs(team, op, m, [](Real p, Real q) { return p / q; });
    case RuleCode::max:
      return execute_pairs(team, op, m, [](Real p, Real q) { return p < q ? q : p; });
    case RuleCode::min:
      return execute_pairs(team, op, m, [](Real p, Real q) { return q < p ? q : p; });
    case RuleCode::neg:
      return team.fill(n, y, [&](int i) { return -a[i]; });
    case RuleCode::map:
      return execute_map(team, op, m);
    case RuleCode::copy:
      return team.fill(n, y, [&](int i) { return a[i]; });
    case RuleCode::fill: {
      const Real x = a[0];
      return team.fill(n, y, [&](int) { return x; });
    }
    case RuleCode::eye:
      return team.cells(rows, columns, y, [&](int i, int j) { return i == j ? Real(1) : Real(0); });
    case RuleCode::product:
      return execute_product(team, op, m);
    case RuleCode::transpose:
      return team.cells(rows, columns, y, [&](int i, int j) { return a[j * rows + i]; });
    case RuleCode::columns:
      return team.cells(rows, columns, y, [&](int i, int j) { return a[i * columns + j] * b[j]; });
    case RuleCode::rows:
      return team.cells(rows, columns, y, [&](int i, int j) { return a[i * columns + j] * b[i]; });
    case RuleCode::diag:
      return team.cells(rows, columns, y, [&](int i, int j) { return i == j ? a[i] : Real(0); });
    case RuleCode::diagonal:
      return team.fill(n, y, [&](int i) { return a[i * n + i]; });
    case RuleCode::sum:
    case RuleCode::row_sums:
    case RuleCode::column_sums:
      return execute_sums(team, op, m);
    case RuleCode::softmax:
      return execute_softmax(team, op, m);
    case RuleCode::unit: {
      const Real length = sqrt_(team.sum(n, [&](int i) { return a[i] * a[i]; }) + Real(1e-6));
      return team.fill(n, y, [&](int i) { return a[i] / length; });
    }
    case RuleCode::add_outer:
    case RuleCode::add_product:
      return execute_added(team, op, m);
  }
}

}  // namespace crosstalk::law
