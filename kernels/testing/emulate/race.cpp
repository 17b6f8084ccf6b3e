// race.h, by what a compiler calls at each access with -fsanitize=thread; its own library is not linked. Of each place of two bytes the
// last write and the reads after it are kept, with the time of their threads (vector clocks, as FastTrack does). Two writes of the same
// number are no race.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/emulate/race.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "kernels/testing/emulate/emulate.cuh"

extern char _end;  // of the program's own variables, shared memory among them
extern char __start_emulate_given, __stop_emulate_given;

namespace emulate::race {
namespace {
using Address = std::uintptr_t;
struct Access {
  unsigned phase = 0, time = 0, code = 0;
  std::uint16_t thread = 0;
  bool atomic = false;
};
struct Cell {
  Access write, read, elsewhere;      ///< the last write; the last read, and that of another block
  std::unique_ptr<unsigned[]> times;  ///< of all threads' reads, where several have read since all met
  bool several = false;
};
using Page = std::array<Cell, 2048>;

bool instrumented = false, checks = false;
std::unordered_map<Address, std::unique_ptr<Page>> pages;
Page* page = nullptr;  ///< the last
std::vector<Clock> clocks;
/// A phase ends where all threads of a block meet: of one phase, threads' times tell what came first.
unsigned phase = 1, phase_of_block = 1, phase_of_launch = 1;
int races[2] = {};  ///< in this launch, in global and in shared memory
Address ignored_begin = 0, ignored_end = 0;

Cell& cell_at(Address at) {
  static Address last = 0;
  if (!page || at / 4096 != last) {
    auto& found = pages[last = at / 4096];
    if (!found) found = std::make_unique<Page>();
    page = found.get();
  }
  return (*page)[at / 2 % 2048];
}
bool is_shared(Address at) { return at < reinterpret_cast<Address>(&_end); }
bool before(const Access& a, const Access& now, Address at) {
  if (a.phase < phase_of_launch || (a.atomic && now.atomic)) return true;
  if (a.phase < phase_of_block) return is_shared(at);
  return a.phase < phase || clocks[now.thread][a.thread] >= a.time;
}

void report(Address at, const Access& a, bool a_writes, const Access& b, bool b_writes) {
  static std::set<std::pair<unsigned, unsigned>> told;
  ++races[is_shared(at)];
  if (!told.emplace(a.code, b.code).second) return;
  for (const auto& [access, writes] : {std::pair(a, a_writes), std::pair(b, b_writes)}) {
    std::fprintf(stderr, "emulate: race: thread %u%s %s %zx in\n", access.thread,
                 access.phase < phase_of_block ? " of another block" : "", writes ? "writes" : "reads", at);
    char line[128];
    std::snprintf(line, sizeof line, "addr2line -Cipse /proc/%d/exe %x >&2", getpid(), access.code - 1);
    if (std::system(line)) std::fprintf(stderr, "  %x\n", access.code);
  }
}

/// Two writes are a race unless the second, which is to come, writes the same.
struct Rewritten {
  Address at;
  Access a, b;
  std::uint16_t had;
};
std::vector<Rewritten> rewritten;
std::uint16_t number_at(Address at) { return *reinterpret_cast<const std::uint16_t*>(at); }
void see_rewritten() {
  for (const Rewritten& two : rewritten)
    if (number_at(two.at) != two.had) report(two.at, two.a, true, two.b, true);
  rewritten.clear();
}

void check(Cell& cell, Address at, const Access& now, bool write) {
  if (!write && cell.read.phase == phase && cell.read.time == now.time && cell.read.thread == now.thread)
    return;
  if (!before(cell.write, now, at)) {
    if (write) {
      rewritten.push_back({at, cell.write, now, number_at(at)});
    } else {
      report(at, cell.write, true, now, false);
    }
  }
  if (write) {
    for (const Access* read : {&cell.read, &cell.elsewhere})
      if (!before(*read, now, at)) report(at, *read, false, now, true);
    if (cell.several && cell.read.phase == phase)
      for (unsigned i = 0; i < clocks.size(); ++i)
        if (clocks[now.thread][i] < cell.times[i])
          report(at, {phase, cell.times[i], cell.read.code, static_cast<std::uint16_t>(i)}, false, now, true);
    cell.write = now, cell.read = cell.elsewhere = {}, cell.several = false;
    return;
  }
  if (cell.read.phase != phase) {
    if (!before(cell.read, {}, at)) cell.elsewhere = cell.read;
    cell.several = false;
  } else if (cell.several || !before(cell.read, now, at)) {
    if (!cell.several) {
      if (!cell.times) cell.times = std::make_unique<unsigned[]>(clocks.size());
      std::fill_n(cell.times.get(), clocks.size(), 0u);
      cell.times[cell.read.thread] = cell.read.time, cell.several = true;
    }
    cell.times[now.thread] = now.time;
  }
  cell.read = now;
}

void see(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}
}  // namespace

/// EMULATE_EVERY=N, for long tests: of each N-th launch only.
void begin_launch() {
  static const char* const every = std::getenv("EMULATE_EVERY");
  static int launches = 0;
  checks = instrumented && (!every || launches++ % std::atoi(every) == 0);
  phase_of_launch = ++phase, races[0] = races[1] = 0;
  pages.clear(), page = nullptr;
}
void end_launch() {
  see_rewritten();
  if (races[0] || races[1])
    ADD_FAILURE() << races[1] << " races in shared memory, " << races[0] << " races in global memory";
}
void begin_block(unsigned threads) {
  phase_of_block = ++phase;
  if (!checks) return;
  clocks.assign(threads, Clock(threads));
  for (unsigned i = 0; i < threads; ++i) clocks[i][i] = 1;
}
void all_met() { ++phase; }
void release(unsigned thread, Clock& clock) {
  if (!checks) return;
  see(clock, clocks[thread]);
  ++clocks[thread][thread];
}
void acquire(unsigned thread, const Clock& clock) {
  if (checks) see(clocks[thread], clock);
}
void ignored(const void* begin, const void* end) {
  ignored_begin = reinterpret_cast<Address>(begin), ignored_end = reinterpret_cast<Address>(end);
}
void access(const void* at, std::size_t bytes, bool write, const void* code) {
  const auto begin = reinterpret_cast<Address>(at);
  const unsigned thread = self();
  if (!checks || thread == kNone || bytes == 0 || (begin >= ignored_begin && begin < ignored_end) ||
      (at >= &__start_emulate_given && at < &__stop_emulate_given) || at == &atomic)
    return;
  see_rewritten();
  const Access now = {phase, clocks[thread][thread], static_cast<unsigned>(reinterpret_cast<Address>(code)),
                      static_cast<std::uint16_t>(thread), atomic};
  for (Address i = begin / 2 * 2; i < begin + bytes; i += 2) check(cell_at(i), i, now, write);
}

}  // namespace emulate::race

#define ACCESS(name, bytes, write) \
  void __tsan_##name(void* at) { emulate::race::access(at, bytes, write, __builtin_return_address(0)); }
#define ACCESSES(bytes)                       \
  ACCESS(read##bytes, bytes, false)           \
  ACCESS(unaligned_read##bytes, bytes, false) \
  ACCESS(write##bytes, bytes, true) ACCESS(unaligned_write##bytes, bytes, true)
extern "C" {
void __tsan_init() {
  emulate::race::instrumented = true;
  const rlimit most = {std::size_t{6} << 30, std::size_t{6} << 30};  // cells are 40 times what they tell of
  setrlimit(RLIMIT_AS, &most);
}
ACCESSES(1)
ACCESSES(2) ACCESSES(4) ACCESSES(8) ACCESSES(16) void __tsan_read_range(void* at, std::size_t bytes) {
  emulate::race::access(at, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  emulate::race::access(at, bytes, true, __builtin_return_address(0));
}
char __tsan_atomic8_load(const char* at, int) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}  // of statics of functions
void __tsan_atomic_signal_fence(int) {}
void __tsan_vptr_read(void*) {}
void __tsan_vptr_update(void**, void*) {}
}
