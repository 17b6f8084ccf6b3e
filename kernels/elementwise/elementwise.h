// The algebra of gates: elementwise maps, sums and products that broadcast, and sums over dimensions; with rearrange.h.
//
//   map      y = scale f(x) + shift
//   combine  y = scale_a a + scale_b b   or   a b   or   max(|a|, |b|)      a dimension of 1 is repeated
//   fold     y = sum of x over the dimensions where y has 1
//   expand   y = x, repeated where x has 1
//
// Sums run in a fixed order.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"
#include "kernels/elementwise/rearrange.h"

namespace crosstalk {

enum class MapKind : int {
  affine,
  exp,
  log,
  sigmoid,
  softplus,
  log_sigmoid,
  tanh,
  relu,
  silu,
  reciprocal,
  softsign,
  gelu,
  inverse,
  sine,
  expm1
};

/// f(x). softplus is log(1 + e^x); it and log_sigmoid are exact in both tails; softsign is x / (1 + |x|),
/// gelu x times the normal distribution function. log is that of at least 1e-30: a gate that has closed for
/// good, 1 - 1, keeps a finite logarithm and gradient.
/// exp is that of at most 80, for the same reason: the largest that single precision holds is e^88.
/// inverse is 1 / x, but 0 at 0: what nothing divides is nothing.
/// expm1 is e^x - 1, whose digits a difference would lose near 0.
template <class Real>
CT_HD inline Real mapped(MapKind map, Real x) {
  using std::erfc, std::exp, std::expm1, std::log, std::log1p, std::sin, std::tanh;
  switch (map) {
    case MapKind::affine:
      return x;
    case MapKind::exp:
      return exp(x > 80 ? Real(80) : x);
    case MapKind::log:
      return log(x > Real(1e-30) ? x : Real(1e-30));
    case MapKind::sigmoid:
      return 1 / (1 + exp(-x));
    case MapKind::softplus:
      return (x > 0 ? x : Real(0)) + log1p(exp(x > 0 ? -x : x));
    case MapKind::log_sigmoid:
      return -((x < 0 ? -x : Real(0)) + log1p(exp(x < 0 ? x : -x)));
    case MapKind::tanh:
      return tanh(x);
    case MapKind::relu:
      return x > 0 ? x : Real(0);
    case MapKind::silu:
      return x / (1 + exp(-x));
    case MapKind::reciprocal:
      return 1 / x;
    case MapKind::softsign:
      return x / (1 + (x < 0 ? -x : x));
    case MapKind::gelu:
      return x / 2 * erfc(-x * Real(0.70710678118654752440));
    case MapKind::inverse:
      return x == 0 ? Real(0) : 1 / x;
    case MapKind::sine:
      return sin(x);
    case MapKind::expm1:
      return expm1(x > 80 ? Real(80) : x);
  }
  return x;
}

/// f'(x).
template <class Real>
CT_HD inline Real map_slope(MapKind map, Real x) {
  using std::cos, std::erfc, std::exp, std::tanh;
  switch (map) {
    case MapKind::affine:
      return 1;
    case MapKind::exp:
    case MapKind::expm1:
      return x > 80 ? Real(0) : exp(x);
    case MapKind::log:
      return 1 / (x > Real(1e-30) ? x : Real(1e-30));
    case MapKind::sigmoid: {
      const Real s = 1 / (1 + exp(-x));
      return s * (1 - s);
    }
    case MapKind::softplus:
      return 1 / (1 + exp(-x));
    case MapKind::log_sigmoid:
      return 1 / (1 + exp(x));
    case MapKind::tanh: {
      const Real t = tanh(x);
      return 1 - t * t;
    }
    case MapKind::relu:
      return x > 0 ? Real(1) : Real(0);
    case MapKind::silu: {
      const Real s = 1 / (1 + exp(-x));
      return s * (1 + x * (1 - s));
    }
    case MapKind::reciprocal:
      return -1 / (x * x);
    case MapKind::softsign: {
      const Real below = 1 + (x < 0 ? -x : x);
      return 1 / (below * below);
    }
    case MapKind::gelu:
      return erfc(-x * Real(0.70710678118654752440)) / 2 + x * exp(-x * x / 2) * Real(0.39894228040143267794);
    case MapKind::inverse:
      return x == 0 ? Real(0) : -1 / (x * x);
    case MapKind::sine:
      return cos(x);
  }
  return 1;
}

/// scale f(x) + shift of what an op reads.
struct OperandMap {
  MapKind map = MapKind::affine;
  double scale = 1, shift = 0;
};
/// The same on either device.
template <class Real>
struct Mapping {
  MapKind map;
  Real scale, shift;
  explicit Mapping(const OperandMap& t)
      : map(t.map), scale(static_cast<Real>(t.scale)), shift(static_cast<Real>(t.shift)) {}
  CT_HD Real value(Real x) const { return scale * mapped(map, x) + shift; }
  CT_HD Real slope(Real x) const { return scale * map_slope(map, x); }
};

/// x and y of equal shape.
template <class Real>
struct Map {
  MapKind map = MapKind::affine;
  double scale = 1, shift = 0;
  In<Real> x;
  Out<Real> y;
  static constexpr const char* kName = "map";
  CROSSTALK_FIELDS(x, y)
  void plan() { y.value = without_memory(x.value); }
};
CROSSTALK_OP(Map)

/// Map of element i of a tensor of dims `full` into one of dims `part`, whose dimensions of 1 are repeated.
/// Rank 4.
struct Broadcast {
  std::int32_t full[4], part[4];
  bool same = false;    ///< nothing is repeated
  bool single = false;  ///< one number is repeated: its index needs no division
  bool narrow =
      false;  ///< 32 bits count the elements of `full`: divisions of 64 bits take longer than a load
  CT_HD std::int64_t index(std::int64_t i) const {
    return same ? i : single ? 0 : narrow ? index_of(static_cast<std::uint32_t>(i)) : index_of(i);
  }
  /// Elements of `full` that share one of `part`, and the n-th of those that share element j.
  CT_HD std::int64_t repeats() const {
    std::int64_t n = 1;
    for (int d = 0; d < 4; ++d) n *= part[d] == 1 ? full[d] : 1;
    return n;
  }
  CT_HD std::int64_t element(std::int64_t j, std::int64_t n) const {
    if (same) return j;
    if (single) return n;
    return narrow ? element_of(static_cast<std::uint32_t>(j), static_cast<std::uint32_t>(n))
                  : element_of(j, n);
  }
  /// Tells whether the dimensions that are repeated come first: `full` is a matrix, `part` one of its rows.
  bool repeats_rows() const {
    bool kept = false;
    for (int d = 0; d < 4; ++d) {
      if (full[d] == 1) continue;
      if (kept && part[d] == 1) return false;
      kept = kept || part[d] != 1;
    }
    return true;
  }

