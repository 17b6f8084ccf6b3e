// A few sequences on the host, written by hand or at random, for tests that know no task.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/random.h"

namespace crosstalk::checks {

/// B sequences of one shape. Everything starts absent (-1), positions at the end of the sequence.
struct HandBatch {
  HandBatch(int B_, SequenceShape shape_) : B(B_), shape(shape_) {
    tokens.assign(size(shape.T * shape.C), -1);
    query.assign(size(shape.Q), 0);
    position.assign(size(shape.Q), shape.T);
    target.assign(size(shape.Q), -1);
  }
  int B;
  SequenceShape shape;
  std::vector<std::int32_t> tokens, query, position, target;

  std::size_t size(int each) const { return static_cast<std::size_t>(B) * static_cast<std::size_t>(each); }
  std::size_t slot(int b, int i) const { return static_cast<std::size_t>(b * shape.Q + i); }
  std::int32_t token(int b, int t, int channel) const {
    return tokens[static_cast<std::size_t>((b * shape.T + t) * shape.C + channel)];
  }
  std::int32_t query_at(int b, int i) const { return query[slot(b, i)]; }
  std::int32_t position_at(int b, int i) const { return position[slot(b, i)]; }
  std::int32_t target_at(int b, int i) const { return target[slot(b, i)]; }

  /// Token t of sequence b: {key, value} or {key, value, second key}.
  void write(int b, int t, std::initializer_list<std::int32_t> channels) {
    auto at = static_cast<std::size_t>((b * shape.T + t) * shape.C);
    for (const std::int32_t id : channels) tokens[at++] = id;
  }
  void ask(int b, int i, std::int32_t key, std::int32_t answer, int after) {
    query[slot(b, i)] = key;
    target[slot(b, i)] = answer;
    position[slot(b, i)] = after;
  }
};

/// Repeated keys, missing values, swaps, reads in the middle, unused query slots. Every token has a key.
inline HandBatch random_batch(RandomStream& random, int B, SequenceShape shape, int keys, int values) {
  HandBatch batch(B, shape);
  const auto below = [&](int n) {
    return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(n)));
  };
  for (int b = 0; b < B; ++b) {
    for (int t = 0; t < shape.T; ++t) {
      const std::int32_t key = below(keys), value = below(values), second = below(keys);
      const bool swap = shape.C == 3 && below(3) == 0, valueless = below(12) == 0;
      if (shape.C == 3) {  // a swap of a key with itself changes nothing
        batch.write(b, t, {key, swap || valueless ? -1 : value, swap ? second : valueless ? key : -1});
      } else {
        batch.write(b, t, {key, valueless ? -1 : value});
      }
    }
    for (int i = 0; i < shape.Q; ++i) {
      const int after = below(3) == 0 ? 1 + below(shape.T) : shape.T;
      batch.ask(b, i, below(keys), below(values), after);
      if (shape.Q > 1 && i > 0 && below(4) == 0) batch.ask(b, i, 0, -1, 0);  // as tasks leave unused slots
    }
  }
  return batch;
}

}  // namespace crosstalk::checks
