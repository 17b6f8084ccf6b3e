// Named tensors of one op call, in one guarded arena on any device.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/precision.h"

namespace crosstalk::checks {

/// Tensors of one element type by name. A name that was declared absent gives an empty tensor, an unknown one
/// throws, so that a misspelt name is not an optional argument left out.
template <class T>
class NamedTensors {
 public:
  void add(const std::string& name, int R, const std::vector<int>& dims, Format format = Format::native) {
    Tensor<T>& t = tensors_[name];
    t.R = R;
    t.rank = 0;
    t.format = format;
    for (int d : dims) t.dims[t.rank++] = d;
  }
  void add_absent(const std::string& name) { tensors_[name] = {}; }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  Tensor<T> operator()(const std::string& name) const {
    const auto it = tensors_.find(name);
    if (it == tensors_.end()) throw std::out_of_range("no tensor is named " + name);
    return it->second;
  }
  std::map<std::string, Tensor<T>>& all() { return tensors_; }
  const std::map<std::string, Tensor<T>>& all() const { return tensors_; }

 private:
  std::map<std::string, Tensor<T>> tensors_;
};

/// The tensors of one op: reals of the precision under test, integers, and doubles whatever the precision;
/// and what the backward pass is to do with each gradient. First add, then allocate().
template <class Real>
class TensorSet {
 public:
  explicit TensorSet(Device device = Device::cpu) : device_(device), arena_(device) {}
  TensorSet(const TensorSet&) = delete;

  NamedTensors<Real> reals;
  NamedTensors<std::int32_t> integers;
  NamedTensors<double> doubles;
  std::map<std::string, Write> writes;

  Tensor<Real> real(const std::string& name) const { return reals(name); }
  Tensor<std::int32_t> integer(const std::string& name) const { return integers(name); }
  Tensor<double> precise(const std::string& name) const { return doubles(name); }
  Write write(const std::string& name) const { return writes.at(name); }
  Device device() const { return device_; }

  void allocate() {
    const auto reserve = [this](auto& named) {
      for (auto& [name, t] : named.all())
        if (t.R > 0) arena_.reserve(&t);
    };
    reserve(reals);
    reserve(integers);
    reserve(doubles);
    arena_.allocate();
  }

  /// Memory of this shape that lasts as long as the set: for what an op keeps or works with.
  Tensor<Real> extra(const std::string& name, const Tensor<Real>& shape) {
    Extra& extra = extras_[name];
    if (!extra.arena) {
      extra.tensor = shape;
      extra.arena = std::make_unique<Arena>(device_);
      extra.arena->reserve(&extra.tensor);
      extra.arena->allocate();
    }
    return extra.tensor;
  }

  /// Throws where something was written past the end of a tensor (CPU) or of one replica of it.
  void check_overruns() const {
    arena_.check_guards();
    for (const auto& [name, extra] : extras_) extra.arena->check_guards();
    const auto check = [this](const auto& named) {
      for (const auto& [name, t] : named.all()) {
        for (int r = 0; r < t.R; ++r) {
          const auto used = static_cast<std::size_t>(t.bytes());
          std::vector<unsigned char> padding(static_cast<std::size_t>(t.replica_stride) * sizeof(*t.data) -
                                             used);
          if (padding.empty()) continue;
          copy_to_host(device_, padding.data(), reinterpret_cast<const unsigned char*>(t.at(r)) + used,
                       padding.size());
          if (std::any_of(padding.begin(), padding.end(), [](unsigned char c) { return c != 0xFF; }))
            throw std::logic_error("replica " + std::to_string(r) + " of " + name +
                                   " was written past its end");
        }
      }
    };
    check(reals);
    check(integers);
    check(doubles);
  }

 private:
  struct Extra {
    std::unique_ptr<Arena> arena;
    Tensor<Real> tensor;
  };
  Device device_;
  Arena arena_;
  std::map<std::string, Extra> extras_;
};

inline void copy_to_device(Device device, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (device == Device::cuda)
    cuda_copy_to_device(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

/// Copies one replica from the host, whatever the device and the format.
template <class T, class Source>
void upload(Device device, const Tensor<T>& t, int r, const std::vector<Source>& values) {
  if (static_cast<std::int64_t>(values.size()) != t.size()) throw std::logic_error("upload: sizes differ");
  const auto put = [&](const auto& typed) {
    copy_to_device(device, t.at(r), typed.data(), static_cast<std::size_t>(t.bytes()));
  };
  if (!t.is_bf16()) {
    std::vector<T> typed(values.size());
    std::transform(values.begin(), values.end(), typed.begin(), [](Source x) { return static_cast<T>(x); });
    return put(typed);
  }
  std::vector<std::uint16_t> typed;
  for (const Source x : values) {
    const float number = rounded(Precision::bf16, static_cast<float>(x));
    std::uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    typed.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  put(typed);
}

/// Copies one replica to the host.
template <class T>
std::vector<T> download(Device device, const Tensor<T>& t, int r) {
  std::vector<T> values(static_cast<std::size_t>(t.size()));
  if (values.empty()) return values;
  const auto bytes = static_cast<std::size_t>(t.bytes());
  if (!t.is_bf16()) {
    copy_to_host(device, values.data(), t.at(r), bytes);
    return values;
  }
  std::vector<std::uint16_t> typed(values.size());
  copy_to_host(device, typed.data(), t.at(r), bytes);
  std::transform(typed.begin(), typed.end(), values.begin(), [](std::uint16_t x) {
    const std::uint32_t bits = std::uint32_t{x} << 16;
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return static_cast<T>(number);
  });
  return values;
}

}  // namespace crosstalk::checks
