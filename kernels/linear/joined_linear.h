// Affine maps of one input: y_i = x W_i^T + b_i for a few i, as Linear one by one. Together they read x once,
// and its gradient is written once.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_slabs.h"

namespace crosstalk {

/// Gradients as Linear's, d_x the sum of all.
template <class Real>
struct JoinedLinear {
  static constexpr int kMost = LinearSlabs::kMostOutputs;
  Precision precision = Precision::full;
  Device device = Device::cpu;  ///< whose workspace plan() asks for
  int outputs = 0;
  In<Real> x;           ///< [R,N..,I]
  In<Real> w[kMost];    ///< [R,O_i,I]
  In<Real> b[kMost];    ///< [R,O_i]; may be absent
  Out<Real> y[kMost];   ///< [R,N..,O_i]
  Work<Real> pieces;    ///< [R,P,..]: gradients of w and b by parts of the rows (the form in tiles)
  Work<Real> operands;  ///< [R,..]: weights in bf16 (the form in tiles, is_wide)

  static constexpr const char* kName = "joined_linear";
  static constexpr const char *kW[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"},
                              *kB[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"},
                              *kY[] = {"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"};
  void fields(auto&& f) {
    f("x", x);
    for (int i = 0; i < outputs; ++i) f(kW[i], w[i]), f(kB[i], b[i]), f(kY[i], y[i]);
    f("pieces", pieces), f("operands", operands);
  }
  /// x and its gradient together, outputs and their gradients each by itself.
  void bf16_fields(auto&& f) {
    f("x", x);
    for (int i = 0; i < outputs; ++i) f(kY[i], y[i]);
  }
  /// The form in tiles; none (count 0) where sizes are not for it or need too much shared memory.
  LinearSlabs slabs(std::size_t limit = shared_memory_limit()) const {
    LinearSlabs s;
    s.inputs = w[0].value.columns();
    const bool fits = sizeof(Real) == sizeof(float) && precision == Precision::bf16 && s.inputs > 0 &&
                      s.inputs % (s.is_wide() ? 8 : 4) == 0 && s.inputs < 1 << 14 && x.value.rows() < 1 << 30;
    if (!fits) return {};
    for (int turn = 0; turn < 3; ++turn) {  // outputs of whole blocks first, but for is_wide
      for (int i = 0; i < outputs; ++i) {
        const int width = w[i].value.dim(0), rank = s.is_wide() || width % 128 == 0 ? 0
                                                    : width % 64 == 0               ? 1
                                                                                    : 2;
        if (rank == turn && !s.add(i, width)) return {};
      }
    }
    if (!s.fits(limit)) return {};
    s.cut(x.value.rows());
    return s;
  }
  /// The form that runs on a device.
  const char* form_name(Device on) const {
    return on == Device::cpu ? "" : slabs().count > 0 ? "tiles" : "apart";
  }
  /// The i-th of the maps.
  Linear<Real> part(int i) const {
    Linear<Real> one;
    one.precision = precision;
    one.x = x, one.w = w[i], one.b = b[i], one.y = y[i];
    return one;
  }
  void plan() {
    if (outputs < 1 || outputs > kMost) throw std::logic_error("[joined_linear] wants 1 to 8 outputs");
    for (int i = 0; i < outputs; ++i) {
      Linear<Real> one = part(i);
      one.plan();
      one.y.value.format = y[i].value.format;
      y[i].value = one.y.value;
    }
    const LinearSlabs s = slabs();
    if (x.value.format != x.gradient.format)
      throw std::logic_error("[joined_linear] x and its gradient have one format");
    bool fits = !x.value.is_bf16() || (s.count > 0 && x.value.columns() % 8 == 0);
    for (int i = 0; i < outputs; ++i) {
      const bool is_bf16 = y[i].value.is_bf16() || y[i].gradient.is_bf16();
      fits = fits && (!is_bf16 || (s.count > 0 && y[i].value.columns() % 8 == 0));
    }
    if (!fits)
      throw std::logic_error(
          "[joined_linear] only the form in tiles takes bf16, in columns of multiples of 8");
    if (device == Device::cuda && s.count > 0)
      pieces.value = shaped<Real>(x.value.R, {s.pieces, s.piece_size});
    if (device == Device::cuda && s.count > 0 && s.is_wide())
      operands.value = shaped<Real>(x.value.R, {s.operand_size()});
  }
  /// Calls f(map, write of x's gradient) for each, in the order in which a graph would run them backward.
  void backward_in_order(const auto& f) const {
    Write write = x.write;
    for (int i = outputs - 1; i >= 0; --i) {
      if (!y[i].gradient.data) continue;
      Linear<Real> one = part(i);
      one.x.write = write;
      f(one);
      if (write == Write::overwrite) write = Write::add;
    }
  }
};
CROSSTALK_OP(JoinedLinear)

}  // namespace crosstalk
