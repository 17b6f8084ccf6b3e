// Weights by levels: a query's weight of token j is multiplied by the query's gain of their level.
//
//   y_qj = a_qj lambda_{q, level(i, j)}          level(i, j) = the number of binary digits of (i xor j)
//
// Level 0 is the token itself, level l > 0 the 2^{l-1} tokens of the block that a Fenwick tree holds for
// digit l - 1 of i (Guo et al. 2025, arXiv 2506.04761).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/op.h"

namespace crosstalk {

/// Levels that T tokens have.
constexpr int levels_of(int T) {
  int levels = 1;
  while (T > 1 << (levels - 1)) ++levels;
  return levels;
}

template <class Real>
struct LevelGain {
  In<Real> a;       ///< [R,B,H,Q,T]
  In<Real> lambda;  ///< [R,B,Q,H,L], L >= levels_of(T)
  Ids position;     ///< int32 [R,B,Q]: tokens that a query sees, its own the last; absent: query t at token t
  Out<Real> y;      ///< like a; 0 where a query does not see

  static constexpr const char* kName = "level_gain";
  CROSSTALK_FIELDS(a, lambda, position, y)
  CT_HD int H() const { return a.value.dim(1); }
  CT_HD int Q() const { return a.value.dim(2); }
  CT_HD int T() const { return a.value.dim(3); }
  CT_HD int L() const { return lambda.value.dim(3); }
  /// The token of query q of sequence b, or -1.
  CT_HD int token(int r, int b, int q) const {
    if (!position) return q;
    const int seen = position.value.at(r)[b * Q() + q];
    return (seen < 0 ? 0 : seen > T() ? T() : seen) - 1;
  }
  CT_HD static int level(int i, int j) {
    int digits = 0;
    for (unsigned x = static_cast<unsigned>(i ^ j); x != 0; x >>= 1) ++digits;
    return digits;
  }
  /// Index of the first gain of row n of a ([B,H,Q] flat).
  CT_HD std::int64_t gains(std::int64_t n) const {
    const std::int64_t q = n % Q(), h = n / Q() % H(), b = n / Q() / H();
    return ((b * Q() + q) * H() + h) * L();
  }
  CT_HD int token_of_row(int r, std::int64_t n) const {
    return token(r, static_cast<int>(n / Q() / H()), static_cast<int>(n % Q()));
  }
  CT_HD std::int64_t rows() const { return static_cast<std::int64_t>(a.value.dim(0)) * H() * Q(); }
  struct Tokens {
    int begin, end;
  };
  /// Tokens of level l that token i sees; -1 sees none.
  CT_HD static Tokens of_level(int i, int l) {
    if (i < 0 || (l > 0 && !(i >> (l - 1) & 1))) return {0, 0};
    if (l == 0) return {i, i + 1};
    const int begin = i >> l << l;
    return {begin, begin + (1 << (l - 1))};
  }
  /// Gradient of the gain of level l in row n.
  CT_HD Real gain_gradient(int r, std::int64_t n, int l) const {
    const Tokens tokens = of_level(token_of_row(r, n), l);
    Real sum = 0;
    for (int j = tokens.begin; j < tokens.end; ++j)
      sum += y.gradient.at(r)[n * T() + j] * a.value.at(r)[n * T() + j];
    return sum;
  }
  void plan() {
    if (!a || !lambda || a.value.rank != 4 || lambda.value.rank != 4 ||
        lambda.value.dim(0) != a.value.dim(0) || lambda.value.dim(1) != Q() || lambda.value.dim(2) != H() ||
        L() < levels_of(T()) || (!position && Q() != T()))
      throw std::logic_error("[level_gain] shapes do not fit");
    y.value = without_memory(a.value);
  }
};
CROSSTALK_OP(LevelGain)

}  // namespace crosstalk
