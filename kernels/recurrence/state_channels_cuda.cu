// The chunkwise state whose key channels decay each by itself.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/state_channels_backward.cuh"
#include "kernels/recurrence/state_chunk.cuh"
#include "kernels/recurrence/state_chunk_launch.cuh"

namespace crosstalk::device {
namespace {

/// Calls f with the tile of this op; padded sizes have one form.
auto with_tile(const StateRead<float>& op, auto&& f) {
  return with_format(op, [&](auto format) {
    constexpr Precision kFormat = decltype(format)::value;
    const auto sized = [&](auto whole, auto mapped, auto paired, auto listed) {
      constexpr bool kWhole = decltype(whole)::value, kMapped = decltype(mapped)::value;
      constexpr bool kPaired = decltype(paired)::value, kListed = decltype(listed)::value;
      return with_least<32, 64, 128>(size_of_state(op), [&](auto size) {
        return f(StateTile < kFormat, size(), kWhole, true, kMapped, 32, size() == 128 ? 8 : 0, kPaired,
                 kListed > {});
      });
    };
    constexpr std::true_type yes;
    constexpr std::false_type no;
    if (!whole(op)) return sized(no, yes, no, yes);
    if (op.erase == Erase::free && op.writes == 1 && !op.position) return sized(yes, yes, yes, no);
    if constexpr (kFormat == Precision::bf16) {  // last layers of language models
      if (op.position && !rows_mapped(op)) return sized(yes, no, no, yes);
    }
    return mapped(op) ? sized(yes, yes, no, yes) : sized(yes, no, no, no);
  });
}

}  // namespace

bool channel_read_covers(const StateRead<float>& op) {
  return with_tile(op, [&](auto tile) {
    using Tile = decltype(tile);
    const std::size_t limit = shared_memory_limit();
    return bytes_of<ChannelForwardMemory, Tile>(op) <= limit &&
           bytes_of<ChannelBackwardMemory, Tile>(op) <= limit;
  });
}

template <bool kBack>
void channel_read(const Exec& exec, const StateRead<float>& op) {
  with_tile(op, [&](auto tile) {
    using Tile = decltype(tile);
    kBack
        ? launch(exec, op, channel_backward<Tile>, Tile::kThreads, bytes_of<ChannelBackwardMemory, Tile>(op))
        : launch(exec, op, channel_forward<Tile>, Tile::kThreads, bytes_of<ChannelForwardMemory, Tile>(op));
  });
}
template void channel_read<false>(const Exec&, const StateRead<float>&);
template void channel_read<true>(const Exec&, const StateRead<float>&);

}  // namespace crosstalk::device
