// Turns, row after row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/parallel.h"
#include "kernels/elementwise/turn.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kRows = 64;

// Not inlined: products may be contracted in two ways, and each inlined copy could choose its own.
template <class Real>
[[gnu::noinline]] void turn_rows(const Turn<Real>& op, bool back, int r, std::int64_t begin,
                                 std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) back ? op.turn_back(r, row) : op.turn_row(r, row);
}

template <class Real>
void turn(const Exec& exec, const Turn<Real>& op, bool back) {
  parallel_blocks(exec, op.x.value.R, op.x.value.rows(), kRows,
                  [&](int r, std::int64_t begin, std::int64_t end) { turn_rows(op, back, r, begin, end); });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Turn<Real>& op) {
  turn(exec, op, false);
}
template <class Real>
void backward_cpu(const Exec& exec, const Turn<Real>& op) {
  turn(exec, op, true);
}

CROSSTALK_INSTANTIATE(cpu, Turn)

}  // namespace crosstalk
