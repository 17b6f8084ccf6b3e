// Shapes of CUDA kernels whose block holds one head of an attention: warps, rows of tiles, shared memory (attend_mix_whole.cuh).
// A pass asks for them on any machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>

namespace crosstalk {

/// How a block that holds a head with all of its queries and tokens is cut (CUDA, operands in bf16;
/// attend_mix_whole.cuh), and where they lie in its shared memory.
struct WholeHead {
  static constexpr int kStep = 32;     ///< rows that are walked over at once
  static constexpr int kOwnRows = 16;  ///< of a warp
  static constexpr int kFew = 64;      ///< queries and tokens that four warps walk over
  static constexpr int kPadding = 8, kQueryBytes = 16, kTopBytes = 8;
  int columns, warps;   ///< of a row, padded; of the block
  int queries, tokens;  ///< rows of tiles
  int blocks, parts;    ///< 16 queries each; warps that share such a block
  bool both = true;     ///< backward: whether queries and tokens fit at once

  WholeHead(int Q, int T, int widest, std::size_t limit)
      : columns(widest > 64 ? 128 : 64),
        warps(widest > 64 || Q > kFew || T > kFew ? 8 : 4),
        queries(up_to(Q, kStep)),
        tokens(up_to(T, kStep)),
        blocks((Q + kOwnRows - 1) / kOwnRows),
        parts(blocks < warps ? warps / blocks : 1) {
    both = gradient_bytes() <= limit;
  }
  static int up_to(int n, int unit) { return (n + unit - 1) / unit * unit; }
  std::size_t tile_bytes(int rows) const { return rows * (columns + kPadding) * 2ul; }
  /// Of the sums of warps that share queries.
  std::size_t shared_bytes() const { return parts > 1 ? warps * kOwnRows * columns * 4ul : 0; }
  std::size_t read_bytes() const {
    return warps * kOwnRows * std::size_t{kTopBytes} +
           std::max(tile_bytes(2 * tokens + warps * kOwnRows), shared_bytes());
  }
  std::size_t gradient_bytes() const {
    const std::size_t of_rows =
        both ? tile_bytes(2 * (queries + tokens)) + shared_bytes()
             : std::max(tile_bytes(2 * std::max(queries, tokens) + 2 * warps * kOwnRows), shared_bytes());
    return queries * std::size_t{kQueryBytes} + of_rows;
  }
  bool fits(std::size_t limit) const { return read_bytes() <= limit && gradient_bytes() <= limit; }
};

}  // namespace crosstalk
