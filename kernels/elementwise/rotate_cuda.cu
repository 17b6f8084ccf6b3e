// Rotary positions: a thread a pair of channels.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/cuda_launch.cuh"
#include "kernels/elementwise/rotate.h"

namespace crosstalk {
namespace {
using namespace device;

constexpr int kThreads = 256;

template <class Real>
struct Turning {
  Tensor<Real> from, to;
  bool back;
  Write mode;
};

template <class Real>
__global__ void __launch_bounds__(kThreads)
    rotate(const __grid_constant__ Rotate<Real> op, const __grid_constant__ Turning<Real> p) {
  const int H = op.x.value.dim(2), K = op.x.value.dim(3), pairs = (K + 1) / 2, r = blockIdx.y;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= static_cast<std::int64_t>(op.x.value.dim(0)) * op.x.value.dim(1) * H * pairs) return;
  const int c = static_cast<int>(n % pairs);
  const std::int64_t head = n / pairs, at = head * K + 2 * c;
  const Real* from = p.from.at(r) + at;
  Real* to = p.to.at(r) + at;
  if (2 * c + 1 == K) {
    put(p.mode, to, *from);
  } else {
    turn_pair(turned(op, r, head / H, c), p.back, p.mode, from, to);
  }
}

template <class Real>
void launch(const Exec& exec, const Rotate<Real>& op, const Turning<Real>& p) {
  const Tensor<Real>& x = op.x.value;
  if (x.size() == 0 || x.R == 0) return;
  const std::int64_t pairs = x.rows() * ((x.columns() + 1) / 2);
  rotate<Real>
      <<<dim3(blocks_for(pairs, kThreads), static_cast<unsigned>(x.R)), kThreads, 0, stream_of(exec)>>>(op,
                                                                                                        p);
  check_launch("rotate");
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Rotate<Real>& op) {
  launch(exec, op, Turning<Real>{op.x.value, op.y.value, false, Write::overwrite});
}
template <class Real>
void backward_cuda(const Exec& exec, const Rotate<Real>& op) {
  if (op.x.wanted()) launch(exec, op, Turning<Real>{op.y.gradient, op.x.gradient, true, op.x.write});
}

CROSSTALK_INSTANTIATE(cuda, Rotate)

}  // namespace crosstalk
