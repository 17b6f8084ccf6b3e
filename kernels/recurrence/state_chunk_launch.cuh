// How the kernels of the chunkwise state are chosen and launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/recurrence/state_chunk_walk.cuh"

namespace crosstalk::device {

/// True if rows of every tensor start at multiples of 16 bytes, given that their lengths are such.
inline bool aligned(const StateRead<float>& op) {
  const void* const pointers[] = {op.q.value.data,
                                  op.k.value.data,
                                  op.v.value.data,
                                  op.erase_read.value.data,
                                  op.start.value.data,
                                  op.o.value.data,
                                  op.q.gradient.data,
                                  op.k.gradient.data,
                                  op.v.gradient.data,
                                  op.o.gradient.data,
                                  op.start.gradient.data,
                                  op.erase_read.gradient.data,
                                  op.end.value.data,
                                  op.end.gradient.data,
                                  op.states.value.data,
                                  op.solved.value.data,
                                  op.inverse.value.data,
                                  op.erase_write.value.data,
                                  op.erase_write.gradient.data};
  for (const void* p : pointers)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  return true;
}

/// True if rows are more than a token each; or than a token and its query.
inline bool rows_mapped(const StateRead<float>& op) {
  return op.writes > 1 || op.erase == Erase::free || op.key_block() < op.K();
}
inline bool mapped(const StateRead<float>& op) { return op.position || rows_mapped(op); }

/// Widths of keys and of values, before padding.
inline int size_of_state(const StateRead<float>& op) { return std::max(op.key_block(), op.V()); }

/// True if nothing has to be padded.
inline bool whole(const StateRead<float>& op) {
  const int size = op.key_block();
  return size == op.V() && (size == 32 || size == 64 || size == 128) && op.K() % size == 0 && aligned(op);
}

/// Calls f with the format of the products as a type.
auto with_format(const StateRead<float>& op, auto&& f) {
  return with_value<Precision::tf32, Precision::bf16, Precision::full>(op.products, f);
}

template <template <class> class Memory, class Tile>
std::size_t bytes_of(const StateRead<float>& op) {
  return Memory<Tile>(nullptr, static_cast<bool>(op.log_decay), op.erase != Erase::none,
                      op.erase == Erase::tied || op.erase == Erase::free)
      .bytes;
}

/// Block of key channels after block.
void launch(const Exec& exec, const StateRead<float>& op, auto kernel, int threads, std::size_t bytes) {
  for (int first = 0; first < op.K(); first += op.key_block()) {
    launch_early(exec, "state_read", kernel, per_replica(op.B() * op.H(), op.k.value.R), threads, bytes, op,
                 KeyBlock{first, std::min(op.key_block(), op.K() - first)});
  }
}

}  // namespace crosstalk::device
