// A chain of elementwise ops in one: every number is read once, goes through all steps, and what others read is written once.
//
//   step s reads registers a and b (x_0 .. x_{n-1}, then the steps before it), each through a map f, and gives
//   map       f(a)
//   add       scale_a f(a) + scale_b f(b)       multiply  f(a) f(b)       larger  max(|f(a)|, |f(b)|)
//   l2, rms   f(a) / sqrt(sum of f(a)^2 [/ D] + eps) of a row of D numbers; 0 of a 0
//   row_sum   the sum of f(a) over a row, in all of its columns
//
// It stands in the place of Map, Combine, Normalize, Fold and MapFeatures (models/graph/map_chain_pass.cpp). Backward makes the
// registers again: nothing is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <numeric>

#include "kernels/elementwise/elementwise.h"

namespace crosstalk {

enum class ChainKind : int { map, add, multiply, larger, l2, rms, row_sum };

constexpr bool reduces(ChainKind kind) { return kind >= ChainKind::l2; }
constexpr bool has_two(ChainKind kind) {
  return kind == ChainKind::add || kind == ChainKind::multiply || kind == ChainKind::larger;
}
constexpr CombineKind combine_of(ChainKind kind) {
  return kind == ChainKind::add        ? CombineKind::add
         : kind == ChainKind::multiply ? CombineKind::multiply
                                       : CombineKind::larger;
}

struct ChainStep {
  ChainKind kind = ChainKind::map;
  int a = 0, b = 0;  ///< registers
  OperandMap of_a = {}, of_b = {};
  double scale_a = 1, scale_b = 1;  ///< add only
  double eps = 0;                   ///< l2 and rms only
};

/// A step as kernels read it.
template <class Real>
struct StepMath {
  ChainKind kind = ChainKind::map;
  int a = 0, b = 0;
  Mapping<Real> of_a{{}}, of_b{{}};
  Real scale_a = 1, scale_b = 1, eps = 0;
  StepMath() = default;
  explicit StepMath(const ChainStep& s)
      : kind(s.kind),
        a(s.a),
        b(s.b),
        of_a(s.of_a),
        of_b(s.of_b),
        scale_a(static_cast<Real>(s.scale_a)),
        scale_b(static_cast<Real>(s.scale_b)),
        eps(static_cast<Real>(s.eps)) {}
  CT_HD CombineKind combine() const { return combine_of(kind); }
  /// Value of a step of single numbers.
  CT_HD Real value(Real p, Real q) const {
    if (kind == ChainKind::map) return of_a.value(p);
    return combined(combine(), scale_a, of_a.value(p), scale_b, of_b.value(q));
  }
  /// dy/da, and dy/db of a step that has two.
  CT_HD Real slope_a(Real p, Real q) const {
    if (kind == ChainKind::map) return of_a.slope(p);
    return combine_slope(combine(), true, scale_a, of_a.value(p), of_b.value(q)) * of_a.slope(p);
  }
  CT_HD Real slope_b(Real p, Real q) const {
    return combine_slope(combine(), false, scale_b, of_b.value(q), of_a.value(p)) * of_b.slope(q);
  }
  /// Factor of a row of D numbers whose squares have this sum.
  CT_HD Real inverse_of(Real squares, int D) const {
    using std::sqrt;
    squares = (kind == ChainKind::rms ? squares / static_cast<Real>(D) : squares) + eps;
    return squares == 0 ? Real(0) : 1 / sqrt(squares);
  }
};

template <class Real>
struct MapChain {
  static constexpr int kMostInputs = 8, kMostOutputs = 6, kMostSteps = 16, kMostRegisters = 24;
  /// Parts of one sweep over a block's threads; a sum of a parameter's gradient has so many parts at most.
  static constexpr int kMostParts = 528;
  Device device = Device::cpu;  ///< whose workspace plan() asks for
  int inputs = 0, outputs = 0, steps = 0;
  int dims[4] = {1, 1, 1, 1};  ///< of what the steps work on: [R,A,B,C,D], rows of D
  ChainStep step[kMostSteps];
  int made_by[kMostOutputs] = {};  ///< registers that are written
  In<Real> x[kMostInputs];         ///< as many numbers as `dims`, or of rank 4 and repeated
  Out<Real> y[kMostOutputs];       ///< as many numbers as `dims`
  Work<Real> pieces;               ///< [R,parts,numbers] of gradients of parameters, on CUDA

