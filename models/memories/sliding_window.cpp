// Softmax attention over the last tokens: o_t = sum_{t - window < j <= t} softmax_j(q_t.k_j / sqrt(d)) v_j
// (Beltagy, Peters, Cohan 2020, arXiv 2004.05150).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "kernels/base/error.h"
#include "kernels/elementwise/delay.h"
#include "models/memories/memory_file.h"
#include "models/parts/carried.h"

namespace crosstalk::memories {
namespace {

template <class Real>
Var<Real> recent(Var<Real> x, int tokens, Var<Real> start = {}) {
  Recent<Real> op;
  op.tokens = tokens;
  op.x = in(x), op.start = in(start);
  return {x.graph, out(x.graph->add(op).y)};
}

/// In pieces of a sequence the last window - 1 keys and values are handed on.
template <class Real>
Var<Real> read_window(Mixer<Real>& m) {
  auto [q, k] = features(m);
  const Attention how{.scale = m.scale(), .window = m.integer("window")};
  Carried<Real>* const piece = m.piece();
  const int past = how.window - 1, T = m.T;
  if (!piece || past == 0) return m.mix(attend(m, q, k, how));
  if (T < past)
    throw OptionError(
        "memory.window",
        fmt::format(
            "memory.window = {} hands on {} keys and values, and a piece has {} tokens; give task.length (eval.piece where no lanes "
            "are read) at least {}, or a smaller memory.window",
            how.window, past, T, past));
  Var<Real> v = m.values();
  bool goes_on = false;
  for (const auto& [name, x] : {std::pair{"window.keys", &k}, std::pair{"window.values", &v}}) {
    Var<Real> start = piece->start(m.graph, name);
    if (start) start = view(start, {m.B, past, m.H, x->dim(3)});
    piece->end(name, recent(*x, past, start));
    if (start) *x = recent(*x, past + T, start), goes_on = true;
  }
  if (!goes_on) return m.mix(attend(m, q, k, how));
  // A query stands at every token that was handed on, too, and is not read.
  return recent(m.mix(attend(m, recent(q, past + T), k, how), {}, {}, v), T);
}

}  // namespace
}  // namespace crosstalk::memories

CROSSTALK_MEMORY(sliding_window) {
  return {
      .summary = "softmax attention over the last tokens only",
      .does = "softmax attention over the last tokens only",
      .family = Family::keeps,
      .equation = "o_t = sum_j softmax_j(q_t.k_j / sqrt(d)) v_j over t - window < j <= t",
      .source = "Beltagy, Peters, Cohan 2020, arXiv 2004.05150",
      .options = {number("window", 16, "tokens that are kept, the newest counted", 1, 1 << 20, {1, 3})},
      .projection_init = ProjectionInit::xavier,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t T) { return std::min(T, o.get_int("memory.window")) * (K + V); },
      .build = [](auto& m) { return read_window(m); },
      .published =
          {.source =
               "Arora et al. 2024 (Based), arXiv 2402.18668; HazyResearch/zoology@d88d6f5 zoology/mixers/slide_attn.py",
           .settings = "biases=query key value output",
           .lacks = {
               {"a window that counts the own token beside its size: there a window of w sees w + 1 tokens",
                "memory.window one larger is the same"}}}};
}
