// What is kept for further calls: plans, and memory of results.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "python/core/plan.h"

namespace crosstalk::python {

/// Plans that nobody uses, the latest first, in no more memory than this on the host.
class Pool {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  static Pool& instance() {
    static auto* pool = new Pool;  // arrays may outlive everything that ends with the process
    return *pool;
  }
  std::unique_ptr<Plan> take(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& one) { return one.key == key; });
    if (at == idle_.end()) return nullptr;
    std::unique_ptr<Plan> plan = std::move(at->plan);
    idle_.erase(at);
    return plan;
  }
  void give(const std::string& key, const Where& where, std::unique_ptr<Plan> plan) {
    std::list<Idle> gone;
    {
      const std::lock_guard lock(mutex_);
      idle_.push_front({key, where, std::move(plan)});
      const std::size_t most = most_of(where);
      std::size_t bytes = 0;
      for (auto at = idle_.begin(); at != idle_.end();) {
        const auto next = std::next(at);
        if (at->where.device == where.device && at->where.index == where.index) {
          bytes += at->plan->bytes();
          if (bytes > most) gone.splice(gone.begin(), idle_, at);
        }
        at = next;
      }
    }
    let_go(gone);
  }
  std::pair<std::size_t, std::size_t> size() {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const Idle& one : idle_) bytes += one.plan->bytes();
    return {idle_.size(), bytes};
  }
  void clear() {
    std::list<Idle> gone;
    {
      const std::lock_guard lock(mutex_);
      gone.swap(idle_);
    }
    let_go(gone);
  }

 private:
  struct Idle {
    std::string key;
    Where where;
    std::unique_ptr<Plan> plan;
  };
  /// Of a GPU an eighth of its memory.
  std::size_t most_of(const Where& where) {
    if (where.device == Device::cpu) return kMostBytes;
    auto [at, is_new] = most_.try_emplace(where.index, kMostBytes);
    try {
      const OnDevice on(where);
      if (is_new) at->second = std::max(kMostBytes, cuda_memory().total / 8);
    } catch (const std::exception&) {  // a device that failed has been told of where it did
    }
    return at->second;
  }
  /// What is queued may still use the memory of a plan, which others get. The stream may be gone by now, the device is not.
  static void let_go(std::list<Idle>& gone) noexcept {
    for (Idle& one : gone) {
      try {
        const OnDevice on(one.where);
        if (one.where.device == Device::cuda) cuda_wait_for_device();
        one.plan.reset();
      } catch (const std::exception&) {  // a device that failed has been told of where it did
      }
    }
  }
  std::mutex mutex_;
  std::list<Idle> idle_;
  std::map<int, std::size_t> most_;  ///< bytes, by the number of the GPU
};

/// Memory of results: what was let go serves the next call, whose first touch of fresh memory would cost as much as a copy.
class Recycled {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 28, kAlignment = 64;  ///< that of arenas

  static Recycled& instance() {
    static auto* one = new Recycled;  // arrays may outlive everything that ends with the process
    return *one;
  }
  static std::size_t rounded(std::size_t bytes) { return (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64; }
  void* take(std::size_t bytes) {
    bytes = rounded(bytes);
    {
      const std::lock_guard lock(mutex_);
      const auto at =
          std::find_if(free_.begin(), free_.end(), [&](const auto& one) { return one.first == bytes; });
      if (at != free_.end()) {
        void* p = at->second;
        free_.erase(at);
        kept_ -= bytes;
        return p;
      }
    }
    void* p = std::aligned_alloc(kAlignment, bytes);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }
  void give(void* p, std::size_t bytes) {
    bytes = rounded(bytes);
    const std::lock_guard lock(mutex_);
    free_.emplace_front(bytes, p);
    kept_ += bytes;
    shrink(kMostBytes);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    shrink(0);
  }

 private:
  void shrink(std::size_t most) {
    while (kept_ > most) {
      kept_ -= free_.back().first;
      std::free(free_.back().second);
      free_.pop_back();
    }
  }
  std::mutex mutex_;
  std::list<std::pair<std::size_t, void*>> free_;  ///< the latest first
  std::size_t kept_ = 0;
};

}  // namespace crosstalk::python
