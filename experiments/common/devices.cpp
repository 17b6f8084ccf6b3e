// Devices by name.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "experiments/common/command.h"
#include "experiments/common/text.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "models/graph/passes.h"
#include "results/csv.h"

#ifndef CROSSTALK_CUDA_ARCHITECTURES
#define CROSSTALK_CUDA_ARCHITECTURES ""
#endif

namespace crosstalk::program {
namespace {

constexpr int kMaxWorkers = 64;

[[noreturn]] void refuse(const std::string& text) {
  throw UsageError(fmt::format(
      "--device takes auto, cpu, cuda or cuda:N ('run' and 'retry' also cuda:all and cuda:0,1), not '{}'",
      text));
}

/// A whole number, or -1.
int number_of(const std::string& text) { return std::max(-1, number_in<int>(text).value_or(-1)); }

std::vector<OfferedGpu> offered_gpus() {
  std::vector<OfferedGpu> gpus;
  for (int i = 0; i < cuda_device_count(); ++i) gpus.push_back({cuda_device_name(i), cuda_capability(i)});
  return gpus;
}

std::string capability_text(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

/// "Tesla T4 (compute capability 7.5): this crosstalk has code for 80-real only".
std::string without_code(const OfferedGpu& gpu, const std::string& architectures) {
  return fmt::format("{} (compute capability {}) runs no code of this crosstalk, which was built for {}",
                     gpu.name, capability_text(gpu.capability), architectures);
}

void check_gpu(const std::string& text, int index, const std::vector<OfferedGpu>& gpus,
               const std::string& architectures) {
  const int count = static_cast<int>(gpus.size());
  if (index >= count)
    throw DeviceError(fmt::format("--device {}: this process sees {}; 'crosstalk doctor' shows them", text,
                                  count == 0 ? "no GPU" : plural(count, "GPU")));
  const OfferedGpu& gpu = gpus[static_cast<std::size_t>(index)];
  if (!has_code(gpu.capability, architectures))
    throw DeviceError(
        fmt::format("--device {}: {}; use --device cpu", text, without_code(gpu, architectures)));
}

void check_build(const std::string& text) {
  if (!built_with_cuda())
    throw DeviceError(fmt::format(
        "--device {}: this crosstalk was built without CUDA; leave the option out to train on the CPU",
        text));
}

}  // namespace

void choose_passes(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::ranges::find(pass_names(), name) == pass_names().end())
      throw UsageError(fmt::format("--no-pass takes {}, not '{}'", join(pass_names(), ", ", " and "), name));
  }
  switch_off_passes({names.begin(), names.end()});
}

bool has_code(int capability, const std::string& architectures) {
  bool any = false;
  const char* at = architectures.data();
  const char* const end = at + architectures.size();
  while (at < end) {
    const char* const stop = std::find_if(at, end, [](char c) { return c == ',' || c == ';' || c == ' '; });
    const std::string word(at, stop);
    at = std::min(stop + 1, end);
    if (word.empty()) continue;
    any = true;
    int version = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), version);
    const std::string kind(rest, word.data() + word.size());
    if (error != std::errc()) return true;  // native, all, ...: CMake knows
    const bool same_major = capability / 10 == version / 10;
    if (kind.rfind('a', 0) == 0) {  // of this GPU alone
      if (capability == version) return true;
    } else if (kind.rfind('f', 0) == 0) {  // of its family
      if (same_major && capability >= version) return true;
    } else if (capability >= version && (same_major || kind != "-real")) {
      return true;
    }
  }
  return !any;
}

std::string choose_device(const std::string& text, TrainingOptions& options) {
  if (text == "cpu") return "";
  const bool is_gpu = text == "cuda" || text.rfind("cuda:", 0) == 0;
  if (is_gpu && (text == "cuda" || number_of(text.substr(5)) >= 0)) check_build(text);
  return choose_device(text, options, offered_gpus(), CROSSTALK_CUDA_ARCHITECTURES);
}

std::string choose_device(const std::string& text, TrainingOptions& options,
                          const std::vector<OfferedGpu>& gpus, const std::string& architectures) {
  if (text == "cpu") return "";
  if (text == "auto") {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!has_code(gpus[i].capability, architectures)) continue;
      options.device = Device::cuda;
      options.cuda_device = static_cast<int>(i);
      return "";
    }
    if (gpus.empty()) return "";
    return without_code(gpus[0], architectures) + "; using the CPU";
  }
  int index = 0;
  if (text != "cuda") {
    if (text.rfind("cuda:", 0) != 0) refuse(text);
    index = number_of(text.substr(5));
    if (index < 0) refuse(text);
  }
  check_gpu(text, index, gpus, architectures);
  options.device = Device::cuda;
  options.cuda_device = index;
  return "";
}

std::vector<std::string> worker_devices(const std::string& text) {
  if (text.rfind("cpu:all:", 0) == 0) {
    const int count = number_of(text.substr(8));
    if (count < 1 || count > kMaxWorkers) refuse(text);
    return std::vector<std::string>(static_cast<std::size_t>(count), "cpu");
  }
  const bool all = text == "cuda:all";
  if (!all && (text.rfind("cuda:", 0) != 0 || text.find(',') == std::string::npos)) return {};
  check_build(text);
  const std::vector<OfferedGpu> gpus = offered_gpus();
  const std::string architectures = CROSSTALK_CUDA_ARCHITECTURES;
  std::vector<std::string> devices;
  if (all) {
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (has_code(gpus[i].capability, architectures)) devices.push_back(fmt::format("cuda:{}", i));
    if (devices.empty()) check_gpu(text, 0, gpus, architectures);
    return devices;
  }
  for (const std::string& part : parts_of(text.substr(5), ',')) {
    const int index = number_of(part);
    if (index < 0) refuse(text);
    check_gpu(text, index, gpus, architectures);
    devices.push_back(fmt::format("cuda:{}", index));
  }
  return devices;
}

std::string device_name(const TrainingOptions& options) {
  return options.device == Device::cuda ? cuda_device_name(options.cuda_device) : "cpu";
}

}  // namespace crosstalk::program