 private:
  template <class Int>
  CT_HD std::int64_t index_of(Int i) const {
    Int at[4];
    for (int d = 3; d >= 0; --d) {
      const Int size = static_cast<Int>(full[d]), above = i / size;
      at[d] = i - above * size, i = above;
    }
    Int j = 0;
    for (int d = 0; d < 4; ++d) j = j * static_cast<Int>(part[d]) + (part[d] == 1 ? 0 : at[d]);
    return static_cast<std::int64_t>(j);
  }
  template <class Int>
  CT_HD std::int64_t element_of(Int j, Int n) const {
    Int at[4];
    for (int d = 3; d >= 0; --d) {
      Int& of = part[d] == 1 ? n : j;
      const Int size = static_cast<Int>(full[d]), above = of / size;
      at[d] = of - above * size, of = above;
    }
    Int i = 0;
    for (int d = 0; d < 4; ++d) i = i * static_cast<Int>(full[d]) + at[d];
    return static_cast<std::int64_t>(i);
  }
};

/// The dims of `part` against those of `full`, both of rank 4.
template <class Real>
CT_HD inline Broadcast broadcast(const Tensor<Real>& full, const Tensor<Real>& part) {
  Broadcast b{};
  b.same = b.single = true;
  std::int64_t size = 1;
  for (int d = 0; d < 4; ++d) {
    b.full[d] = full.dims[d], b.part[d] = part.dims[d];
    b.same = b.same && full.dims[d] == part.dims[d];
    b.single = b.single && part.dims[d] == 1;
    size *= full.dims[d];
  }
  b.narrow = size <= INT32_MAX;
  return b;
}
/// Terms from which the sum of one of n elements is cut into slices on a GPU, and their number, which n and the
/// number of terms alone decide.
inline constexpr std::int64_t kManyTerms = 16384;
inline int slices_of_sum(std::int64_t n, std::int64_t terms) {
  return terms < kManyTerms || n >= 4096
             ? 1
             : static_cast<int>(std::min<std::int64_t>(64, 2 * terms / kManyTerms));
}
/// Room for the slices of sums over what repeats `part` in `full`; empty where they have one slice.
template <class Real>
Tensor<Real> slices_of_sums(const Tensor<Real>& full, const Tensor<Real>& part) {
  const std::int64_t n = part.size(), slices = slices_of_sum(n, broadcast(full, part).repeats());
  return slices == 1 ? Tensor<Real>{} : shaped<Real>(full.R, {n * slices});
}

template <class Real>
bool broadcasts(const Tensor<Real>& full, const Tensor<Real>& part) {
  if (full.rank != 4 || part.rank != 4) return false;
  for (int d = 0; d < 4; ++d)
    if (part.dims[d] != 1 && part.dims[d] != full.dims[d]) return false;
  return true;
}

enum class CombineKind : int { add, multiply, larger };

template <class Real>
CT_HD inline Real combined(CombineKind kind, Real scale_a, Real a, Real scale_b, Real b) {
  if (kind == CombineKind::add) return scale_a * a + scale_b * b;
  if (kind == CombineKind::multiply) return a * b;
  const Real of_a = a < 0 ? -a : a, of_b = b < 0 ? -b : b;
  return of_a < of_b ? of_b : of_a;
}
/// dy/da (or dy/db: the operands exchanged). Of two equally large ones the first has the gradient.
template <class Real>
CT_HD inline Real combine_slope(CombineKind kind, bool first, Real scale, Real own, Real other) {
  if (kind == CombineKind::add) return scale;
  if (kind == CombineKind::multiply) return other;
  const Real of_own = own < 0 ? -own : own, of_other = other < 0 ? -other : other;
  if (of_own < of_other || (of_own == of_other && !first)) return 0;
  return own < 0 ? Real(-1) : Real(1);
}

/// a, b of rank 4, dimensions equal or 1; y has the larger of each.
template <class Real>
struct Combine {
  CombineKind kind = CombineKind::add;
  double scale_a = 1, scale_b = 1;  ///< add only
  In<Real> a, b;
  Out<Real> y;
  Work<Real> slices;  ///< of the backward pass on CUDA
  static constexpr const char* kName = "combine";
  CROSSTALK_FIELDS(a, b, y, slices)
  void plan() {
    y.value = without_memory(a.value);
    for (int d = 0; d < 4; ++d) y.value.dims[d] = std::max(a.value.dims[d], b.value.dims[d]);
    if (!broadcasts(y.value, a.value) || !broadcasts(y.value, b.value))
      throw std::logic_error("[combine] shapes do not fit");
    const Tensor<Real> sums_a = slices_of_sums(y.value, a.value), sums_b = slices_of_sums(y.value, b.value);
    slices.value = sums_a.size() < sums_b.size() ? sums_b : sums_a;
  }
};
CROSSTALK_OP(Combine)

/// y's shape is set before plan(): of rank 4, with 1 where x is summed.
template <class Real>
struct Fold {
  In<Real> x;
  Out<Real> y;
  Work<Real> slices;  ///< on CUDA
  static constexpr const char* kName = "fold";
  CROSSTALK_FIELDS(x, y, slices)
  void plan() {
    if (!broadcasts(x.value, y.value)) throw std::logic_error("[fold] shapes do not fit");
    slices.value = slices_of_sums(x.value, y.value);
  }
};
CROSSTALK_OP(Fold)

/// y repeats x where x has 1; its shape is set before plan().
template <class Real>
struct Expand {
  In<Real> x;
  Out<Real> y;
  Work<Real> slices;  ///< on CUDA
  static constexpr const char* kName = "expand";
  CROSSTALK_FIELDS(x, y, slices)
  void plan() {
    if (!broadcasts(y.value, x.value)) throw std::logic_error("[expand] shapes do not fit");
    slices.value = slices_of_sums(y.value, x.value);
  }
};
CROSSTALK_OP(Expand)

}  // namespace crosstalk
