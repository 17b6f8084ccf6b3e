// Copies from global to shared memory in the background (cp.async), and waiting for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/host_device.h"

namespace crosstalk::device {

/// kBytes of 4, 8 or 16 from an address that is a multiple of them, to one alike.
template <int kBytes = 16>
CT_DEVICE void copy_async(void* shared, const void* from) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes) : "memory");
}
/// The same of the first `valid` bytes; what is beyond them becomes 0. `from` is an address in any case.
template <int kBytes = 16>
CT_DEVICE void copy_async_or_zero(void* shared, const void* from, int valid) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes), "r"(valid)
                 : "memory");
  }
}
/// Makes one group of the copies that this thread has asked for.
CT_DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kLeft groups of this thread are on their way. Others see the copies behind a barrier.
template <int kLeft>
CT_DEVICE void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
/// Waits for all.
CT_DEVICE void copies_end() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace crosstalk::device
