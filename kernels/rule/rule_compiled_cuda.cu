// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "kernels/base/device/code_cache.h"
#include "kernels/base/device/cuda_launch.cuh"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/device/nvrtc.h"
#include "kernels/base/error.h"
#include "kernels/rule/rule_compiled.h"
#include "kernels/rule/rule_source.h"

namespace crosstalk {
namespace {

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(std::string("a compiled law: ") + what);
  throw DeviceError(std::string("a compiled law: ") + what + ": " + cudaGetErrorString(code));
}

/// A kernel of its own cubin. Not unloaded: it lives as long as the process, whose driver may have ended before it.
class Kernel {
 public:
  Kernel(const std::string& source, int threads, std::size_t shared, int capability)
      : threads_(static_cast<unsigned>(threads)), shared_(shared) {
    const std::string key = key_of(source, capability);
    const CodeCache cache = CodeCache::of_user();
    bool made = false;
    const auto make = [&] { return made = true, compile_cuda(source, capability, "the law"); };
    cubin_ = cache.get(key, make);
    cudaError_t code = load();
    if (code != cudaSuccess && !made) {  // what was kept is of no use
      cudaGetLastError();
      cubin_ = cache.renew(key, make);
      code = load();
    }
    check(code, "loading it");
  }
  void launch(void* arguments, dim3 grid, void* stream) const {
    void* values[] = {arguments};
    const auto* kernel = reinterpret_cast<const void*>(kernel_);
    if (shared_ > 0)  // of the device at hand
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_)),
            "asking for shared memory");
    check(cudaLaunchKernel(kernel, grid, dim3(threads_), values, shared_, static_cast<cudaStream_t>(stream)),
          "launching it");
  }

 private:
  cudaError_t load() {
    const cudaError_t code =
        cudaLibraryLoadData(&library_, cubin_.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    return code != cudaSuccess ? code : cudaLibraryGetKernel(&kernel_, library_, "rule_walk");
  }
  /// All that the machine code follows from.
  static std::string key_of(const std::string& source, int capability) {
    int driver = 0;
    check(cudaDriverGetVersion(&driver), "asking for the driver");
    const Nvrtc& library = nvrtc();
    if (!library.found) throw DeviceError("the law cannot be compiled: " + library.missing);
    std::string key = "law sm_" + std::to_string(capability) + " NVRTC " + library.version + " driver " +
                      std::to_string(driver);
    for (const char* option : kNvrtcOptions) key += std::string(" ") + option;
    return key + "\n" + source;
  }
  std::string cubin_;
  unsigned threads_;
  std::size_t shared_;  ///< bytes beside those that the source names
  cudaLibrary_t library_{};
  cudaKernel_t kernel_{};
};

class Loaded : public CompiledRule {
 public:
  Loaded(const RuleSource& source, int capability)
      : forward_(source.forward, source.forward_threads, 0, capability),
        backward_(source.backward, source.backward_threads, source.window_bytes, capability),
        window_(source.window) {}
  int window() const override { return window_; }
  void launch(bool forward, void* arguments, unsigned items, unsigned replicas, void* stream) const override {
    (forward ? forward_ : backward_).launch(arguments, dim3(items, replicas), stream);
  }

 private:
  Kernel forward_, backward_;
  int window_;
};

}  // namespace

std::shared_ptr<const CompiledRule> compiled_rule(const RuleProgram& program, bool wide, bool positions) {
  const RuleSource source = rule_source(program, wide, positions, shared_memory_limit());
  if (!source.refused.empty())
    throw OptionError("memory.form", "memory.form = \"compiled\": " + source.refused);
  const int capability = cuda_capability(cuda_current_device());
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const CompiledRule>> known;
  const std::string key = std::to_string(capability) + "\n" + source.forward + source.backward;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const CompiledRule>& one = known[key];
  if (!one) one = std::make_shared<Loaded>(source, capability);
  return one;
}

}  // namespace crosstalk
