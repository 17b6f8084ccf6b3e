// The head of a language model and its loss: cross-entropy of softmax(w x) against targets, in blocks of
// rows, so that the logits of all queries are never there at the same time.
//
//   y_n = w x_n,   query_loss_n = log sum_v e^{y_nv} - y_n,target,   loss = mean over used slots
//
// On a GPU, with operands in bf16 and rows that a tile holds, logits are never written at all: they are made
// in tiles, and again for the gradients (cross_entropy_tiles.cuh). Of wider rows the blocks' products are those of
// joined_linear_wide.cuh, of operands that are bf16 already.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/device/tuned_for.h"
#include "kernels/linear/joined_linear.h"

namespace crosstalk {

/// How the form without logits is cut, and where its numbers lie in its workspace: floats of one replica.
/// Shapes alone decide, so that a replica's bits do not depend on how many there are.
struct EntropyTiles {
  static constexpr int kRows = 128, kStep = 64;         ///< of a block; of the other side, at once
  static constexpr int kLargest = 256;                  ///< columns of x
  static constexpr std::size_t kLargestBytes = 204864;  ///< shared memory of more than 128; 99 KiB else
  int D = 0;                                            ///< columns of a tile: those of x, rounded up
  int parts = 1, w_parts = 1;  ///< of the other side: of the vocabulary, of the rows of x
  std::int64_t part_at = 0, row_at = 0, piece_at = 0, size = 0;

  /// Rows of whole steps.
  CT_HD static std::int64_t whole(std::int64_t rows) { return (rows + kStep - 1) / kStep * kStep; }

  EntropyTiles() = default;
  EntropyTiles(std::int64_t rows, int V, int columns) {
    const auto cut = [](std::int64_t own, std::int64_t other) {
      const std::int64_t tiles = (own + kRows - 1) / kRows, steps = (other + kStep - 1) / kStep;
      return static_cast<int>(std::clamp<std::int64_t>(kTunedFor / std::max<std::int64_t>(1, tiles), 1,
                                                       std::min<std::int64_t>(16, steps)));
    };
    D = columns <= 32 ? 32 : columns <= 64 ? 64 : columns <= 128 ? 128 : kLargest;
    parts = cut(rows, V), w_parts = cut(V, rows);
    part_at = (whole(rows) + whole(V)) * D / 2;  // before it: operands, two in a float
    row_at = part_at + 4 * parts * rows;         // of a part and row: four numbers
    piece_at = row_at + 2 * whole(rows);         // of a row: two
    size = piece_at + std::max(parts * rows, w_parts * static_cast<std::int64_t>(V)) * D;
  }
};

/// Places of the numbers of the form by wide products in its workspace: floats of one replica.
struct EntropyBlocks {
  LinearSlabs maps;
  std::int64_t operand_at = 0, gradient_at = 0, piece_at = 0, size = 0;  ///< before them: x in bf16
  std::int64_t sum_at = 0;  ///< of d_w of the blocks so far, like a piece

  EntropyBlocks(std::int64_t rows, int V, int columns, int block) {
    maps.inputs = columns;
    if (!maps.add(0, V)) return;
    maps.cut(block);
    operand_at = LinearSlabs::up_to(columns / 2, 16) * rows;
    gradient_at = operand_at + maps.operand_size();
    piece_at = gradient_at + (static_cast<std::int64_t>(block) * V / 2 + 16) / 16 * 16;
    sum_at = piece_at + static_cast<std::int64_t>(maps.pieces) * maps.piece_size;
    size = sum_at + maps.piece_size;
  }
};

/// Slots with target -1 are not used: query_loss 0, correct -1. correct is 1 where the target's logit is
/// larger than every other (of equal ones none is right). The gradient of `loss` has seed 1.
template <class Real>
struct CrossEntropy {
  Precision precision = Precision::full;  ///< of the operands of its products
  Device device = Device::cpu;            ///< whose workspace plan() asks for
  bool with_gradients = false;  ///< forward writes the gradients too, and backward has nothing to do
  In<Real> x;                   ///< [R,B,Q,D]
  In<Real> w;                   ///< [R,V,D]
  Ids target;                   ///< int32 [R,B,Q]
  Out<Real> query_loss;         ///< [R,B,Q]
  Out<Real> loss;               ///< [R,1]
  OutIds correct;               ///< [R,B,Q]
  Work<Real> logits;            ///< [R,block,V]; unless `tiles`
  Work<Real> tiles;             ///< [R,size]: of the form without logits, or by wide products (CUDA, float)
  Work<Real> share;             ///< [R,1]: 1 / used slots

