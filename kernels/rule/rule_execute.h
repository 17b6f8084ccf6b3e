// Executes operations of a rule_program.h with a team: one thread on the CPU, a block on CUDA. Every operation ends together.
//
//   fill(n, y, f)                  y_i = f(i), i < n
//   cells(rows, columns, y, row)   y_ij = f(j), where f = row(i)
//   entries(rows, columns, y, f)   y_ij = f(i, j), one number at a time
//   rows(rows, n, term, put)       put(i, sum of term(i, l) over l < n)
//   columns(columns, n, term, put) put(j, sum of term(j, l) over l < n)
//   sum(n, term)                   sum of term(i) over i < n
//   number(y, x)                   y = x
//
// f may read y where it is written, and nowhere else: a team works out several entries before it stores them. An index that
// is `auto` may be a Quad, four neighbours at once: columns of rows, cells and fill, and what follows a value's own order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/elementwise/elementwise.h"
#include "kernels/law/law_walk.h"
#include "kernels/rule/rule_numbers.h"
#include "kernels/rule/rule_program.h"

// One copy of a function in a kernel on a GPU, however often it is called: an interpreter's code must fit the caches.
#if defined(__CUDACC__)
#define CROSSTALK_ONE_COPY __noinline__
#else
#define CROSSTALK_ONE_COPY __attribute__((noinline))
#endif

