// Fibers, barriers and warps of emulate.cuh, and a CUDA runtime whose device is this computer.
// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "kernels/testing/emulate/emulate.cuh"
#include "kernels/testing/emulate/race.h"

extern "C" void emulate_switch(void** from, void* to);
asm(R"(
.text
.globl emulate_switch
emulate_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

EMULATE_GIVEN uint3 threadIdx, blockIdx;
EMULATE_GIVEN dim3 blockDim, gridDim;

namespace emulate {
alignas(1024) unsigned char dynamic_memory[256 * 1024];
volatile bool atomic = false;

namespace {
constexpr std::size_t kStack = 256 * 1024, kMost = 1024;
struct Copy {
  unsigned char* to;
  const void* from;
  std::size_t bytes, valid;
  const void* code;
};
struct Fiber {
  void* stack = nullptr;
  void* at = nullptr;
  uint3 thread{};
  bool ended = false;
  const unsigned* watched = nullptr;  ///< goes on when this is no longer `seen`
  unsigned seen = 0;
  const char* waits = "";
  std::vector<std::vector<Copy>> copies;  ///< groups that have not landed; the last is not committed
};
struct Barrier {
  unsigned arrived = 0, generation = 0, count = 0;
  race::Clock clock[2];
  bool any[2] = {}, all[2] = {true, true};
};
struct Meeting {
  unsigned arrived = 0, generation = 0;
  const char* what = nullptr;
  Slots slots[2];
  race::Clock clock[2];
};

std::vector<Fiber> fibers;
std::vector<std::map<unsigned, Meeting>> warps;
Barrier barriers[16];
Fiber* running = nullptr;
void* scheduler = nullptr;
unsigned alive = 0, threads = 0;
const std::function<void()>* body = nullptr;
std::mutex one_kernel;

/// An address of 32 bits, as __cvta_generic_to_shared has them.
void* at(unsigned address) { return reinterpret_cast<void*>(static_cast<std::size_t>(address)); }

void wait(const unsigned& generation, unsigned seen, const char* what) {
  Fiber& mine = *running;
  mine.watched = &generation, mine.seen = seen, mine.waits = what;
  emulate_switch(&mine.at, scheduler);
}
void release(Barrier& b) {
  b.arrived = 0;
  ++b.generation;
  b.any[b.generation % 2] = false, b.all[b.generation % 2] = true;
  b.clock[b.generation % 2].clear();
  if (&b == barriers) race::all_met();
}

void fiber_main() {
  (*body)();
  running->ended = true;
  --alive;
  if (alive > 0 && barriers[0].arrived == alive) release(barriers[0]);
  emulate_switch(&running->at, scheduler);
  std::abort();
}
void begin(Fiber& fiber) {
  static auto* const stacks = static_cast<char*>(mmap(nullptr, kMost * kStack, PROT_READ | PROT_WRITE,
                                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  race::ignored(stacks, stacks + kMost * kStack);
  fiber.stack = stacks + static_cast<std::size_t>(&fiber - fibers.data()) * kStack;
  auto* top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + kStack - 64);
  *top = reinterpret_cast<void*>(fiber_main);
  fiber.at = top - 6;
  fiber.ended = false, fiber.watched = nullptr, fiber.copies.assign(1, {});
}
void run_block(const std::vector<int>& order) {
  std::memset(dynamic_memory, 0xff, sizeof dynamic_memory);
  alive = threads;
  race::begin_block(threads);
  warps.clear();
  warps.resize((threads + 31) / 32);
  for (Barrier& b : barriers) b = {};
  if (fibers.size() < threads) fibers.resize(threads);
  for (unsigned i = 0; i < threads; ++i) {
    begin(fibers[i]);
    fibers[i].thread = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
  }
  while (alive > 0) {
    bool moved = false;
    for (std::size_t first = 0; first < order.size(); first += 32) {
      for (bool again = true; again;) {
        again = false;
        for (std::size_t i = first; i < std::min(first + 32, order.size()); ++i) {
          Fiber& fiber = fibers[static_cast<std::size_t>(order[i])];
          if (fiber.ended || (fiber.watched && *fiber.watched == fiber.seen)) continue;
          running = &fiber, threadIdx = fiber.thread;
          emulate_switch(&scheduler, fiber.at);
          running = nullptr;
          moved = again = true;
        }
      }
    }
    if (!moved && alive > 0) {
      std::fprintf(stderr, "emulate: block %u %u, %u of %u threads wait for ever:\n", blockIdx.x, blockIdx.y,
                   alive, threads);
      for (unsigned i = 0; i < threads; ++i)
        if (!fibers[i].ended && (i % 32 == 0 || i < 32))
          std::fprintf(stderr, "  thread %u: %s\n", i, fibers[i].waits);
      std::abort();
    }
  }
}
}  // namespace

unsigned race::self() { return running ? static_cast<unsigned>(running - fibers.data()) : kNone; }

void unsupported(const char* what) {
  std::fprintf(stderr, "emulate: %s\n", what);
  std::abort();
}

/// EMULATE_ORDER of warps and lanes: forward, reverse, or a number that mixes them; what is right is so in any order.
/// EMULATE_TRACE=1 tells of launches.
void run(dim3 grid, dim3 block, std::size_t bytes, const std::function<void()>& thread) {
  const std::lock_guard lock(one_kernel);
  if (bytes > 227 * 1024) unsupported("more shared memory than there is");
  blockDim = block, gridDim = grid;
  threads = block.x * block.y * block.z;
  if (std::getenv("EMULATE_TRACE"))
    std::fprintf(stderr, "emulate: %u x %u x %u blocks of %u threads, %zu bytes\n", grid.x, grid.y, grid.z,
                 threads, bytes);
  body = &thread;
  race::begin_launch();
  std::vector<int> order(threads);
  for (unsigned i = 0; i < threads; ++i) order[i] = static_cast<int>(i);
  const char* const wanted = std::getenv("EMULATE_ORDER");
  const std::string how = wanted ? wanted : "forward";
  if (how == "reverse") std::reverse(order.begin(), order.end());
  std::mt19937 random(static_cast<unsigned>(std::atoi(how.c_str())));
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        if (how[0] >= '0' && how[0] <= '9') {
          std::vector<unsigned> groups(threads / 32);
          for (unsigned w = 0; w < groups.size(); ++w) groups[w] = w;
          std::shuffle(groups.begin(), groups.end(), random);
          for (unsigned w = 0; w < groups.size(); ++w) {
            for (unsigned l = 0; l < 32; ++l) order[32 * w + l] = static_cast<int>(32 * groups[w] + l);
            std::shuffle(order.begin() + 32 * w, order.begin() + 32 * w + 32, random);
          }
        }
        run_block(order);
      }
  race::end_launch();
}

bool barrier(int id, unsigned count, bool vote, bool all) {
  Barrier& b = barriers[id];
  const unsigned generation = b.generation;
  race::Clock& clock = b.clock[generation % 2];
  if (b.arrived && count && b.count != count) unsupported("a barrier of two counts");
  b.count = count;
  b.any[generation % 2] |= vote, b.all[generation % 2] &= vote;
  if (id > 0) race::release(race::self(), clock);
  if (++b.arrived == (count ? count : alive)) {
    const bool any = b.any[generation % 2], every = b.all[generation % 2];
    release(b);
    if (id > 0) race::acquire(race::self(), clock);
    return all ? every : any;
  }
  static const char* const kNames[16] = {"syncthreads", "bar 1",  "bar 2",  "bar 3", "bar 4",  "bar 5",
                                         "bar 6",       "bar 7",  "bar 8",  "bar 9", "bar 10", "bar 11",
                                         "bar 12",      "bar 13", "bar 14", "bar 15"};
  wait(b.generation, generation, kNames[id]);
  if (id > 0) race::acquire(race::self(), clock);
  return all ? b.all[generation % 2] : b.any[generation % 2];
}

void arrive(int id, unsigned count) {
  Barrier& b = barriers[id];
  if (b.arrived && b.count != count) unsupported("a barrier of two counts");
  b.count = count;
  race::release(race::self(), b.clock[b.generation % 2]);
  if (++b.arrived == count) release(b);
}

Slots& meet(unsigned mask, const char* what, const void* in, std::size_t bytes, void (*compute)(Slots&)) {
  const unsigned linear = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned lane = linear % 32, left = threads - linear / 32 * 32;
  Meeting& meeting = warps[linear / 32][mask];
  if (!(mask >> lane & 1)) unsupported("a lane that is not of its own mask");
  if (meeting.arrived && std::string(meeting.what) != what) {
    std::fprintf(stderr, "emulate: lanes of warp %u meet at %s and at %s\n", linear / 32, meeting.what, what);
    std::abort();
  }
  meeting.what = what;
  const unsigned generation = meeting.generation;
  Slots& slots = meeting.slots[generation % 2];
  race::Clock& clock = meeting.clock[generation % 2];
  if (bytes) std::memcpy(slots.in[lane], in, bytes);
  if (!bytes) race::release(linear, clock);
  meeting.arrived |= 1u << lane;
  if (meeting.arrived == (left >= 32 ? mask : mask & ((1u << left) - 1))) {
    if (compute) compute(slots);
    meeting.arrived = 0;
    ++meeting.generation;
    meeting.clock[meeting.generation % 2].clear();
  } else {
    wait(meeting.generation, generation, what);
  }
  if (!bytes) race::acquire(linear, clock);
  return slots;
}

void copy(unsigned to, const void* from, int bytes, int valid) {
  auto* const address = static_cast<unsigned char*>(at(to));
  if (to % static_cast<unsigned>(bytes) != 0 ||
      (valid && reinterpret_cast<std::size_t>(from) % static_cast<unsigned>(bytes)))
    unsupported("cp.async of an address that is no multiple of its size");
  const Copy copy = {address, from, static_cast<std::size_t>(bytes), static_cast<std::size_t>(valid),
                     __builtin_return_address(0)};
  race::access(copy.to, copy.bytes, true, copy.code);
  race::access(copy.from, copy.valid, false, copy.code);
  std::memset(copy.to, 0xff, copy.bytes);
  running->copies.back().push_back(copy);
}
void commit_copies() { running->copies.emplace_back(); }
void wait_for_copies(int left) {
  auto& groups = running->copies;
  while (groups.size() > static_cast<std::size_t>(left) + 1) {
    for (const Copy& copy : groups.front()) {
      race::access(copy.to, copy.bytes, true, copy.code);
      std::memcpy(copy.to, copy.from, copy.valid);
      std::memset(copy.to + copy.valid, 0, copy.bytes - copy.valid);
    }
    groups.erase(groups.begin());
  }
}

namespace {
/// Of factors of 32 bits or, kPer = 2, of 16: A in kA registers of a lane, then B.
template <int kA, int K, int kPer>
void multiply(Slots& slots) {
  const auto number = [&](int lane, int i, int part) {
    const unsigned x = taken<unsigned>(slots.in[lane] + 16 + 4 * i);
    return std::bit_cast<float>(kPer == 1 ? x & 0xffffe000u : part ? x & 0xffff0000u : x << 16);
  };
  constexpr int kGroup = 4 * kPer;
  double a[16][K], b[8][K];
  for (int k = 0; k < K; ++k) {
    const int t = k % kGroup / kPer, part = k % kPer, group = k / kGroup;
    for (int i = 0; i < 16; ++i) a[i][k] = number(i % 8 * 4 + t, i / 8 + group * 2, part);
    for (int n = 0; n < 8; ++n) b[n][k] = number(n * 4 + t, kA + group, part);
  }
  for (int l = 0; l < 32; ++l)
    for (int e = 0; e < 4; ++e) {
      double sum = taken<float>(slots.in[l] + 4 * e);
      for (int k = 0; k < K; ++k) sum += a[l / 4 + e / 2 * 8][k] * b[2 * (l % 4) + e % 2][k];
      const auto rounded = static_cast<float>(sum);
      std::memcpy(slots.out[l] + 4 * e, &rounded, 4);
    }
}
template <std::size_t N>
void multiplied(float (&d)[4], const unsigned (&factors)[N], const char* what, void (*compute)(Slots&)) {
  unsigned char mine[16 + 4 * N];
  std::memcpy(mine, d, 16), std::memcpy(mine + 16, factors, 4 * N);
  const Slots& slots = meet(0xffffffffu, what, mine, sizeof mine, compute);
  std::memcpy(d, slots.out[lane()], 16);
}

template <bool kTurned>
void load_matrices(Slots& slots) {
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 4; ++i) {
      const auto number = [&](int row, int column) -> unsigned {
        const unsigned from = taken<unsigned>(slots.in[8 * i + row]);
        return static_cast<const std::uint16_t*>(at(from))[column];
      };
      const int g = l / 4, t = 2 * (l % 4);
      const unsigned x =
          kTurned ? number(t, g) | number(t + 1, g) << 16 : number(g, t) | number(g, t + 1) << 16;
      std::memcpy(slots.out[l] + 4 * i, &x, 4);
    }
  }
}
}  // namespace

void multiply_tf32(float (&d)[4], const unsigned (&factors)[6]) {
  multiplied(d, factors, "mma tf32", multiply<4, 8, 1>);
}
void multiply_bf16(float (&d)[4], const unsigned (&factors)[6]) {
  multiplied(d, factors, "mma bf16", multiply<4, 16, 2>);
}
void multiply_bf16_of_8(float (&d)[4], const unsigned (&factors)[3]) {
  multiplied(d, factors, "mma bf16 of 8", multiply<2, 8, 2>);
}
void ldmatrix(bool turned, unsigned (&x)[4], unsigned from) {
  if (from % 16) unsupported("ldmatrix of an address that is no multiple of 16");
  race::access(at(from), 16, false, __builtin_return_address(0));
  const Slots& slots = meet(0xffffffffu, turned ? "ldmatrix.trans" : "ldmatrix", &from, sizeof from,
                            turned ? load_matrices<true> : load_matrices<false>);
  std::memcpy(x, slots.out[lane()], sizeof x);
}

}  // namespace emulate
