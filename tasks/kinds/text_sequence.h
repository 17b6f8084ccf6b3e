// text: windows of somebody's own text. Training draws a window anywhere in its part; validation and test go through theirs window
// after window. At every token the next one is due.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/tokens_sequence.h"

namespace crosstalk {

/// The text of one split, in memory of the device that draws.
struct TextPart {
  TokenNumbers ids;
  std::int64_t first = 0;   ///< of the split within ids
  std::uint32_t count = 0;  ///< tokens; at least length + 1
};

struct TextSpec {
  TextPart part[3];  ///< by Split
  std::int32_t length = 0;
};

CT_HD inline std::int32_t text_scratch_size(const TextSpec&) { return 0; }

/// Where window n begins in its split.
CT_HD inline std::int64_t text_place(const TextSpec& spec, std::uint64_t data_seed, Split split,
                                     std::uint64_t n) {
  const auto places =
      spec.part[static_cast<std::uint32_t>(split)].count -
      static_cast<std::uint32_t>(spec.length);  // the token behind a window is its last answer
  if (is_train(split)) return sequence_stream(data_seed, split, n).below(places);
  const std::uint32_t windows = (places - 1) / static_cast<std::uint32_t>(spec.length) + 1;
  return static_cast<std::int64_t>(n % windows) * spec.length;
}

/// A window and the token behind it: ids[first] .. ids[first + T].
CT_HD inline void put_text(const TokenNumbers& ids, std::int64_t first, const SequenceView& out) {
  const std::int32_t T = out.shape.T;
  std::int32_t q = 0;
  for (std::int32_t t = 0; t < T; ++t) put_id(out, t, Role::ask, static_cast<std::int32_t>(ids[first + t]));
  for (std::int32_t t = 0; t < T && q < out.shape.Q; ++t)
    if (asked(t, T, q, out.shape.Q)) put_due(out, q++, t, static_cast<std::int32_t>(ids[first + t + 1]));
}

CT_HD inline void text_sequence(const TextSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                const SequenceView& out, std::int32_t*) {
  const TextPart& part = spec.part[static_cast<std::uint32_t>(split)];
  put_text(part.ids, part.first + text_place(spec, data_seed, split, n), out);
}

}  // namespace crosstalk
