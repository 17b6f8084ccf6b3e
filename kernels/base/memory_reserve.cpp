// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/memory_reserve.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <new>

namespace crosstalk {
namespace {

/// Of addresses, which is what a limit (ulimit -v) counts; no page of it is ever touched.
constexpr std::size_t kReserve = std::size_t{4} << 20;
std::atomic<void*> reserve = nullptr;

void let_go_and_throw() {
  if (void* kept = reserve.exchange(nullptr)) ::munmap(kept, kReserve);
  throw std::bad_alloc();
}

}  // namespace

void keep_memory_reserve() {
  if (reserve.load() != nullptr) return;
  void* mapped = ::mmap(nullptr, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;  // there is none to keep
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, mapped)) ::munmap(mapped, kReserve);
  std::set_new_handler(let_go_and_throw);
}

}  // namespace crosstalk
