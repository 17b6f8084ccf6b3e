// An op on the GPU against the CPU: arguments made the same on both devices, results compared; and a
// replica's bits in company of 1, 7 and 64. For the kernels' GPU tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/all.h"
#include "kernels/base/buffer.h"
#include "kernels/base/random.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks {

/// The tensors of one op call, on one device. Data is a function of (tensor, replica) alone.
class Fields {
 public:
  Fields(Device device, int R) : device_(device), R_(R), arena_(device) {}
  /// Input, uniform in [low, high).
  template <class T>
  void in(Tensor<T>& t, std::initializer_list<int> dims, double low = -1, double high = 1) {
    add(t, dims, low, high, false);
  }
  /// Result. Holds numbers before the call as well, so that Write::add shows.
  template <class T>
  void out(Tensor<T>& t, std::initializer_list<int> dims, double low = -1, double high = 1) {
    add(t, dims, low, high, true);
  }
  /// Not filled, not compared.
  template <class T>
  void work(Tensor<T>& t, std::initializer_list<int> dims) {
    t = shaped<T>(R_, dims);
    arena_.reserve(&t);
  }
  /// Runs once there is memory: for tensors that share it.
  void after(std::function<void()> f) { after_ = std::move(f); }
  void allocate() {
    arena_.allocate();
    for (const auto& fill : fills_) fill();
    if (after_) after_();
  }
  /// Results of replica r, one vector a tensor, as doubles; fails where the padding behind them was written.
  std::vector<std::vector<double>> results(int r) const {
    std::vector<std::vector<double>> all;
    for (const auto& read : reads_) all.push_back(read(r));
    return all;
  }

 private:
  template <class T>
  void add(Tensor<T>& t, std::initializer_list<int> dims, double low, double high, bool result) {
    t = shaped<T>(R_, dims);
    arena_.reserve(&t);
    const auto name = static_cast<std::uint32_t>(fills_.size());
    fills_.push_back([this, &t, low, high, name] {
      std::vector<T> host(static_cast<std::size_t>(t.size()));
      for (int r = 0; r < R_; ++r) {
        RandomStream random(17, RandomDomain::initialisation, name, static_cast<std::uint32_t>(r));
        for (T& x : host) {
          const double value = low + (high - low) * random.uniform();
          x = static_cast<T>(std::is_integral_v<T> ? std::floor(value) : value);
        }
        if (host.empty()) continue;
        if (device_ == Device::cuda) {
          cuda_copy_to_device(t.at(r), host.data(), host.size() * sizeof(T));
        } else {
          std::memcpy(t.at(r), host.data(), host.size() * sizeof(T));
        }
      }
    });
    if (!result) return;
    reads_.push_back([this, &t](int r) {
      std::vector<T> host(static_cast<std::size_t>(t.replica_stride));
      if (host.empty()) return std::vector<double>();
      if (device_ == Device::cuda) {
        cuda_copy_to_host(host.data(), t.at(r), host.size() * sizeof(T));
      } else {
        std::memcpy(host.data(), t.at(r), host.size() * sizeof(T));
      }
      const auto* bytes = reinterpret_cast<const unsigned char*>(host.data());
      for (std::size_t i = static_cast<std::size_t>(t.size()) * sizeof(T); i < host.size() * sizeof(T); ++i) {
        EXPECT_EQ(bytes[i], 0xFF) << "written past the end of replica " << r;
      }
      return std::vector<double>(host.begin(), host.begin() + static_cast<std::ptrdiff_t>(t.size()));
    });
  }

  Device device_;
  int R_;
  Arena arena_;
  std::vector<std::function<void()>> fills_;
  std::function<void()> after_;
  std::vector<std::function<std::vector<double>(int)>> reads_;
};

/// Which pass of an op of one struct (kernels/base/op.h).
enum class Pass { forward, backward };

template <class Args>
void run_pass(const Exec& exec, const Args& args, Pass pass) {
  if constexpr (!requires { Args::kName; }) {
    run(exec, args);
  } else if (pass == Pass::backward) {
    backward(exec, args);
  } else {
    forward(exec, args);
  }
}

