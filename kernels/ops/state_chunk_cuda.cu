// Which kernel of the chunkwise state runs: by the format of the products and the sizes of the state.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/state_chunk.cuh"
#include "kernels/ops/state_chunk_backward.cuh"
#include "kernels/ops/state_chunk_launch.cuh"

namespace crosstalk::device {
namespace {

/// Calls f with the tile of this op. Padded sizes have one form, for all gates.
template <class F>
auto with_tile(const StateRead<float>& op, F&& f) {
  const int size = op.K() > op.V() ? op.K() : op.V();
  const auto sized = [&](auto format, auto whole, auto gated) {
    constexpr Precision kFormat = decltype(format)::value;
    constexpr bool kWhole = decltype(whole)::value, kGated = decltype(gated)::value;
    if (size <= 32) return f(StateTile<kFormat, 32, kWhole, kGated>{});
    if (size <= 64) return f(StateTile<kFormat, 64, kWhole, kGated>{});
    return f(StateTile<kFormat, 128, kWhole, kGated>{});
  };
  return with_format(op, [&](auto format) {
    if (!whole(op)) return sized(format, std::false_type{}, std::true_type{});
    if (op.log_decay) return sized(format, std::true_type{}, std::true_type{});
    return sized(format, std::true_type{}, std::false_type{});
  });
}

/// Whether each key channel has a decay of its own.
bool has_channels(const StateRead<float>& op) { return op.log_decay && op.log_decay.value.dim(3) > 1; }

}  // namespace

template <class Real>
bool chunk_read_covers(const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    const auto same = [](const In<float>& a, const In<float>& b) {
      return a && b && a.value.data == b.value.data;
    };
    if (op.form != StateForm::chunkwise || op.writes != 1 || op.position || op.erase == Erase::free)
      return false;
    if (op.K() > 128 || op.V() > 128 || op.k.value.R > 65535) return false;
    // Gradients of one variable are added in another order than these fields are written in.
    if (same(op.v, op.q) || same(op.v, op.k) || same(op.v, op.erase_read)) return false;
    if (same(op.log_decay, op.write_gain) || same(op.log_decay, op.erase_gain)) return false;
    if (has_channels(op)) return channel_read_covers(op);
    return with_tile(op, [&](auto tile) {
      using Tile = decltype(tile);
      const std::size_t limit = shared_memory_limit();
      return bytes_of<ForwardMemory, typename Tile::Forward>(op) <= limit &&
             bytes_of<BackwardMemory, Tile>(op) <= limit;
    });
  }
  return false;
}

template <class Real>
void chunk_read_forward(const Exec& exec, const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    if (has_channels(op)) return channel_read_forward(exec, op);
    with_tile(op, [&](auto tile) {
      using Tile = typename decltype(tile)::Forward;
      launch(exec, op, chunk_forward<Tile>, Tile::kThreads, bytes_of<ForwardMemory, Tile>(op));
    });
  }
}

template <class Real>
void chunk_read_backward(const Exec& exec, const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    if (has_channels(op)) return channel_read_backward(exec, op);
    with_tile(op, [&](auto tile) {
      using Tile = decltype(tile);
      launch(exec, op, chunk_backward<Tile>, Tile::kThreads, bytes_of<BackwardMemory, Tile>(op));
    });
  }
}

template bool chunk_read_covers(const StateRead<float>&);
template bool chunk_read_covers(const StateRead<double>&);
template void chunk_read_forward(const Exec&, const StateRead<float>&);
template void chunk_read_forward(const Exec&, const StateRead<double>&);
template void chunk_read_backward(const Exec&, const StateRead<float>&);
template void chunk_read_backward(const Exec&, const StateRead<double>&);

}  // namespace crosstalk::device
