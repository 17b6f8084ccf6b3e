// A gated MLP in one op: y = (silu(x G^T) * (x U^T)) D^T (SwiGLU: Shazeer 2020, arXiv 2002.05202, eq. 5), without biases.
//
// On CUDA only, in float and with operands in bf16: no hidden unit is written forward, and backward makes them anew.
// It stands for a chain of Linear, Map, Combine and Linear, which is its specification; what products multiply is
// rounded as there, what lies between is not.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <stdexcept>

#include "kernels/linear/joined_linear.h"

namespace crosstalk {

/// H hidden units, a multiple of 64 up to 512; width W of 64 or 128.
template <class Real>
struct Swiglu {
  Device device = Device::cpu;  ///< whose workspace plan() asks for
  In<Real> x;                   ///< [R,N..,W]
  In<Real> gate;                ///< G [R,H,W]
  In<Real> up;                  ///< U [R,H,W]
  In<Real> down;                ///< D [R,W,H]
  Out<Real> y;                  ///< [R,N..,W]
  Work<Real> blocks;            ///< all weights as operands, in blocks of 64 units
  Work<Real> h, d_gate, d_up;   ///< [R,rows,H] of the backward pass, as operands
  Work<Real> pieces;            ///< gradients of weights by parts of the rows (backward)

  static constexpr const char* kName = "swiglu";
  CROSSTALK_FIELDS(x, gate, up, down, y, blocks, h, d_gate, d_up, pieces)
  /// x and its gradient together; of y the gradient.
  CROSSTALK_BF16_FIELDS(x, y, blocks, h, d_gate, d_up)

  static constexpr int kUnits = 64, kMostUnits = 512, kOwners = 2;  ///< of a block; at all; 64 rows each
  CT_HD int W() const { return x.value.columns(); }
  CT_HD int H() const { return gate.value.dim(0); }
  /// Numbers of 64 units' weights of one of the three maps: lines of 64 times 8 numbers, 8 apart.
  CT_HD int block() const { return W() / 8 * (kUnits * 8 + 8); }
  /// Shared memory with so many blocks of units at once, and of so many tensors a tile of rows.
  std::size_t bytes(int depth, int tensors) const {
    return 2ul * (depth * 3 * block() + tensors * kOwners * 64 * (W() + 8));
  }
  /// Tells whether the kernels are for these sizes, and fit so much shared memory.
  bool covers(Precision products, std::size_t limit = shared_memory_limit()) const {
    return sizeof(Real) == sizeof(float) && products == Precision::bf16 && (W() == 64 || W() == 128) &&
           H() % kUnits == 0 && H() > 0 && H() <= kMostUnits && x.value.rows() < 1 << 30 &&
           bytes(1, 2) <= limit;
  }
  /// Cut of the gradients of the weights of G and U, and those of D, turned.
  LinearSlabs slabs(int outputs) const {
    LinearSlabs s;
    s.inputs = W();
    for (int i = 0; i < outputs; ++i) s.add(i, H());
    s.cut(x.value.rows());
    return s;
  }
  void check_covered() const {
    if (!covers(Precision::bf16))
      throw std::logic_error(
          "[swiglu] wants floats, widths of 64 or 128, up to 512 units in blocks of 64, and a GPU whose shared memory "
          "holds a block; else run Linear, Map, Combine and Linear");
  }
  void check_writes() const {
    if (x.gradient.is_bf16() && x.write == Write::add)
      throw std::logic_error("[swiglu] a gradient in bf16 is written, not added to");
  }
  void plan() {
    const auto is = [](const In<Real>& w, int rows, int columns) {
      return w.value.rank == 2 && w.value.dim(0) == rows && w.value.dim(1) == columns;
    };
    if (!x || gate.value.rank != 2 || !is(gate, H(), W()) || !is(up, H(), W()) || !is(down, W(), H()))
      throw std::logic_error("[swiglu] x, gate, up and down do not fit");
    check_covered();
    if (x.value.format != x.gradient.format || y.value.is_bf16())
      throw std::logic_error("[swiglu] x and its gradient have one format, y is fp32");
    check_writes();
    const int R = x.value.R, rows = static_cast<int>(x.value.rows());
    y.value = without_memory(x.value);
    y.value.format = Format::native;
    blocks.value = shaped<Real>(R, {H() / kUnits, 3, block()}, Format::bf16);
    h.value = d_gate.value = d_up.value = shaped<Real>(R, {rows, H()}, Format::bf16);
    const LinearSlabs two = slabs(2), one = slabs(1);
    pieces.value = shaped<Real>(R, {std::max(two.pieces * two.piece_size, one.pieces * one.piece_size)});
  }
};
CROSSTALK_OP(Swiglu)

template <class Real>
void forward_cpu(const Exec&, const Swiglu<Real>&) {
  throw std::logic_error("[swiglu] has no CPU form; run Linear, Map, Combine and Linear");
}
template <class Real>
void backward_cpu(const Exec& exec, const Swiglu<Real>& op) {
  forward_cpu(exec, op);
}

}  // namespace crosstalk
