// Stick-breaking attention: tokens before the query, from the nearest on, take sigmoid(score) of what nearer ones left (Tan et al. 2024,
// arXiv 2410.17980). A query at a token does not see it; one beside the sequence sees all tokens that it may.
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/stick_breaking.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {
namespace {

template <class Real>
Var<Real> broken(const Mixer<Real>& m, Var<Real> scores, bool strict) {
  StickBreaking<Real> op;
  op.s = in(scores), op.position = ids(m.position()), op.strict = strict;
  return {scores.graph, out(scores.graph->add(op).y)};
}

}  // namespace
}  // namespace crosstalk::memories

CROSSTALK_MEMORY(stick_breaking) {
  return {
      .summary = "attention whose nearest tokens break their shares off first",
      .does =
          "attention by shares of a stick: the nearest token takes sigmoid(q.k) of it, the next of what is left",
      .family = Family::keeps,
      .equation =
          "o_t = sum_{j<t} sigmoid(s_tj) prod_{j<l<t} (1 - sigmoid(s_tl)) v_j, s_tj = q_t.k_j / sqrt(d)",
      .source = "Tan et al. 2024, arXiv 2410.17980",
      .notes =
          "A token does not see itself; in the retrieval model a query comes after the last token that it sees.",
      .own_token = true,
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const bool strict = m.at_tokens() || m.strict();
            const auto s = attend(
                m, q, k,
                {.kernel = Kernel::identity, .normalised = false, .scale = m.scale(), .strict = strict});
            return m.mix(broken(m, s, strict));
          },
      .published = {.source = "; fla-org/flash-linear-attention@7bbb8faf fla/layers/stickbreaking_attn.py",
                    .parameters = 16384}};
}
