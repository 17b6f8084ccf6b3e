// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/lookup.h"

#include <vector>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {
constexpr std::int64_t kRows = 256;    // rows of y in one work item
constexpr std::int64_t kColumns = 32;  // columns of a gradient table in one work item: each has one owner
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
    for (std::int64_t i = 0; i < n; ++i) {
      if (id(i) >= 0) ++start[id(i) + 1];
    }
    for (int row = 0; row < rows; ++row) start[row + 1] += start[row];
    std::vector<std::int32_t> next(start, start + rows);
    for (std::int64_t i = 0; i < n; ++i) {
      if (id(i) >= 0) order[next[static_cast<std::size_t>(id(i))]++] = static_cast<std::int32_t>(i);
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const LookupForward<Real>& a) {
  const std::int64_t n = a.y.rows();
  const int d = a.y.columns(), c = a.ids.columns();
  parallel_blocks(exec, a.y.R, n, kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Real* y = a.y.at(r) + i * d;
      if (a.bias) {
        std::copy_n(a.bias.at(r), d, y);
      } else {
        std::fill_n(y, d, Real(0));
      }
      for (int t = 0; t < a.tables; ++t) {
        const std::int32_t id = a.ids.at(r)[i * c + a.channel[t]];
        if (id >= 0) axpy(Real(1), a.table[t].at(r) + static_cast<std::int64_t>(id) * d, y, d);
      }
    }
  });
}

template <class Real>
void run_cpu(const Exec& exec, const LookupBackward<Real>& a) {
  const std::int64_t n = a.d_y.rows();
  const int d = a.d_y.columns(), c = a.ids.columns();
  parallel_blocks(exec, a.d_y.R, d, kColumns, [&](int r, std::int64_t begin, std::int64_t end) {
    const int width = static_cast<int>(end - begin);
    for (int t = 0; t < a.tables; ++t) {
      if (a.write_table[t] == Write::none) continue;
      Real* d_table = a.d_table[t].at(r) + begin;
      if (a.write_table[t] == Write::overwrite) {
        for (std::int64_t row = 0; row < a.d_table[t].rows(); ++row)
          std::fill_n(d_table + row * d, width, Real(0));
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int32_t id = a.ids.at(r)[i * c + a.channel[t]];
        if (id >= 0)
          axpy(Real(1), a.d_y.at(r) + i * d + begin, d_table + static_cast<std::int64_t>(id) * d, width);
      }
    }
    if (a.write_bias != Write::none) {
      Real* d_bias = a.d_bias.at(r) + begin;
      if (a.write_bias == Write::overwrite) std::fill_n(d_bias, width, Real(0));
      for (std::int64_t i = 0; i < n; ++i) axpy(Real(1), a.d_y.at(r) + i * d + begin, d_bias, width);
    }
  });
}

template void run_cpu(const Exec&, const BucketIds<float>&);
template void run_cpu(const Exec&, const BucketIds<double>&);
template void run_cpu(const Exec&, const LookupForward<float>&);
template void run_cpu(const Exec&, const LookupForward<double>&);
template void run_cpu(const Exec&, const LookupBackward<float>&);
template void run_cpu(const Exec&, const LookupBackward<double>&);

}  // namespace crosstalk
