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

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulate {
alignas(1024) unsigned char dynamic_memory[256 * 1024];

namespace {
constexpr std::size_t kStack = 256 * 1024;
struct Fiber {
  void* stack = nullptr;
  void* at = nullptr;
  uint3 thread{};
  bool ended = false;
  const unsigned* watched = nullptr;  ///< goes on when this is no longer `seen`
  unsigned seen = 0;
  const char* waits = "";
};
struct Barrier {
  unsigned arrived = 0, generation = 0, count = 0;
  bool any[2] = {}, all[2] = {true, true};
};
struct Meeting {
  unsigned arrived = 0, generation = 0;
  const char* what = nullptr;
  Slots slots[2];
};

std::vector<Fiber> fibers;
std::vector<std::map<unsigned, Meeting>> warps;
Barrier barriers[16];
Fiber* running = nullptr;
void* scheduler = nullptr;
unsigned alive = 0, threads = 0;
const std::function<void()>* body = nullptr;
std::mutex one_kernel;

void wait(const unsigned& generation, unsigned seen, const char* what) {
  Fiber& mine = *running;
  mine.watched = &generation, mine.seen = seen, mine.waits = what;
  emulate_switch(&mine.at, scheduler);
}
void release(Barrier& b) {
  b.arrived = 0;
  ++b.generation;
  b.any[b.generation % 2] = false, b.all[b.generation % 2] = true;
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
  if (!fiber.stack)
    fiber.stack =
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* top = reinterpret_cast<void**>(static_cast<char*>(fiber.stack) + kStack - 64);
  *top = reinterpret_cast<void*>(fiber_main);
  fiber.at = top - 6;
  fiber.ended = false, fiber.watched = nullptr;
}
void run_block(const std::vector<int>& order) {
  std::memset(dynamic_memory, 0xff, sizeof dynamic_memory);
  alive = threads;
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
}

bool barrier(int id, unsigned count, bool vote, bool all) {
  Barrier& b = barriers[id];
  const unsigned generation = b.generation;
  if (b.arrived && count && b.count != count) unsupported("a barrier of two counts");
  b.count = count;
  b.any[generation % 2] |= vote, b.all[generation % 2] &= vote;
  if (++b.arrived == (count ? count : alive)) {
    const bool any = b.any[generation % 2], every = b.all[generation % 2];
    release(b);
    return all ? every : any;
  }
  static const char* const kNames[16] = {"syncthreads", "bar 1",  "bar 2",  "bar 3", "bar 4",  "bar 5",
                                         "bar 6",       "bar 7",  "bar 8",  "bar 9", "bar 10", "bar 11",
                                         "bar 12",      "bar 13", "bar 14", "bar 15"};
  wait(b.generation, generation, kNames[id]);
  return all ? b.all[generation % 2] : b.any[generation % 2];
}

void arrive(int id, unsigned count) {
  Barrier& b = barriers[id];
  if (b.arrived && b.count != count) unsupported("a barrier of two counts");
  b.count = count;
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
  if (bytes) std::memcpy(slots.in[lane], in, bytes);
  meeting.arrived |= 1u << lane;
  if (meeting.arrived == (left >= 32 ? mask : mask & ((1u << left) - 1))) {
    if (compute) compute(slots);
    meeting.arrived = 0;
    ++meeting.generation;
  } else {
    wait(meeting.generation, generation, what);
  }
  return slots;
}

}  // namespace emulate
