// RWKV-4's memory on CUDA (wkv_read_law.h): a thread a channel, which waits for no other; many channels as laws in general.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/law_team.cuh"
#include "kernels/law/wkv_read_law.h"

namespace crosstalk {
namespace {

constexpr int kMostChannels = 256;

/// A block of as many threads as channels: number i of every loop, and numbers V + i, are thread i's.
struct Channels {
  __device__ void each(int n, auto&& f) const {
    for (int i = CT_THREAD; i < n; i += static_cast<int>(blockDim.x)) f(i);
  }
};

template <class Real, bool kBack>
__global__ void __launch_bounds__(kMostChannels) wkv_kernel(const __grid_constant__ WkvRead<Real> op) {
  const law::Wkv<Real> law(op, static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.x));
  if constexpr (kBack)
    walk_backward(law, Channels());
  else
    walk_forward(law, Channels());
}

template <bool kBack, class Real>
void run(const Exec& exec, const WkvRead<Real>& op) {
  if (op.V() > 0 && op.V() <= kMostChannels) return law::launch(exec, op, wkv_kernel<Real, kBack>, op.V());
  law::run<law::Wkv, kBack>(exec, op);
}

}  // namespace

CROSSTALK_BOTH_WAYS(cuda, WkvRead, run<kBack>)

}  // namespace crosstalk
