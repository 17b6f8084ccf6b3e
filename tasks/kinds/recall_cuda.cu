// Training sequences of recall, which a long study draws by the million: a warp draws the random words of some sequences
// together, then each pool is shuffled by a lane. The other splits are drawn as those of any task.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "tasks/draw_cuda.cuh"
#include "tasks/kinds/recall_sequence.h"

CROSSTALK_GENERATOR(recall)

namespace crosstalk {
namespace {

using drawing::kSharedInts;

constexpr int kDraws = 64;  // of a pool at a time

/// Pool entries 0 .. count-1 arranged as arrange() does; `word` is the first of its words in the stream.
struct Pool {
  std::int32_t* entries;
  std::int32_t size, count, word;
};

/// A warp writes `together` sequences. Shared memory for each: keys, values, two lots of kDraws places.
__global__ void __launch_bounds__(32)
    draw_recall(const __grid_constant__ RecallSpec spec, const __grid_constant__ DrawArgs a, int together) {
  extern __shared__ std::int32_t memory[];
  const int r = static_cast<int>(blockIdx.y), lane = static_cast<int>(threadIdx.x), S = spec.associations,
            C = a.shape.C, Q = a.shape.Q;
  const int b0 = static_cast<int>(blockIdx.x) * together, sequences = min(together, a.B - b0);
  std::int32_t *pools = memory, *places = memory + together * (spec.keys + spec.values);
  const std::uint64_t seed = a.data_seed(r);
  const std::int64_t first = a.number(r, b0);
  const auto stream = [&](int s) {
    return sequence_stream(seed, a.split, static_cast<std::uint64_t>(first + s));
  };
  const auto pool = [&](int i) -> Pool {  // keys and values of sequence i / 2
    std::int32_t* keys = pools + i / 2 * (spec.keys + spec.values);
    return i % 2 == 0 ? Pool{keys, spec.keys, S, 0} : Pool{keys + spec.keys, spec.values, S, S};
  };
  for (int i = 0; i < 2 * sequences; ++i) {
    const Pool p = pool(i);
    for (int entry = lane; entry < p.size; entry += 32) p.entries[entry] = entry;
  }
  constexpr int kBlocks = kDraws / 4 + 1;  // of the stream, that hold kDraws words
  for (int begin = 0; begin < S; begin += kDraws) {
    const int end = min(S, begin + kDraws);
    __syncwarp();
    for (int i = lane; i < 2 * sequences * kBlocks; i += 32) {
      const Pool p = pool(i / kBlocks);
      const int block = (p.word + begin) / 4 + i % kBlocks;
      const auto four = stream(i / kBlocks / 2).block(static_cast<std::uint32_t>(block));
      CT_FOR(k, 4) {
        const int at = 4 * block + k - p.word;
        if (at >= begin && at < end)
          places[i / kBlocks * kDraws + at - begin] =
              at + static_cast<int>(RandomStream::scaled(four.v[k], static_cast<std::uint32_t>(p.size - at)));
      }
    }
    __syncwarp();
    if (lane < 2 * sequences) {
      const Pool p = pool(lane);
      const std::int32_t* place = places + lane * kDraws;
      const auto swap = [&](int i, int j) {
        const std::int32_t other = p.entries[j], own = p.entries[i];
        p.entries[j] = own;
        p.entries[i] = other;
      };
      int i = begin;
      constexpr int kAhead = 8;  // places that are known before the swaps, which wait for each other
      for (; i + kAhead <= end; i += kAhead) {
        int to[kAhead];
        CT_FOR(k, kAhead) to[k] = place[i - begin + k];
        CT_FOR(k, kAhead) swap(i + k, to[k]);
      }
      for (; i < end; ++i) swap(i, place[i - begin]);
    }
  }
  __syncwarp();
  for (int s = 0; s < sequences; ++s) {
    const SequenceView out{a.shape, a.tokens.at(r) + static_cast<std::int64_t>(b0 + s) * S * C,
                           nullptr, nullptr,
                           nullptr, nullptr,
                           nullptr};
    const std::int32_t *keys = pool(2 * s).entries, *values = pool(2 * s + 1).entries;
    for (int t = lane; t < S; t += 32) put_write(out, t, keys[t], values[t]);
  }
  __syncwarp();
  if (lane >= sequences) return;
  // Distinct stored keys: the values move along, so that each stays beside its key.
  std::int32_t *keys = pool(2 * lane).entries, *values = pool(2 * lane + 1).entries;
  for (int q = 0; q < Q; ++q) {
    const int word = 2 * S + q;
    const auto four = stream(lane).block(static_cast<std::uint32_t>(word / 4));
    const std::uint32_t drawn = word % 4 == 0   ? four.v[0]
                                : word % 4 == 1 ? four.v[1]
                                : word % 4 == 2 ? four.v[2]
                                                : four.v[3];
    const int j = q + static_cast<int>(RandomStream::scaled(drawn, static_cast<std::uint32_t>(S - q)));
    const std::int32_t key = keys[j], value = values[j];
    keys[j] = keys[q], values[j] = values[q];
    keys[q] = key, values[q] = value;
    const std::int64_t at = static_cast<std::int64_t>(b0 + lane) * Q + q;
    a.query.at(r)[at] = key;
    a.position.at(r)[at] = S;
    a.target.at(r)[at] = value;
  }
}

bool launch_recall(const RecallSpec& spec, const Exec& exec, const DrawArgs& a) {
  // More sequences a warp keep more of its lanes busy, as long as enough warps fit a multiprocessor.
  for (const auto& [together, most] : {std::pair{8, 3 * 1024}, {4, 8 * 1024}, {1, kSharedInts}}) {
    const int ints = together * (spec.keys + spec.values + 2 * kDraws);
    if (ints > most) continue;
    const std::size_t bytes = static_cast<std::size_t>(ints) * 4;
    device::launch(exec, "draw", draw_recall,
                   device::per_replica(device::blocks_for(a.B, together), a.tokens.R), 32, bytes, spec, a,
                   together);
    return true;
  }
  return false;
}

}  // namespace

template <>
void draw_on_cuda(const RecallSpec& spec, const Exec& exec, const DrawArgs& a) {
  if (is_train(a.split) && launch_recall(spec, exec, a)) return;
  drawing::launch<drawing::recall_generator>(spec, recall_scratch_size(spec), exec, a);
}

}  // namespace crosstalk
