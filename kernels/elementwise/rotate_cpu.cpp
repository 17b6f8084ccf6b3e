// Rotary positions, row after row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/rotate.h"

#include "kernels/base/parallel.h"

namespace crosstalk {
namespace {

constexpr std::int64_t kRows = 64;

template <class Real>
void rotate(const Exec& exec, const Rotate<Real>& op, const Tensor<Real>& from, const Tensor<Real>& to,
            bool back, Write mode) {
  const int H = op.x.value.dim(2), K = op.x.value.dim(3);
  const std::int64_t rows = std::int64_t{op.x.value.dim(0)} * op.x.value.dim(1);
  parallel_blocks(exec, op.x.value.R, rows, kRows, [&](int r, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const Real* x = from.at(r) + row * H * K;
      Real* y = to.at(r) + row * H * K;
      for (int c = 0; 2 * c + 1 < K; ++c) {
        const Turned t = turned(op, r, row, c);
        for (int h = 0; h < H; ++h) turn_pair(t, back, mode, x + h * K + 2 * c, y + h * K + 2 * c);
      }
      for (int h = 0; h < H && K % 2 == 1; ++h) put(mode, y + h * K + K - 1, x[h * K + K - 1]);
    }
  });
}

}  // namespace

template <class Real>
void forward_cpu(const Exec& exec, const Rotate<Real>& op) {
  rotate(exec, op, op.x.value, op.y.value, false, Write::overwrite);
}
template <class Real>
void backward_cpu(const Exec& exec, const Rotate<Real>& op) {
  if (op.x.wanted()) rotate(exec, op, op.y.gradient, op.x.gradient, true, op.x.write);
}

CROSSTALK_INSTANTIATE(cpu, Rotate)

}  // namespace crosstalk
