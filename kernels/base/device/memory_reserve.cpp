// The reserve that is freed when an allocation fails.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/device/memory_reserve.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace crosstalk {
namespace {

/// Addresses, which a limit (ulimit -v) counts; no page of it is ever touched.
constexpr std::size_t kReserve = std::size_t{4} << 20;
std::atomic<void*> reserve = nullptr;

std::atomic<bool> was_short = false;  ///< memory has ended once

void let_go_and_throw() {
  was_short = true;
  if (void* kept = reserve.exchange(nullptr)) ::munmap(kept, kReserve);
  throw std::bad_alloc();
}

std::atomic<const char*> last_message = nullptr;
std::atomic<int> last_code = 1;
std::terminate_handler other_handler = nullptr;

[[noreturn]] void end_for_lack_of_memory() {
  // The first one of several threads speaks, and ends them all.
  const char* message = last_message.exchange(nullptr);
  while (message == nullptr) ::pause();
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, std::strlen(message));
  ::_exit(last_code.load());
}

void end_process() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    end_for_lack_of_memory();
  } catch (...) {
  }
  // An exception that is thrown while another unwinds ends here and cannot be asked.
  if (!std::current_exception() && was_short.load()) end_for_lack_of_memory();
  if (other_handler != nullptr) other_handler();
  std::abort();
}

}  // namespace

void end_where_memory_is_lost(const char* message, int code) {
  last_message = message;
  last_code = code;
  if (const std::terminate_handler handler = std::get_terminate(); handler != end_process)
    other_handler = handler;
  std::set_terminate(end_process);
}

void keep_memory_reserve() {
  if (reserve.load() != nullptr) return;
  void* mapped = ::mmap(nullptr, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return;  // there is none to keep
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, mapped)) ::munmap(mapped, kReserve);
  std::set_new_handler(let_go_and_throw);
}

}  // namespace crosstalk
