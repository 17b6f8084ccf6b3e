// text: windows of somebody's own text. Training draws a window anywhere in its part, or goes through it in lanes, window after window;
// validation and test go through theirs in windows, or in lanes. At every token the next one is due.
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
  std::int32_t lanes = 0;       ///< of training, parts of equal length side by side; 0: windows lie anywhere
  std::int32_t eval_lanes = 0;  ///< of validation and of test, each a sequence; 0: windows are
};

CT_HD inline std::int32_t text_scratch_size(const TextSpec&) { return 0; }

/// Tokens of a lane of which the next is known, and its windows in an epoch of training.
CT_HD inline std::int64_t text_lane(const TextSpec& spec, Split split) {
  return (static_cast<std::int64_t>(spec.part[static_cast<std::uint32_t>(split)].count) - 1) /
         (is_train(split) ? spec.lanes : spec.eval_lanes);
}
CT_HD inline std::int64_t text_windows(const TextSpec& spec) {
  return text_lane(spec, Split{0}) / spec.length;
}

/// Tokens of a sequence.
CT_HD inline std::int32_t text_length(const TextSpec& spec, Split split) {
  return is_train(split) || spec.eval_lanes == 0 ? spec.length
                                                 : static_cast<std::int32_t>(text_lane(spec, split));
}

/// Where sequence n begins in its split. In lanes sequence n + lanes goes on where n ends, but for the first ones of an epoch, which
/// leave out some of the tokens that fill no window.
CT_HD inline std::int64_t text_place(const TextSpec& spec, std::uint64_t data_seed, Split split,
                                     std::uint64_t n) {
  const std::int64_t length = text_length(spec, split);
  if (is_train(split) && spec.lanes > 0) {
    const auto lanes = static_cast<std::uint64_t>(spec.lanes);
    const std::int64_t lane = text_lane(spec, split), windows = text_windows(spec);
    const std::uint64_t epoch = n / lanes / static_cast<std::uint64_t>(windows);
    const auto left = static_cast<std::uint32_t>(lane - windows * length);
    const std::int64_t begin = sequence_stream(data_seed, split, epoch).below(left + 1),
                       window =
                           static_cast<std::int64_t>(n / lanes - epoch * static_cast<std::uint64_t>(windows));
    return static_cast<std::int64_t>(n % lanes) * lane + begin + window * length;
  }
  const auto places = spec.part[static_cast<std::uint32_t>(split)].count -
                      static_cast<std::uint32_t>(length);  // the token behind a window is its last answer
  if (is_train(split)) return sequence_stream(data_seed, split, n).below(places);
  const std::uint32_t windows = (places - 1) / static_cast<std::uint32_t>(length) + 1;
  return static_cast<std::int64_t>(n % windows) * length;
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