  static constexpr const char* kName = "cross_entropy";
  static constexpr bool kLoss = true;
  CROSSTALK_FIELDS(x, w, target, query_loss, loss, logits, tiles, share, correct)
  /// Rows whose logits are there at once: some megabytes of them; as many as wide products want.
  static int block(std::int64_t rows, int V, bool wide = false) {
    const std::int64_t fit = (std::int64_t{1} << (wide ? 26 : 23)) / std::max(1, V) / 64 * 64;
    return static_cast<int>(std::min(rows, std::max<std::int64_t>(64, fit)));
  }
  CT_HD std::int64_t rows() const { return x.value.rows(); }
  CT_HD int V() const { return w.value.dim(0); }
  bool fits_tiles() const {
    return sizeof(Real) == sizeof(float) && precision == Precision::bf16 &&
           x.value.columns() <= EntropyTiles::kLargest &&
           (x.value.columns() <= 128 || shared_memory_limit() >= EntropyTiles::kLargestBytes);
  }
  bool fits_products() const {
    LinearSlabs maps;
    maps.inputs = x.value.columns();
    return sizeof(Real) == sizeof(float) && precision == Precision::bf16 && !fits_tiles() && maps.is_wide() &&
           maps.inputs % 8 == 0 && V() % 8 == 0 && maps.add(0, V()) && maps.fits(shared_memory_limit());
  }
  void plan() {
    if (!x || !w || !target || w.value.rank != 2 || x.value.columns() != w.value.dim(1) ||
        target.value.size() != x.value.rows())
      throw std::logic_error("[cross_entropy] x, w and target do not fit");
    const int R = x.value.R;
    query_loss.value = shaped<Real>(R, {target.value.dim(0), target.value.dim(1)});
    loss.value = shaped<Real>(R, {1});
    correct.value = shaped<std::int32_t>(R, {target.value.dim(0), target.value.dim(1)});
    const std::int64_t size = EntropyTiles(rows(), V(), x.value.columns()).size;
    if (device == Device::cuda && fits_tiles() && size <= 1 << 30) {
      tiles.value = shaped<Real>(R, {static_cast<int>(size)});
    } else {
      const bool wide = device == Device::cuda && fits_products();
      const int most = block(rows(), V(), wide);
      logits.value = shaped<Real>(R, {most, V()});
      const std::int64_t numbers = EntropyBlocks(rows(), V(), x.value.columns(), most).size;
      if (wide && numbers <= 1 << 30) tiles.value = shaped<Real>(R, {static_cast<int>(numbers)});
    }
    share.value = shaped<Real>(R, {1});
  }

  /// The product of `count` rows from `begin`: logits and, where gradients are wanted, what comes of theirs,
  /// which stand where the logits stood.
  Linear<Real> product(std::int64_t begin, std::int64_t count) const {
    const auto part = [&](Tensor<Real> t, std::int64_t from) {
      const int columns = t.columns();
      if (t.data) t.data += from * columns;
      t.rank = 2, t.dims[0] = static_cast<int>(count), t.dims[1] = columns;
      return t;
    };
    Linear<Real> p;
    p.precision = precision;
    p.x.value = part(x.value, begin), p.x.gradient = part(x.gradient, begin), p.x.write = x.write;
    p.w = w;
    if (begin > 0 && w.wanted()) p.w.write = Write::add;
    p.y.value = p.y.gradient = part(logits.value, 0);
    return p;
  }
};
CROSSTALK_OP(CrossEntropy)

}  // namespace crosstalk
