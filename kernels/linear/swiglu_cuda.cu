// A gated MLP on CUDA: rows by swiglu_rows.cuh, gradients of weights by the kernels of joined maps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/joined_linear_weights.cuh"
#include "kernels/linear/swiglu_rows.cuh"

namespace crosstalk {
namespace {
using namespace device;

template <int W>
void run(const Exec& exec, const Swiglu<float>& a, int tensors, const char* name,
         void (*kernel)(Swiglu<float>, int)) {
  const int R = a.x.value.R, depth = a.bytes(2, tensors) <= shared_memory_limit() ? 2 : 1;
  launch(exec, name, pack_units<W>, per_replica(a.H() / kWgmmaRows * 3, R), 256, 0, a);
  const unsigned pairs = blocks_for(a.x.value.rows(), kSwigluOwners * kWgmmaRows),
                 share = blocks_of_a_wave(R);
  launch(exec, name, kernel, per_replica(std::min(pairs, share), R), kSwigluThreads, a.bytes(depth, tensors),
         a, depth);
}

/// Gradients of G and U, of x and what reaches these maps.
template <int W>
void gate_gradients(const Exec& exec, const Swiglu<float>& a) {
  JoinedLinear<float> maps;
  maps.outputs = 2;
  maps.x.value = a.x.value, maps.pieces = a.pieces;
  maps.w[0] = a.gate, maps.w[1] = a.up;
  maps.y[0].gradient = a.d_gate.value, maps.y[1].gradient = a.d_up.value;
  const LinearSlabs s = a.slabs(2);
  weights_in_tiles<W>(exec, maps, s, a.x.value.is_bf16(), [=] __device__(int r, std::int64_t at, float sum) {
    const int second = at >= s.weight_at[1] ? 1 : 0;
    const std::int64_t i = at - (second ? s.weight_at[1] : s.weight_at[0]);
    const In<float>& w = second ? a.up : a.gate;
    if (i < std::int64_t{a.H()} * W && w.wanted()) put(w.write, w.gradient.at(r) + i, sum);
  });
}

/// The gradient of D, turned: of what reaches y, as if that were an input, and h, as if it were an output's gradient.
template <int W>
void down_gradients(const Exec& exec, const Swiglu<float>& a) {
  JoinedLinear<float> maps;
  maps.outputs = 1;
  maps.x.value = a.y.gradient, maps.pieces = a.pieces;
  maps.w[0] = a.gate;  // whose shape is that of D turned
  maps.y[0].gradient = a.h.value;
  weights_in_tiles<W>(exec, maps, a.slabs(1), a.y.gradient.is_bf16(),
                      [=] __device__(int r, std::int64_t at, float sum) {
                        const int H = a.H(), unit = static_cast<int>(at / W), c = static_cast<int>(at % W);
                        if (unit < H) put(a.down.write, a.down.gradient.at(r) + c * H + unit, sum);
                      });
}

template <int W>
void backward_rows(const Exec& exec, const Swiglu<float>& a) {
  run<W>(exec, a, 2, "swiglu backward", swiglu_backward<W>);
  if (a.gate.wanted() || a.up.wanted()) gate_gradients<W>(exec, a);
  if (a.down.wanted()) down_gradients<W>(exec, a);
}

template <class Real>
bool any(const Swiglu<Real>& a) {
  a.check_covered();
  return a.x.value.rows() > 0 && a.x.value.R > 0;
}

}  // namespace

template <class Real>
void forward_cuda(const Exec& exec, const Swiglu<Real>& a) {
  if (!any(a)) return;
  if constexpr (std::is_same_v<Real, float>)
    a.W() == 64 ? run<64>(exec, a, 1, "swiglu", swiglu_forward<64>)
                : run<128>(exec, a, 1, "swiglu", swiglu_forward<128>);
}

template <class Real>
void backward_cuda(const Exec& exec, const Swiglu<Real>& a) {
  if (!any(a)) return;
  if constexpr (std::is_same_v<Real, float>)
    a.W() == 64 ? backward_rows<64>(exec, a) : backward_rows<128>(exec, a);
}

CROSSTALK_INSTANTIATE(cuda, Swiglu)

}  // namespace crosstalk
