// The largest numbers of rows against a sort.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/largest.h"

#include <algorithm>
#include <numeric>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::largest_test {
namespace {

/// Entries of a row in falling order, the first of equal ones first.
std::vector<int> sorted(const double* row, int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
  return order;
}

template <template <class> class Op, class Configure>
OpCase make(const std::string& name, int rows, int n, int count, bool marks, const Fill& fill,
            const Configure& configure) {
  OpCase op(name);
  op.input("x", {rows, n}, fill);
  if (marks) {
    op.output_without_gradient("y", {rows, n});
    call_forward<Op>(op, configure);
  } else {
    op.output("y", {rows, n});
    call<Op>(op, configure);
  }
  op.oracle([=](const Values& in, Values& out) {
    Numbers& y = out.real["y"];
    y.assign(static_cast<std::size_t>(rows * n), marks ? 0 : -7);
    for (int row = 0; row < rows; ++row) {
      const auto order = sorted(in["x"].data() + row * n, n);
      for (int i = 0; i < std::min(count, n); ++i) {
        const auto at = static_cast<std::size_t>(row * n + order[i]);
        y[at] = marks ? 1 : in["x"][at];
      }
    }
  });
  return op;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const auto& [name, rows, n, count] :
       {std::tuple{"Two", 7, 5, 2}, {"One", 3, 4, 1}, {"All", 3, 4, 9}, {"Wide", 50, 70, 32}}) {
    // Whole numbers and something apart: no two of them within reach of a difference quotient.
    const Fill apart = [n = n](RandomStream& random, int, std::int64_t i) {
      return static_cast<double>(integer_in(-3, 3)(random, 0, i)) + 0.3 * static_cast<double>(i % n) / n;
    };
    all.push_back(make<Largest>(name, rows, n, count, false, apart,
                                [c = count](auto& o) { o.count = c, o.otherwise = -7; }));
    all.push_back(make<MarkLargest>(std::string("Marks") + name, rows, n, count, true, integer_in(-2, 2),
                                    [c = count](auto& o) { o.count = c; }));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Largest, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::largest_test
