// Devices by name.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "experiments/common/command.h"
#include "experiments/common/text.h"
#include "kernels/base/cuda_runtime.h"
#include "kernels/base/error.h"
#include "models/graph/passes.h"

namespace crosstalk::program {
namespace {

constexpr int kMaxWorkers = 64;

[[noreturn]] void refuse(const std::string& text) {
  throw UsageError(
      fmt::format("--device takes auto, cpu, cuda or cuda:N ('run' and 'retry' also cuda:all and cuda:0,1), "
                  "not '{}'",
                  text));
}

/// A whole number, or -1.
int number_of(const std::string& text) {
  int value = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && value >= 0 ? value : -1;
}

void check_gpu(const std::string& text, int index, int count) {
  if (!built_with_cuda())
    throw DeviceError(fmt::format(
        "--device {}: this crosstalk was built without CUDA; leave the option out to train on the CPU",
        text));
  if (index >= count)
    throw DeviceError(fmt::format("--device {}: this process sees {}; 'crosstalk doctor' shows them", text,
                                  count == 0 ? "no GPU" : plural(count, "GPU")));
}

}  // namespace

void choose_passes(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(pass_names().begin(), pass_names().end(), name) == pass_names().end())
      throw UsageError(fmt::format("--no-pass takes {}, not '{}'", join(pass_names(), ", ", " and "), name));
  }
  switch_off_passes({names.begin(), names.end()});
}

void choose_device(const std::string& text, TrainingOptions& options) {
  if (text == "cpu") return;
  const bool automatic = text == "auto";
  int index = 0;
  if (!automatic && text != "cuda") {
    if (text.rfind("cuda:", 0) != 0) refuse(text);
    index = number_of(text.substr(5));
    if (index < 0) refuse(text);
  }
  const int count = cuda_device_count();
  if (automatic && count == 0) return;
  check_gpu(text, index, count);
  options.device = Device::cuda;
  options.cuda_device = index;
}

std::vector<std::string> worker_devices(const std::string& text) {
  if (text.rfind("cpu:all:", 0) == 0) {
    const int count = number_of(text.substr(8));
    if (count < 1 || count > kMaxWorkers) refuse(text);
    return std::vector<std::string>(static_cast<std::size_t>(count), "cpu");
  }
  const bool all = text == "cuda:all";
  if (!all && (text.rfind("cuda:", 0) != 0 || text.find(',') == std::string::npos)) return {};
  const int count = cuda_device_count();
  std::vector<std::string> devices;
  if (all) {
    check_gpu(text, 0, count);
    for (int i = 0; i < count; ++i) devices.push_back(fmt::format("cuda:{}", i));
    return devices;
  }
  for (std::size_t at = 5; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const int index = number_of(text.substr(at, comma - at));
    if (index < 0) refuse(text);
    check_gpu(text, index, count);
    devices.push_back(fmt::format("cuda:{}", index));
    at = comma + 1;
  }
  return devices;
}

std::string device_name(const TrainingOptions& options) {
  return options.device == Device::cuda ? cuda_device_name(options.cuda_device) : "cpu";
}

}  // namespace crosstalk::program
