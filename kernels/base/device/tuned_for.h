// The GPU for which work is cut.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// Multiprocessors of an H100 or H200. Sums are cut in as many parts as fill these, on every GPU: the order
/// of a sum may not depend on the GPU that makes it, or its bits would. A GPU with 28 or 188 of them is
/// filled less evenly.
inline constexpr int kTunedFor = 132;

/// Blocks of each of R replicas such that all run in one wave, one block a multiprocessor; at least one.
constexpr unsigned blocks_of_a_wave(int R) {
  return R < kTunedFor ? static_cast<unsigned>(kTunedFor / R) : 1;
}

}  // namespace crosstalk
