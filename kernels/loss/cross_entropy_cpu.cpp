// Cross-entropy on the CPU, logits of a block of rows at a time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/cross_entropy.h"

#include <cmath>

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kRows = 16;  ///< rows of an item of work

/// Loss of one row; its logits become (softmax - onehot) share where `gradients`.
template <class Real>
void row(const CrossEntropy<Real>& op, int r, std::int64_t n, Real* y, bool gradients) {
  const int V = op.V(), target = op.target.value.at(r)[n];
  if (target < 0) {
    op.query_loss.value.at(r)[n] = 0;
    op.correct.value.at(r)[n] = -1;
    if (gradients) std::fill(y, y + V, Real(0));
    return;
  }
  const Real right = y[target];
  Real top = right, total = 0;
  bool largest = true;
  for (int v = 0; v < V; ++v) {
    if (y[v] > top) top = y[v];
    largest = largest && (v == target || y[v] < right);
  }
  for (int v = 0; v < V; ++v) total += std::exp(y[v] - top);
  op.query_loss.value.at(r)[n] = std::log(total) + (top - right);
  op.correct.value.at(r)[n] = largest;
  if (!gradients) return;
  const Real share = op.share.value.at(r)[0];
  for (int v = 0; v < V; ++v) y[v] = (std::exp(y[v] - top) / total - (v == target ? 1 : 0)) * share;
}

template <class Real>
void pass(const Exec& exec, const CrossEntropy<Real>& op, bool gradients) {
  const int R = op.x.value.R, V = op.V();
  const std::int64_t rows = op.rows(), block = op.logits.value.dim(0);
  parallel_items(exec, R, 1, [&](int r, std::int64_t) {
    std::int64_t used = 0;
    for (std::int64_t n = 0; n < rows; ++n) used += op.target.value.at(r)[n] >= 0;
    op.share.value.at(r)[0] = used > 0 ? 1 / static_cast<Real>(used) : Real(0);
  });
  for (std::int64_t begin = 0; begin < rows; begin += block) {
    const std::int64_t count = std::min(block, rows - begin);
    const Linear<Real> product = op.product(begin, count);
    forward(exec, product);
    parallel_blocks(exec, R, count, kRows, [&](int r, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i)
        row(op, r, begin + i, op.logits.value.at(r) + i * V, gradients);
    });
    if (gradients) backward(exec, product);
  }
  parallel_items(exec, R, 1, [&](int r, std::int64_t) {
    Real total = 0;
    for (std::int64_t n = 0; n < rows; ++n) total += op.query_loss.value.at(r)[n];
    op.loss.value.at(r)[0] = total * op.share.value.at(r)[0];
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const CrossEntropy<Real>& op) {
  pass(exec, op, op.with_gradients);
}

template <class Real>
void backward_cpu(const Exec& exec, const CrossEntropy<Real>& op) {
  if (!op.with_gradients) pass(exec, op, true);
}

CROSSTALK_INSTANTIATE(cpu, CrossEntropy)

}  // namespace crosstalk