  static constexpr const char* kName = "map_chain";
  static constexpr const char *kX[] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"},
                              *kY[] = {"y0", "y1", "y2", "y3", "y4", "y5"};
  void fields(auto&& f) {
    for (int i = 0; i < inputs; ++i) f(kX[i], x[i]);
    for (int i = 0; i < outputs; ++i) f(kY[i], y[i]);
    f("pieces", pieces);
  }
  /// Values and gradients each by themselves, of those that are not repeated.
  void bf16_fields(auto&& f) {
    for (int i = 0; i < inputs; ++i)
      if (whole(i)) f(kX[i], x[i]);
    for (int i = 0; i < outputs; ++i) f(kY[i], y[i]);
  }
  CT_HD int registers() const { return inputs + steps; }
  CT_HD int D() const { return dims[3]; }
  CT_HD std::int64_t size() const { return std::int64_t{1} * dims[0] * dims[1] * dims[2] * dims[3]; }
  /// Numbers of a token [C,D], over which parameters are repeated.
  int period() const { return dims[2] * dims[3]; }
  Tensor<Real> whole_shape(int R) const { return shaped<Real>(R, {dims[0], dims[1], dims[2], dims[3]}); }
  bool whole(int i) const { return x[i].value.size() == size(); }
  /// Repeated for every token: a gradient that is a sum over tokens.
  bool is_parameter(int i) const {
    return !whole(i) && x[i].value.rank == 4 && x[i].value.dims[0] == 1 && x[i].value.dims[1] == 1;
  }
  /// One number a row.
  bool is_of_rows(int i) const {
    return !whole(i) && x[i].value.rank == 4 && x[i].value.dims[3] == 1 && x[i].value.size() * D() == size();
  }
  bool sums_rows() const {
    return std::any_of(step, step + steps, [](const ChainStep& s) { return reduces(s.kind); });
  }
  /// Threads of a block of CUDA kernels, by the room that values and gradients of registers take; and numbers that they take
  /// at once, four a thread, whole tokens where there are parameters.
  int threads() const {
    constexpr std::int64_t kRoom = 96 * 1024;
    int n = 256;
    while (n > 32 && std::int64_t{8} * n * registers() * static_cast<int>(sizeof(Real)) > kRoom) n /= 2;
    return n;
  }
  int span() const {
    int unit = 4;
    for (int i = 0; i < inputs; ++i)
      if (is_parameter(i)) unit = std::lcm(4, period());
    return unit > 4 * threads() ? 0 : 4 * threads() / unit * unit;
  }
  int sweeps() const { return static_cast<int>((size() + span() - 1) / span()); }
  int parts() const { return std::min(kMostParts, sweeps()); }
  /// Numbers of a part of gradients of parameters, and where those of input i begin.
  int piece_at(int end) const {
    int n = 0;
    for (int i = 0; i < end; ++i) n += is_parameter(i) ? static_cast<int>(x[i].value.size()) : 0;
    return n;
  }
  /// A norm of rows of 256, of what is read or its silu, and maps on the way to it: eight numbers a thread
  /// (map_chain_known.cuh).
  bool is_wide_norm() const {
    return sizeof(Real) == sizeof(float) && sums_rows() && D() == 256 && inputs == 1 && whole(0) &&
           (outputs == 0 || steps == 1) && std::all_of(step, step + steps, [](const ChainStep& s) {
             const bool known = s.of_a.map == MapKind::affine || s.of_a.map == MapKind::silu;
             return s.a == 0 && (s.kind == ChainKind::map || (s.kind == ChainKind::l2 && known));
           });
  }
  /// Tells whether CUDA kernels take these shapes.
  bool covers() const {
    const int lanes = D() / 4;
    const bool rows = D() % 4 == 0 && (lanes & (lanes - 1)) == 0 && (lanes <= 32 || is_wide_norm());
    if (size() % 4 != 0 || size() == 0 || size() > 1 << 30 || registers() > kMostRegisters || span() == 0)
      return false;
    if (sums_rows() && !rows) return false;
    for (int i = 0; i < inputs; ++i)
      if (!whole(i) && !is_parameter(i) && !(is_of_rows(i) && rows)) return false;
    return !(rows && span() % D() != 0);
  }
  void plan() {
    const PlanCheck want{kName};
    want(inputs >= 1 && inputs <= kMostInputs && outputs >= 1 && outputs <= kMostOutputs && steps >= 1 &&
             steps <= kMostSteps,
         "wants up to 8 inputs, 6 outputs and 16 steps");
    const int R = x[0].value.R;
    for (int i = 0; i < inputs; ++i)
      want(whole(i) || broadcasts(whole_shape(R), x[i].value), "an input does not fit");
    for (int s = 0; s < steps; ++s)
      want(step[s].a >= 0 && step[s].a < inputs + s && (!has_two(step[s].kind) || step[s].b < inputs + s),
           "a step reads what comes later");
    for (int i = 0; i < outputs; ++i) {
      want(made_by[i] >= inputs && made_by[i] < registers() &&
               std::count(made_by, made_by + outputs, made_by[i]) == 1,
           "every output is made by a step of its own");
      const Format format = y[i].value.format;
      y[i].value = whole_shape(R);
      y[i].value.format = format;
    }
    if (device == Device::cpu) return;
    want(covers(), "CUDA has no kernel for these shapes");
    if (const int n = piece_at(inputs); n > 0) pieces.value = shaped<Real>(R, {parts(), n});
  }
};
CROSSTALK_OP(MapChain)

}  // namespace crosstalk