namespace crosstalk::law {

/// Inlined on the CPU, so that loops know the function.
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

/// apply(f) with the function that `map` says.
template <class Real, class Apply>
CT_HD inline void with_map(int map, Apply&& apply) {
  switch (map) {
    case kRuleSqrt:
      return apply([](Real x) { return sqrt_(x < 0 ? Real(0) : x); });
    case kRuleAbs:
      return apply([](Real x) { return x < 0 ? -x : x; });
    case kRuleSign:
      return apply([](Real x) { return x > 0 ? Real(1) : x < 0 ? Real(-1) : Real(0); });
    case kRulePositive:
      return apply([](Real x) { return x > 0 ? Real(1) : Real(0); });
    case static_cast<int>(MapKind::relu):
      return apply([](Real x) { return x > 0 ? x : Real(0); });
    case static_cast<int>(MapKind::inverse):
      return apply([](Real x) { return x == 0 ? Real(0) : 1 / x; });
    default: {
      const auto kind = static_cast<MapKind>(map);
      return apply([kind](Real x) { return map_once(kind, x); });
    }
  }
}

/// Factor of c in add_outer and add_product.
template <class Real>
CT_HD Real scale_of(const RuleOperation& op, const Real* m) {
  if (!(op.flags & RuleOperation::kScaled)) return 1;
  return op.flags & RuleOperation::kDivided ? 1 / m[op.inner] : m[op.inner];
}

/// An operation whose value is one number, of numbers.
template <class Real>
CT_HD void execute_number(const RuleOperation& op, Real* m) {
  const Real a = m[op.a], b = op.b < 0 ? Real(0) : m[op.b];
  Real y = a;
  switch (op.code) {
    case RuleCode::add:
      y = a + b;
      break;
    case RuleCode::sub:
      y = a - b;
      break;
    case RuleCode::mul:
      y = a * b;
      break;
    case RuleCode::div:
      y = a / b;
      break;
    case RuleCode::max:
      y = larger(a, b);
      break;
    case RuleCode::min:
      y = smaller(a, b);
      break;
    case RuleCode::neg:
      y = -a;
      break;
    case RuleCode::map:
      with_map<Real>(op.map, [&](auto f) { y = f(a); });
      break;
    case RuleCode::add_product:
      y = scale_of(op, m) * m[op.c] + (op.flags & RuleOperation::kMinus ? -a : a) * b;
      break;
    default:  // copy, fill
      break;
  }
  m[op.y] = y;
}

template <class Real, class Team, class F>
CT_HD void execute_pairs(const Team& team, const RuleOperation& op, Real* m, F&& f) {
  const int n = op.rows * op.columns;
  const Numbers<Real> a{m + op.a}, b{m + op.b};
  Real* y = m + op.y;
  if (op.flags & RuleOperation::kNumberA) {
    const Real x = a[0];
    team.fill(n, y, [&](auto i) { return f(x, b[i]); });
  } else if (op.flags & RuleOperation::kNumberB) {
    const Real x = b[0];
    team.fill(n, y, [&](auto i) { return f(a[i], x); });
  } else {
    team.fill(n, y, [&](auto i) { return f(a[i], b[i]); });
  }
}

template <class Real, class Team>
CT_HD void execute_map(const Team& team, const RuleOperation& op, Real* m) {
  const Numbers<Real> a{m + op.a};
  Real* y = m + op.y;
  with_map<Real>(op.map, [&](auto f) { team.each(op.rows * op.columns, [&](int i) { y[i] = f(a[i]); }); });
}

template <class Real, class Team>
CT_HD void execute_product(const Team& team, const RuleOperation& op, Real* m) {
  const Numbers<Real> a{m + op.a}, b{m + op.b};
  Real* y = m + op.y;
  const int rows = op.rows, columns = op.columns, n = op.inner;
  const bool ta = op.flags & RuleOperation::kTransposedA, tb = op.flags & RuleOperation::kTransposedB;
  const auto put = [&](int i, Real sum) { y[i] = sum; };
  if (n == 1) {
    team.cells(rows, columns, y, [&](int i) { return [x = a[i], b](auto j) { return x * b[j]; }; });
  } else if (rows == 1 && columns == 1) {
    const Real sum = team.sum(n, [&](auto l) { return a[l] * b[l]; });
    team.number(y, sum);
  } else if (columns == 1 && !ta) {
    team.rows(
        rows, n, [&](int i, auto l) { return a[i * n + l] * b[l]; }, put);
  } else if (columns == 1) {
    team.columns(
        rows, n, [&](auto i, int l) { return a[l * rows + i] * b[l]; }, put);
  } else if (rows == 1 && tb) {
    team.rows(
        columns, n, [&](int j, auto l) { return a[l] * b[j * n + l]; }, put);
  } else if (rows == 1) {
    team.columns(
        columns, n, [&](auto j, int l) { return a[l] * b[l * columns + j]; }, put);
  } else {
    const int ai = ta ? 1 : n, al = ta ? rows : 1, bl = tb ? 1 : columns, bj = tb ? n : 1;
    team.entries(rows, columns, y, [&](int i, int j) {
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
  const Numbers<Real> a{m + op.a}, b{m + op.b};
  Real* y = m + op.y;
  const int n = op.inner, rows = op.rows;
  const auto put = [&](int i, Real sum) { y[i] = sum; };
  if (op.code == RuleCode::sum) {
    const Real sum = op.b < 0 ? team.sum(n, [&](auto i) { return a[i]; })
                              : team.sum(n, [&](auto i) { return a[i] * b[i]; });
    team.number(y, sum);
  } else if (op.code == RuleCode::row_sums) {
    if (op.b < 0) {
      team.rows(
          rows, n, [&](int i, auto l) { return a[i * n + l]; }, put);
    } else {
      team.rows(
          rows, n, [&](int i, auto l) { return a[i * n + l] * b[i * n + l]; }, put);
    }
  } else if (op.b < 0) {
    team.columns(
        rows, n, [&](auto i, int l) { return a[l * rows + i]; }, put);
  } else {
    team.columns(
        rows, n, [&](auto i, int l) { return a[l * rows + i] * b[l * rows + i]; }, put);
  }
}

/// x c + s a b^T and x c + s a * b.
template <class Real, class Team>
CT_HD void execute_added(const Team& team, const RuleOperation& op, Real* m) {
  const Numbers<Real> a{m + op.a}, b{m + op.b}, c{m + op.c};
  Real* y = m + op.y;
  const int rows = op.rows, columns = op.columns, n = rows * columns;
  const Real sign = op.flags & RuleOperation::kMinus ? Real(-1) : Real(1);
  const Real scale = scale_of(op, m);
  if (op.code == RuleCode::add_outer) {
    team.cells(rows, columns, y, [&](int i) {
      return [i = i * columns, x = sign * a[i], scale, b, c](auto j) { return scale * c[i + j] + x * b[j]; };
    });
  } else if (op.flags & RuleOperation::kNumberA) {
    const Real x = sign * a[0];
    team.fill(n, y, [&](auto i) { return scale * c[i] + x * b[i]; });
  } else {
    team.fill(n, y, [&](auto i) { return scale * c[i] + sign * a[i] * b[i]; });
  }
}

template <class Real, class Team>
CT_HD void execute_softmax(const Team& team, const RuleOperation& op, Real* m) {
  const int n = op.rows * op.columns;
  const Numbers<Real> a{m + op.a};
  Real* y = m + op.y;
  Real most = a[0];
  for (int i = 1; i < n; ++i) most = larger(most, a[i]);
  const auto power = [most](Real x) { return exp_(x - most); };
  const Real total = team.sum(n, [&](auto i) { return each_of(a[i], power); });
  team.each(n, [&](int i) { y[i] = power(a[i]) / total; });
}

/// By elimination without a choice of pivots: rows below one lose their share of it, then rows above.
template <class Real, class Team>
CT_HD void execute_solve(const Team& team, const RuleOperation& op, Real* m) {
  const int n = op.rows;
  const Numbers<Real> a{m + op.a}, b{m + op.b};
  Real *left = m + op.c, *y = m + op.y;
  team.fill(n * n, left, [&](auto i) { return a[i]; });
  team.fill(n, y, [&](auto i) { return b[i]; });
  for (int p = 0; p < n; ++p) {
    const int columns = n - p;  // those of the matrix behind p, and y
    team.each((n - 1 - p) * columns, [&](int e) {
      const int i = p + 1 + e / columns, j = p + 1 + e % columns;
      const Real share = left[i * n + p] / left[p * n + p];
      if (j < n)
        left[i * n + j] -= share * left[p * n + j];
      else
        y[i] -= share * y[p];
    });
  }
  for (int p = n - 1; p > 0; --p)
    team.each(p, [&](int i) { y[i] -= left[i * n + p] * (y[p] / left[p * n + p]); });
  team.each(n, [&](int i) { y[i] /= left[i * n + i]; });
}

template <class Real, class Team>
CT_HD void execute(const Team& team, const RuleOperation& op, Real* m) {
  const Numbers<Real> a{m + op.a}, b{m + op.b};
  Real* y = m + op.y;
  const int rows = op.rows, columns = op.columns, n = rows * columns;
  switch (op.code) {
    case RuleCode::numbers:
      return;  // who walks the list does them
    case RuleCode::add:
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return p + q; });
    case RuleCode::sub:
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return p - q; });
    case RuleCode::mul:
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return p * q; });
    case RuleCode::div:
      if (op.flags & RuleOperation::kNumberB) {
        const Real inverse = 1 / b[0];
        return team.fill(n, y, [&](auto i) { return a[i] * inverse; });
      }
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return p / q; });
    case RuleCode::max:
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return larger(p, q); });
    case RuleCode::min:
      return execute_pairs(team, op, m, [](const auto& p, const auto& q) { return smaller(p, q); });
    case RuleCode::neg:
      return team.fill(n, y, [&](auto i) { return Real(-1) * a[i]; });
    case RuleCode::map:
      return execute_map(team, op, m);
    case RuleCode::copy:
      return team.fill(n, y, [&](auto i) { return a[i]; });
    case RuleCode::fill: {
      const Real x = a[0];
      return team.fill(n, y, [&](auto) { return x; });
    }
    case RuleCode::eye:
      return team.entries(rows, columns, y, [&](int i, int j) { return i == j ? Real(1) : Real(0); });
    case RuleCode::product:
      return execute_product(team, op, m);
    case RuleCode::transpose:
      return team.entries(rows, columns, y, [&](int i, int j) { return a[j * rows + i]; });
    case RuleCode::columns:
      return team.cells(rows, columns, y,
                        [&](int i) { return [i = i * columns, a, b](auto j) { return a[i + j] * b[j]; }; });
    case RuleCode::rows:
      return team.cells(rows, columns, y, [&](int i) {
        return [i = i * columns, x = b[i], a](auto j) { return a[i + j] * x; };
      });
    case RuleCode::diag:
      return team.entries(rows, columns, y, [&](int i, int j) { return i == j ? a[i] : Real(0); });
    case RuleCode::diagonal:
      return team.each(n, [&](int i) { y[i] = a[i * n + i]; });
    case RuleCode::sum:
    case RuleCode::row_sums:
    case RuleCode::column_sums:
      return execute_sums(team, op, m);
    case RuleCode::softmax:
      return execute_softmax(team, op, m);
    case RuleCode::solve:
      return execute_solve(team, op, m);
    case RuleCode::unit: {
      const Real length = sqrt_(team.sum(n, [&](auto i) { return a[i] * a[i]; }) + Real(1e-6));
      return team.fill(n, y, [&](auto i) { return a[i] / length; });
    }
    case RuleCode::add_outer:
    case RuleCode::add_product:
      return execute_added(team, op, m);
  }
}

}  // namespace crosstalk::law
