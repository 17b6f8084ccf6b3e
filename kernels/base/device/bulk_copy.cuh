// Copies of whole blocks of memory to shared memory, for which one thread asks, and barriers in shared memory that count
// what arrived (cp.async.bulk and mbarrier; sm_90 and later).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/host_device.h"

namespace crosstalk::device {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

CT_DEVICE unsigned shared_address(const void* x) {
  return static_cast<unsigned>(__cvta_generic_to_shared(x));
}

/// A phase ends when `count` have arrived and the bytes that they announced are there.
CT_DEVICE void barrier_init(std::uint64_t* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
/// Makes barriers of this thread seen by all threads and copies behind __syncthreads().
CT_DEVICE void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
CT_DEVICE void barrier_arrive(std::uint64_t* barrier) {
  asm volatile(
      "{.reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0];}" ::"r"(shared_address(barrier))
      : "memory");
}
CT_DEVICE void barrier_announce(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("{.reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;}" ::"r"(
                   shared_address(barrier)),
               "r"(bytes)
               : "memory");
}
/// Waits for the end of phase number 0, 2, 4, ... (parity 0) or 1, 3, 5, ... (1).
CT_DEVICE void barrier_wait(std::uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  }
}
/// Tells whether it ended, without waiting.
CT_DEVICE bool barrier_test(std::uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(shared_address(barrier)), "r"(parity)
               : "memory");
  return done;
}
/// `bytes` (a multiple of 16, as both addresses) that count as arrived at the barrier.
CT_DEVICE void copy_bulk(void* shared, const void* from, unsigned bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

#endif

}  // namespace crosstalk::device
