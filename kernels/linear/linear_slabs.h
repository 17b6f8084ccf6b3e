// Shapes that CUDA kernels of linear maps in tiles share: which columns a block makes, pieces of gradients, shared memory
// (joined_linear_tiles.cuh, joined_linear_weights.cuh, joined_linear_wide.cuh). A graph asks for their workspace on any machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/base/device/tuned_for.h"
#include "kernels/base/host_device.h"

namespace crosstalk {

/// How the form in tiles is cut (CUDA, float, operands in bf16): slabs are up to 128 columns of one output.
/// Its pieces hold gradients of weights by parts of the rows. Shapes alone decide.
/// With more inputs than a tile has (is_wide) outputs are counted in blocks of 64 columns, and no weights stay in shared memory.
struct LinearSlabs {
  static constexpr int kRows = 64, kWidth = 128;  ///< of a tile; of a slab
  static constexpr int kMostOutputs = 8, kMostSlabs = 12;
  static constexpr int kMostColumns = 512, kMostInputs = 128;
  static constexpr int kBlock = 64;  ///< columns of a block
  struct Slab {
    int output, first, width, at;  ///< `at`: its first column among all, each slab's number rounded up to 16
  };
  int count = 0, columns = 0, inputs = 0, pieces = 0;
  Slab slab[kMostSlabs] = {};
  int weight_at[kMostOutputs] = {}, bias_at[kMostOutputs] = {};  ///< in a piece
  int piece_size = 0;
  int depth = 2, places = 2;  ///< of a kernel: copies on their way, and tiles of operands
  int first_block[kMostOutputs] = {};

  CT_HD static int up_to(int n, int unit) { return (n + unit - 1) / unit * unit; }
  CT_HD bool is_wide() const { return inputs > kMostInputs; }
  CT_HD int whole_inputs() const { return up_to(inputs, kBlock); }
  /// Of all weights as operands, is_wide: floats that hold them.
  int operand_size() const { return count * kBlock * whole_inputs() / 2; }
  /// False where it does not fit.
  bool add(int output, int width) {
    weight_at[output] = piece_size, bias_at[output] = piece_size + width * inputs;
    piece_size = up_to(bias_at[output] + width, 4);
    if (is_wide()) {
      first_block[output] = count, count += up_to(width, kBlock) / kBlock;
      return static_cast<std::int64_t>(count) * kBlock * whole_inputs() < 1 << 30;
    }
    for (int first = 0; first < width; first += kWidth) {
      if (count == kMostSlabs) return false;
      slab[count] = {output, first, std::min(kWidth, width - first), columns};
      columns += up_to(slab[count++].width, 16);
    }
    return columns <= kMostColumns;
  }
  /// Columns of the slabs, from the first on, that are whole blocks of `unit`; behind them are those of narrow outputs.
  CT_HD int whole_columns(int unit) const {
    int whole = 0;
    for (int i = 0; i < count && slab[i].width % unit == 0; ++i) whole = slab[i].at + slab[i].width;
    return whole;
  }
  /// Columns that a row of x and of the weights takes in shared memory.
  int row_size() const { return inputs <= 64 ? 64 : kMostInputs; }
  /// In bytes: a tile of so many columns as operands, whose padding keeps banks apart, and as it comes.
  static constexpr std::size_t tile_bytes(int number) { return kRows * (number + kPadding) * 2ul; }
  static constexpr std::size_t raw_bytes(int number) { return kRows * number * 4ul; }
  static constexpr int kPadding = 8;
  static constexpr std::size_t kListBytes = kMostColumns / 16 * 8;  ///< static: the output of each 16 columns
  /// Shared memory of a kernel that keeps the weights of all slabs and walks over tiles of so many columns.
  std::size_t walk_bytes(int number) const {
    const std::size_t of_weights = columns * ((row_size() + kPadding) * 2ul + 4ul);
    return of_weights + places * tile_bytes(number) + depth * raw_bytes(number) + kListBytes;
  }
  /// Shared memory of the kernel that makes gradients of weights, so many tiles at once; operands need less.
  std::size_t weights_bytes(int tiles) const {
    return tiles * (tile_bytes(kWidth) + tile_bytes(row_size()) + raw_bytes(kWidth) + raw_bytes(row_size()));
  }
  /// Takes as many copies and tiles at once as fit; false if one of each does not. No sum depends on it.
  bool fit_walk(int number, std::size_t limit) {
    for (const auto& [copies, tiles] : {std::pair{2, 2}, std::pair{1, 2}, std::pair{1, 1}}) {
      depth = copies, places = tiles;
      if (walk_bytes(number) <= limit) return true;
    }
    return false;
  }
  /// Of the kernels with is_wide: three steps of four tiles, at a multiple of 1024.
  static constexpr std::size_t kWideBytes = 3 * 4 * kBlock * kBlock * 2 + 1024;
  /// True if all kernels of this form run with so much shared memory, in whatever formats.
  bool fits(std::size_t limit) const {
    if (is_wide()) return kWideBytes <= limit;
    LinearSlabs s = *this;
    return s.fit_walk(kWidth, limit) && weights_bytes(1) <= limit;
  }
  /// Parts of so many rows: enough for one block a multiprocessor, none of less than two tiles.
  void cut(std::int64_t rows) {
    const std::int64_t blocks = is_wide() ? 2 * kTunedFor : kTunedFor,
                       most = (rows + 2 * kRows - 1) / (2 * kRows);
    const int tiles = is_wide() ? (count + 1) / 2 * ((inputs + 2 * kBlock - 1) / (2 * kBlock)) : count;
    pieces = static_cast<int>(
        std::clamp<std::int64_t>(blocks / std::max(1, tiles), 1, std::max<std::int64_t>(1, most)));
  }
};

}  // namespace crosstalk
