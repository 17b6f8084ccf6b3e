// palindrome: n tokens, a mark, then the same tokens in another order, each of which is in the input once it was due (Kimi
// Linear, Zhang et al. 2025, arXiv 2510.26692, section 5.1; copying: Jelassi et al. 2024, arXiv 2402.01032).
//
//   x_1 .. x_n ! y_1 .. y_(n-1)     y_1 is due at !, y_(i+1) at y_i     T = 2 n
//
// reverse: y_i = x_(n+1-i). same: y_i = x_i. odds_first: x_1 x_3 .. x_2 x_4 .. (Deletang et al. 2023, arXiv 2207.02098). sorted: in rising order.
// set: the different ones in rising order, then the mark; nothing is due behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

enum class CopyOrder : std::int32_t { reverse, same, odds_first, sorted, set };

struct PalindromeSpec {
  std::int32_t vocabulary = 0;  ///< data are 0 .. V - 2, the mark is V - 1
  std::int32_t length = 0;      ///< T
  CopyOrder order = CopyOrder::reverse;
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  /// Whether what is said has no place of its own in what was read.
  CT_HD bool counted() const { return order == CopyOrder::sorted || order == CopyOrder::set; }
  CT_HD std::int32_t mark() const { return vocabulary - 1; }
  /// Which of n tokens is said i-th.
  CT_HD std::int32_t source(std::int32_t i, std::int32_t n) const {
    if (order == CopyOrder::reverse) return n - 1 - i;
    if (order == CopyOrder::same) return i;
    const std::int32_t odds = (n + 1) / 2;
    return i < odds ? 2 * i : 2 * (i - odds) + 1;
  }
};

/// [how often each was read | what is said]
CT_HD inline std::int32_t palindrome_scratch_size(const PalindromeSpec& spec) {
  return spec.counted() ? spec.vocabulary + spec.length : 0;
}

CT_HD inline void palindrome_sequence(const PalindromeSpec& spec, std::uint64_t data_seed, Split split,
                                      std::uint64_t n, const SequenceView& out, std::int32_t* counts) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t N = out.shape.T / 2, Q = out.shape.Q;
  for (std::int32_t t = 0; t < N; ++t) put_id(out, t, Role::write, draw_below(random, spec.mark()));
  if (spec.counted()) {
    std::int32_t *said = counts + spec.vocabulary, all = 0, q = 0;
    for (std::int32_t v = 0; v < spec.mark(); ++v) counts[v] = 0;
    for (std::int32_t t = 0; t < N; ++t) ++counts[out.tokens[t]];
    for (std::int32_t v = 0; v < spec.mark(); ++v)
      for (std::int32_t i = 0; i < counts[v] && (i == 0 || spec.order == CopyOrder::sorted); ++i)
        said[all++] = v;
    if (all < N) said[all++] = spec.mark();
    for (std::int32_t i = 0; i < N; ++i) {
      put_id(out, N + i, i < all ? Role::ask : Role::pad, i == 0 || i >= all ? spec.mark() : said[i - 1]);
      if (i < all && asked(i, all, q, Q < all ? Q : all)) put_due(out, q++, N + i, said[i]);
    }
    put_unused_queries(out, q);
    return;
  }
  for (std::int32_t i = 0, q = 0; i < N; ++i) {
    const std::int32_t t = N + i;
    put_id(out, t, Role::ask, i == 0 ? spec.mark() : out.tokens[spec.source(i - 1, N)]);
    if (!asked(i, N, q, Q)) continue;
    if (std::int32_t* meta = put_due(out, q++, t, out.tokens[spec.source(i, N)])) {
      meta[meta_gap] = meta[meta_age] = t - spec.source(i, N);
      meta[meta_writes] = 1;
    }
  }
}

}  // namespace crosstalk
