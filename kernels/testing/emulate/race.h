// Accesses of one place by two threads, one of them a write, that nothing orders (build.sh: EMULATE_RACES=1).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

namespace emulate::race {

/// Of each thread of a block, how much of what it did is seen.
using Clock = std::vector<unsigned>;

void begin_launch();
void end_launch();  ///< fails the test if there were races
void begin_block(unsigned threads);
/// All threads of the block have met, and go on after this.
void all_met();
/// What `thread` did is seen by whoever acquires `clock`.
void release(unsigned thread, Clock& clock);
void acquire(unsigned thread, const Clock& clock);
/// By the thread that runs, if one does; `code`: an address after the instruction.
void access(const void* at, std::size_t bytes, bool write, const void* code);
/// Memory that is no tensor's and no block's.
void ignored(const void* begin, const void* end);
constexpr unsigned kNone = ~0u;
unsigned self();

}  // namespace emulate::race