/// A case: makes the tensors of an op's arguments.
template <class Args>
using Build = std::function<void(Fields&, Args&)>;

/// An op call that has run.
template <class Args>
struct Call {
  Call(Device device, int R, const Build<Args>& build, const CudaStream* stream, Pass pass)
      : fields(device, R) {
    build(fields, args);
    fields.allocate();
    Exec exec;
    exec.device = device;
    if (stream) exec.stream = stream->get();
    run_pass(exec, args, pass);
    if (stream) stream->synchronise();
  }
  Args args;
  Fields fields;  // points into args
};

/// CROSSTALK_FEW_REPLICAS=1: two at most, for tools that make the GPU slow.
inline bool few_replicas() { return std::getenv("CROSSTALK_FEW_REPLICAS") != nullptr; }

/// scale: how much larger than the results the numbers on the way are.
template <class Real, class Args>
void compare(const Build<Args>& build, double length, double scale, Pass pass) {
  const CudaStream stream;
  const int most = few_replicas() ? 2 : 7;
  const Call<Args> cpu(Device::cpu, most, build, nullptr, pass),
      gpu(Device::cuda, most, build, &stream, pass);
  for (int r = 0; r < most; ++r) {
    const auto want = cpu.fields.results(r), got = gpu.fields.results(r);
    ASSERT_FALSE(want.empty());
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto n = static_cast<std::int64_t>(want[i].size());
      const double size = scale * std::max(1.0, checks::magnitude(want[i].data(), n));
      const double eps = std::is_same_v<Real, double>
                             ? 1e-12 / 64
                             : static_cast<double>(std::numeric_limits<float>::epsilon());
      EXPECT_TRUE(close("result " + std::to_string(i) + ", replica " + std::to_string(r), got[i].data(),
                        want[i].data(), n, 4 * eps * (4 + std::sqrt(length)) * size));
    }
  }
  for (int R : {1, 64}) {
    if (R > 1 && few_replicas()) break;
    const Call<Args> other(Device::cuda, R, build, &stream, pass);
    for (int r = 0; r < std::min(R, most); ++r) {
      const auto want = gpu.fields.results(r), got = other.fields.results(r);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_TRUE(identical("result " + std::to_string(i) + " of replica " + std::to_string(r) +
                                  ", alone or with " + std::to_string(R - 1),
                              got[i].data(), want[i].data(), static_cast<std::int64_t>(want[i].size())));
      }
    }
  }
}

/// Both precisions; `build` is generic in the argument struct. length: terms of the longest sum.
template <template <class> class Op, class F>
void check(double length, double scale, const F& build, Pass pass = Pass::forward) {
  {
    SCOPED_TRACE("double");
    compare<double, Op<double>>(build, length, scale, pass);
  }
  {
    SCOPED_TRACE("float");
    compare<float, Op<float>>(build, length, scale, pass);
  }
}
/// The backward pass; `build` gives what the forward pass left as well.
template <template <class> class Op, class F>
void check_backward(double length, double scale, const F& build) {
  check<Op>(length, scale, build, Pass::backward);
}

template <class F>
void for_writes(F&& f) {
  for (Write mode : {Write::overwrite, Write::add}) {
    SCOPED_TRACE(mode == Write::add ? "add" : "overwrite");
    f(mode);
  }
}

/// Keys about as long as 1, so that erasing does not grow what is kept.
inline double unit(int P) { return std::sqrt(3.0 / P); }

/// Shapes of a read.
struct ReadShape {
  int B, T, P, Q;
};
inline const ReadShape kReadShapes[] = {{1, 1, 1, 1},    {3, 1, 5, 4},    {2, 9, 33, 1},   {3, 40, 64, 1},
                                        {2, 23, 128, 1}, {2, 23, 100, 3}, {2, 67, 64, 70}, {1, 12, 300, 2},
                                        {2, 10, 700, 1}, {1, 6, 1500, 2}, {2, 70, 256, 1}, {2, 5, 512, 2}};

}  // namespace crosstalk::checks
