// Which kernel of the chunkwise state runs: by the format of the products and the sizes of the state.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/recurrence/state_chunk.cuh"
#include "kernels/recurrence/state_chunk_backward.cuh"
#include "kernels/recurrence/state_chunk_launch.cuh"

namespace crosstalk::device {
namespace {

/// True if all that tokens have but gates is in bf16.
bool tokens_narrow(const StateRead<float>& op) {
  const auto narrow = [](const Tensor<float>& x) { return !x.data || x.is_bf16(); };
  bool all = op.q.value.is_bf16() && op.k.value.is_bf16() && op.v.value.is_bf16() && op.o.value.is_bf16() &&
             narrow(op.o.gradient);
  for (const In<float>* field : {&op.q, &op.k, &op.v, &op.erase_read, &op.erase_write})
    all = all && narrow(field->value) && narrow(field->gradient);
  return all;
}

/// Calls f with the tile of this op. Padded sizes have one form, for all gates and rows.
auto with_tile(const StateRead<float>& op, auto&& f) {
  const int size = size_of_state(op);
  const auto sized = [&](auto format, auto whole, auto gated, auto mapped, auto listed, auto narrow) {
    constexpr Precision kFormat = decltype(format)::value;
    constexpr bool kWhole = decltype(whole)::value, kGated = decltype(gated)::value,
                   kMapped = decltype(mapped)::value, kListed = decltype(listed)::value,
                   kNarrow = decltype(narrow)::value;
    const auto of = [&](auto size) {
      constexpr int kSize = size();
      return f(StateTile<kFormat, kSize, kWhole, kGated, kMapped, state_chunk(kSize, kSize, kFormat), 0,
                         false, kListed, kNarrow>{});
    };
    if constexpr (kNarrow)
      return with_least<64, 128>(size, of);
    else
      return with_least<32, 64, 128>(size, of);
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  return with_format(op, [&](auto format) {
    if (!whole(op)) return sized(format, no, yes, yes, yes, no);
    const auto rows = [&](auto mapped, auto listed, auto narrow) {
      return op.log_decay ? sized(format, yes, yes, mapped, listed, narrow)
                          : sized(format, yes, no, mapped, listed, narrow);
    };
    if constexpr (decltype(format)::value == Precision::bf16) {  // the fastest have forms of their own
      if (!rows_mapped(op)) {
        if (size > 32 && tokens_narrow(op)) return op.position ? rows(no, yes, yes) : rows(no, no, yes);
        if (op.position) return rows(no, yes, no);
      }
    }
    return mapped(op) ? rows(yes, yes, no) : rows(no, no, no);
  });
}

/// True if each key channel has a decay of its own.
bool has_channels(const StateRead<float>& op) { return op.log_decay && op.log_decay.value.dim(3) > 1; }

}  // namespace

template <class Real>
bool chunk_read_covers(const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    const auto same = [](const In<float>& a, const In<float>& b) {
      return a && b && (a.memory ? a.memory == b.memory : a.value.data == b.value.data);
    };
    if (op.form != StateForm::chunkwise || size_of_state(op) > 128 || op.k.value.R > 65535) return false;
    if (op.position && op.start) return false;  // what reads see no token see the start
    // Gradients of one variable are added in another order than these fields are written in.
    if (same(op.v, op.q) || same(op.v, op.k) || same(op.v, op.erase_read)) return false;
    if (same(op.log_decay, op.write_gain) || same(op.log_decay, op.erase_gain)) return false;
    if (op.writes * (op.erase == Erase::free ? 2 : 1) > op.chunk_rows()) return false;
    const auto any_same = [&](const In<float>& a, std::initializer_list<const In<float>*> others) {
      return std::any_of(others.begin(), others.end(), [&](const In<float>* b) { return same(a, *b); });
    };
    if (mapped(op) && any_same(op.q, {&op.k, &op.erase_read, &op.erase_write})) return false;
    if (op.erase == Erase::free && (any_same(op.erase_write, {&op.k, &op.v, &op.erase_read}) ||
                                    same(op.k, op.erase_read) || same(op.write_gain, op.erase_gain)))
      return false;
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
KeptFormats chunk_read_keeps(const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    if (!chunk_read_covers(op) || op.products != Precision::bf16 || !whole(op)) return {};
    return {Format::bf16, rows_mapped(op) || has_channels(op) ? Format::native : Format::bf16};
  }
  return {};
}

template <bool kBack, class Real>
void chunk_read(const Exec& exec, const StateRead<Real>& op) {
  if constexpr (std::is_same_v<Real, float>) {
    if (has_channels(op)) return channel_read<kBack>(exec, op);
    with_tile(op, [&](auto tile) {
      using Tile = std::conditional_t<kBack, decltype(tile), typename decltype(tile)::Forward>;
      if constexpr (kBack)
        launch(exec, op, chunk_backward<Tile>, Tile::kThreads, bytes_of<BackwardMemory, Tile>(op));
      else
        launch(exec, op, chunk_forward<Tile>, Tile::kThreads, bytes_of<ForwardMemory, Tile>(op));
    });
  }
}

template bool chunk_read_covers(const StateRead<float>&);
template bool chunk_read_covers(const StateRead<double>&);
template KeptFormats chunk_read_keeps(const StateRead<float>&);
template KeptFormats chunk_read_keeps(const StateRead<double>&);
template void chunk_read<false>(const Exec&, const StateRead<float>&);
template void chunk_read<false>(const Exec&, const StateRead<double>&);
template void chunk_read<true>(const Exec&, const StateRead<float>&);
template void chunk_read<true>(const Exec&, const StateRead<double>&);

}  // namespace crosstalk::device
