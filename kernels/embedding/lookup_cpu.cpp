// Lookups and lists of ids on the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/embedding/lookup.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 256;    // rows of y in one work item
constexpr std::int64_t kColumns = 32;  // columns of a gradient table in one work item: each has one owner

/// y = 0 + rows[0] + rows[1] ..., one pass for the two that tokens mostly have.
template <class Real>
void put_sum(const Real* const* rows, int count, Real* y, int d) {
  if (count == 2) {
    const Real *first = rows[0], *second = rows[1];
    for (int j = 0; j < d; ++j) y[j] = Real(0) + first[j] + second[j];
    return;
  }
  std::fill_n(y, d, Real(0));
  for (int t = 0; t < count; ++t) axpy(Real(1), rows[t], y, d);
}
/// y += x; of a whole work item's columns without a loop.
template <class Real>
void add_to(const Real* x, Real* y, int n) {
  if (n != kColumns) return axpy(Real(1), x, y, n);
  Real sum[kColumns];
  for (int j = 0; j < kColumns; ++j) sum[j] = y[j] + x[j];
  std::copy_n(sum, kColumns, y);
}
}  // namespace

template <class Real>
void run_cpu(const Exec& exec, const BucketIds<Real>& a) {
  const std::int64_t n = a.order.size();
  const int c = a.ids.columns(), rows = static_cast<int>(a.start.size()) - 1;
  parallel_items(exec, a.ids.R, a.copies, [&](int r, std::int64_t copy) {
    std::int32_t *start = a.start.at(r) + copy * (rows + 1), *order = a.order.at(r) + copy * n;
    const std::int32_t* ids = a.ids.at(r) + copy * n * c;
    const auto id = [&](std::int64_t i) { return ids[i * c + a.channel]; };
    std::fill_n(start, rows + 1, 0);
    for (std::int64_t i = 0; i < n; ++i)
      if (id(i) >= 0) ++start[id(i) + 1];
    for (int row = 0; row < rows; ++row) start[row + 1] += start[row];
    std::vector<std::int32_t> next(start, start + rows);
    for (std::int64_t i = 0; i < n; ++i)
      if (id(i) >= 0) order[next[static_cast<std::size_t>(id(i))]++] = static_cast<std::int32_t>(i);
  });
}

template <class Real>
void forward_cpu(const Exec& exec, const Lookup<Real>& a) {
  const std::int64_t n = a.y.value.rows();
  const int d = a.y.value.columns(), c = a.ids.value.columns();
  parallel_each(exec, a.y.value.R, n, kRows, [&](int r, std::int64_t i) {
    const Real* rows[kMaxTables + 1];
    int count = 0;
    if (a.bias.value) rows[count++] = a.bias.value.at(r) + i % a.bias_rows() * d;
    for (int t = 0; t < a.tables; ++t) {
      const std::int32_t id = a.ids.value.at(r)[i * c + a.channel[t]];
      if (id >= 0) rows[count++] = a.table[t].value.at(r) + static_cast<std::int64_t>(id) * d;
    }
    put_sum(rows, count, a.y.value.at(r) + i * d, d);
  });
}

template <class Real>
void backward_cpu(const Exec& exec, const Lookup<Real>& a) {
  const std::int64_t n = a.y.gradient.rows();
  const int d = a.y.gradient.columns(), c = a.ids.value.columns();
  parallel_blocks(exec, a.y.gradient.R, d, kColumns, [&](int r, std::int64_t begin, std::int64_t end) {
    const int width = static_cast<int>(end - begin);
    Real* to[kMaxTables] = {};  // of each table that wants its gradient
    for (int t = 0; t < a.tables; ++t) {
      if (a.table[t].write == Write::none) continue;
      to[t] = a.table[t].gradient.at(r) + begin;
      if (a.table[t].write == Write::overwrite)
        for (std::int64_t row = 0; row < a.table[t].gradient.rows(); ++row)
          std::fill_n(to[t] + row * d, width, Real(0));
    }
    bool tied = false;  // tables that are one variable take turns, or its sums would be of another order
    for (int t = 1; t < a.tables; ++t)
      for (int other = 0; other < t; ++other) tied = tied || (to[t] && to[t] == to[other]);
    const auto add = [&](std::int64_t i, int t) {
      const std::int32_t id = a.ids.value.at(r)[i * c + a.channel[t]];
      if (to[t] && id >= 0)
        add_to(a.y.gradient.at(r) + i * d + begin, to[t] + static_cast<std::int64_t>(id) * d, width);
    };
    for (int first = 0; first < a.tables; first += tied ? 1 : a.tables) {
      const int last = tied ? first + 1 : a.tables;  // all at once: what comes is read once
      for (std::int64_t i = 0; i < n; ++i)
        for (int t = first; t < last; ++t) add(i, t);
    }
    if (a.bias.write != Write::none) {
      Real* d_bias = a.bias.gradient.at(r) + begin;
      if (a.bias.write == Write::overwrite)
        for (std::int64_t row = 0; row < a.bias.gradient.rows(); ++row)
          std::fill_n(d_bias + row * d, width, Real(0));
      for (std::int64_t i = 0; i < n; ++i)
        axpy(Real(1), a.y.gradient.at(r) + i * d + begin, d_bias + i % a.bias_rows() * d, width);
    }
  });
}

CROSSTALK_INSTANTIATE_STEP(cpu, BucketIds)
CROSSTALK_INSTANTIATE(cpu, Lookup)

}  // namespace crosstalk
