// Every op on the GPU against the CPU, at shapes that cut the kernels' tiles, warps and buffers in every way,
// on a stream of its own; and a replica's bits in company of 1, 7 and 64. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/base/buffer.h"
#include "kernels/base/cuda_runtime.h"
#include "kernels/base/random.h"
#include "kernels/ops/all.h"
#include "kernels/testing/compare.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk {
namespace {

using checks::close;
using checks::identical;

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

/// A case: makes the tensors of an op's arguments.
template <class Args>
using Build = std::function<void(Fields&, Args&)>;

/// An op call that has run.
template <class Args>
struct Call {
  Call(Device device, int R, const Build<Args>& build, const CudaStream* stream) : fields(device, R) {
    build(fields, args);
    fields.allocate();
    Exec exec;
    exec.device = device;
    if (stream) exec.stream = stream->get();
    run(exec, args);
    if (stream) stream->synchronise();
  }
  Args args;
  Fields fields;  // points into args
};

/// CROSSTALK_FEW_REPLICAS=1: two at most, for tools that make the GPU slow.
bool few_replicas() { return std::getenv("CROSSTALK_FEW_REPLICAS") != nullptr; }

/// scale: how much larger than the results the numbers on the way are.
template <class Real, class Args>
void compare(const Build<Args>& build, double length, double scale) {
  const CudaStream stream;
  const int most = few_replicas() ? 2 : 7;
  const Call<Args> cpu(Device::cpu, most, build, nullptr), gpu(Device::cuda, most, build, &stream);
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
    const Call<Args> other(Device::cuda, R, build, &stream);
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

using CudaOps = checks::CudaTest;

/// Both precisions; `build` is generic in the argument struct. length: terms of the longest sum.
template <template <class> class Op, class F>
void check(double length, double scale, const F& build) {
  {
    SCOPED_TRACE("double");
    compare<double, Op<double>>(build, length, scale);
  }
  {
    SCOPED_TRACE("float");
    compare<float, Op<float>>(build, length, scale);
  }
}

template <class F>
void for_writes(F&& f) {
  for (Write mode : {Write::overwrite, Write::add}) {
    SCOPED_TRACE(mode == Write::add ? "add" : "overwrite");
    f(mode);
  }
}

struct LinearShape {
  int N, I, O;
};
const LinearShape kLinearShapes[] = {
    {1, 1, 1},    {5, 3, 2},      {33, 65, 1},   {70, 64, 64},   {129, 37, 67},  {600, 64, 1}, {1100, 20, 5},
    {2100, 5, 1}, {900, 72, 600}, {32, 968, 64}, {440, 603, 64}, {20, 700, 130}, {64, 2500, 3}};

TEST_F(CudaOps, LinearForward) {
  for (auto [N, I, O] : kLinearShapes) {
    if (few_replicas() && N * I > 50000) continue;
    for (bool bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << N << " " << I << " " << O << (bias ? " with bias" : ""));
      check<LinearForward>(I, 1, [=](Fields& f, auto& a) {
        f.in(a.x, {N, I});
        f.in(a.w, {O, I});
        if (bias) f.in(a.b, {O});
        f.out(a.y, {N, O});
      });
    }
  }
}

TEST_F(CudaOps, LinearBackward) {
  for (auto [N, I, O] : kLinearShapes) {
    if (few_replicas() && N * I > 50000) continue;
    SCOPED_TRACE(testing::Message() << N << " " << I << " " << O);
    for_writes([=](Write mode) {
      check<LinearBackward>(std::max(N, O), 1, [=](Fields& f, auto& a) {
        f.in(a.x, {N, I});
        f.in(a.w, {O, I});
        f.in(a.d_y, {N, O});
        f.out(a.d_x, {N, I});
        f.out(a.d_w, {O, I});
        f.out(a.d_b, {O});
        a.write_x = a.write_w = a.write_b = mode;
      });
    });
  }
  check<LinearBackward>(40, 1,
                        [](Fields& f, auto& a) {  // nothing but d_w is wanted; the others stay as they are
                          f.in(a.x, {40, 8});
                          f.in(a.w, {6, 8});
                          f.in(a.d_y, {40, 6});
                          f.out(a.d_x, {40, 8});
                          f.out(a.d_w, {6, 8});
                          f.out(a.d_b, {6});
                          a.write_w = Write::overwrite;
                        });
}

// Rounded operands are the same on both devices, so the tolerance is that of the sums.
TEST_F(CudaOps, LinearRounded) {
  for (Precision precision : {Precision::tf32, Precision::bf16}) {
    for (auto [N, I, O] : kLinearShapes) {
      if (few_replicas() && N * I > 5000) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(precision) << " " << N << " " << I << " " << O);
      check<LinearForward>(I, 1, [=](Fields& f, auto& a) {
        a.precision = precision;
        f.in(a.x, {N, I});
        f.in(a.w, {O, I});
        f.in(a.b, {O});
        f.out(a.y, {N, O});
      });
      check<LinearBackward>(std::max(N, O), 1, [=](Fields& f, auto& a) {
        a.precision = precision;
        f.in(a.x, {N, I});
        f.in(a.w, {O, I});
        f.in(a.d_y, {N, O});
        f.out(a.d_x, {N, I});
        f.out(a.d_w, {O, I});
        f.out(a.d_b, {O});
        a.write_x = a.write_b = Write::overwrite, a.write_w = Write::add;
      });
    }
  }
}

struct LookupShape {
  int N, D, rows0, rows1;
};
const LookupShape kLookupShapes[] = {{1, 1, 1, 1},      {7, 3, 2, 5},       {640, 64, 20, 44},
                                     {700, 1, 600, 3},  {333, 65, 37, 90},  {1300, 130, 5, 33},
                                     {3000, 2, 700, 1}, {2049, 12, 40, 17}, {32, 300, 9, 50}};

TEST_F(CudaOps, LookupForward) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    for (bool bias : {false, true}) {
      SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1);
      check<LookupForward>(3, 1, [=](Fields& f, auto& a) {
        f.in(a.ids, {N, 2}, -1, std::min(rows0, rows1));
        a.tables = 2;
        f.in(a.table[0], {rows0, D});
        f.in(a.table[1], {rows1, D});
        a.channel[0] = 1;
        a.channel[1] = 0;
        if (bias) f.in(a.bias, {D});
        f.out(a.y, {N, D});
      });
    }
  }
}

TEST_F(CudaOps, LookupBackward) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1);
    for_writes([=](Write mode) {
      check<LookupBackward>(N, 1, [=](Fields& f, auto& a) {
        f.in(a.ids, {N, 3}, -1, rows0);
        a.tables = 2;
        f.out(a.d_table[0], {rows0, D});
        f.out(a.d_table[1], {std::max(rows0, rows1), D});
        a.channel[0] = 2;
        a.channel[1] = 1;
        a.write_table[0] = mode;
        a.write_table[1] = Write::overwrite;
        f.in(a.d_y, {N, D});
        f.out(a.d_bias, {D});
        a.write_bias = mode;
      });
    });
  }
}

// The op takes the shapes of one batch; the memory holds all of them.
template <class Real>
struct BucketCopies {
  BucketIds<Real> all;
};
template <class Real>
BucketIds<Real> of_one_batch(BucketIds<Real> a) {
  for (auto* t : {&a.ids, &a.order}) t->dims[0] /= a.copies;
  a.start.dims[0] /= a.copies;
  return a;
}
template <class Real>
void run_cpu(const Exec& exec, const BucketCopies<Real>& a) {
  run_cpu(exec, of_one_batch(a.all));
}
template <class Real>
void run_cuda(const Exec& exec, const BucketCopies<Real>& a) {
  run_cuda(exec, of_one_batch(a.all));
}

TEST_F(CudaOps, BucketIds) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    for (int copies : {1, 3}) {
      SCOPED_TRACE(testing::Message() << N << " " << rows0 << " " << copies);
      check<BucketCopies>(0, 1, [=](Fields& f, auto& a) {
        f.in(a.all.ids, {copies * N, 3}, -1, rows0);
        a.all.channel = 1;
        a.all.copies = copies;
        f.out(a.all.order, {copies * N});
        f.out(a.all.start, {copies * (rows0 + 1)});
      });
    }
  }
}

// Gradients summed from lists of ids; on the CPU they are searched.
template <class Real>
struct ListedLookupBackward {
  BucketIds<Real> lists[3];
  LookupBackward<Real> sum;
};
template <class Real>
void run_cpu(const Exec& exec, const ListedLookupBackward<Real>& a) {
  run_cpu(exec, a.sum);
}
template <class Real>
void run_cuda(const Exec& exec, ListedLookupBackward<Real> a) {
  for (int i = 0; i < a.sum.tables; ++i) {
    run_cuda(exec, a.lists[i]);
    a.sum.order[i] = a.lists[i].order;
    a.sum.start[i] = a.lists[i].start;
  }
  run_cuda(exec, a.sum);
}

// Three tables, the last of which is the first once more.
TEST_F(CudaOps, LookupBackwardFromLists) {
  for (auto [N, D, rows0, rows1] : kLookupShapes) {
    for (int tables : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << N << " " << D << " " << rows0 << " " << rows1 << " " << tables);
      for_writes([=](Write mode) {
        check<ListedLookupBackward>(N, 1, [=](Fields& f, auto& a) {
          const int rows[3] = {rows0, std::max(rows0, rows1), rows0};
          f.in(a.sum.ids, {N, 3}, -1, rows0);
          f.in(a.sum.d_y, {N, D});
          for (int i = 0; i < tables; ++i) {
            f.work(a.lists[i].order, {N});
            f.work(a.lists[i].start, {rows[i] + 1});
            if (i < 2) f.out(a.sum.d_table[i], {rows[i], D});
            a.lists[i].channel = a.sum.channel[i] = 2 - i;
            a.sum.write_table[i] = i < 2 ? mode : Write::add;
          }
          a.sum.tables = tables;
          f.after([&a] {
            for (auto& lists : a.lists) lists.ids = a.sum.ids;
            a.sum.d_table[2] = a.sum.d_table[0];
          });
        });
      });
    }
  }
}

TEST_F(CudaOps, TableFeatures) {
  struct Shape {
    FeatureMap map;
    int nu, d, norm;
  };
  for (auto [map, nu, d, norm] : {Shape{FeatureMap::dpfp, 1, 64, 0}, Shape{FeatureMap::dpfp, 3, 64, -1},
                                  Shape{FeatureMap::dpfp, 2, 37, 1}, Shape{FeatureMap::elu1, 1, 64, 0},
                                  Shape{FeatureMap::tanh, 1, 64, -1}, Shape{FeatureMap::relu, 1, 33, 1},
                                  Shape{FeatureMap::identity, 1, 20, 1}, Shape{FeatureMap::dpfp, 8, 64, 0},
                                  Shape{FeatureMap::dpfp, 33, 32, 0}, Shape{FeatureMap::dpfp, 2, 128, 1},
                                  Shape{FeatureMap::elu1, 1, 32, 1}, Shape{FeatureMap::relu, 1, 128, 0}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(map) << " " << nu << " " << d << " " << norm);
    const int p = map == FeatureMap::dpfp ? 2 * d * nu : d, N = 701;
    const auto from = [=, map = map, nu = nu, norm = norm, d = d](Fields& f, auto& a) {
      a.keys.map = map, a.keys.nu = nu, a.normalised = norm >= 0,
      a.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum;
      a.eps = 1e-6;
      f.in(a.keys.ids, {N, 2}, 0, 40);
      a.keys.tables = 2;
      f.in(a.keys.table[0], {40, d});
      f.in(a.keys.table[1], {53, d});
      a.keys.channel[0] = 1;
      a.keys.channel[1] = 0;
    };
    check<TableFeaturesForward>(p, 1, [=](Fields& f, auto& a) {
      from(f, a.from);
      f.out(a.y, {N, p});
      if (norm >= 0) {
        f.out(a.inverse, {N});
      } else {
        f.work(a.inverse, {N});
      }
    });
    check<TableFeaturesBackward>(p, 4, [=, d = d](Fields& f, auto& a) {
      from(f, a.from);
      f.in(a.inverse, {N}, 0.1, 1);  // need not be what the forward pass leaves
      f.in(a.d_y, {N, p});
      f.out(a.d_x, {N, d});
    });
  }
}

TEST_F(CudaOps, Adam) {
  for (int P : {1, 3, 64, 2047, 5001}) {
    SCOPED_TRACE(P);
    check<AdamStep>(10, 10, [=](Fields& f, auto& a) {
      f.out(a.parameter, {P});
      f.in(a.gradient, {P});
      f.out(a.m, {P});
      f.out(a.v, {P}, 1e-3, 1);
      f.in(a.learning_rate, {}, 1e-3, 1e-2);
      f.in(a.step, {}, 1, 1000);
    });
  }
}

TEST_F(CudaOps, Pointwise) {
  for (PointMap map : {PointMap::sigmoid, PointMap::affine}) {
    for (int n : {1, 257, 1000}) {
      SCOPED_TRACE(n);
      check<PointwiseForward>(4, 1, [=](Fields& f, auto& a) {
        a.map = map, a.scale = 2, a.shift = map == PointMap::affine ? -0.5 : 0;
        f.in(a.x, {n, 3}, -5, 5);
        f.out(a.y, {n, 3});
      });
      for_writes([=](Write mode) {
        check<PointwiseBackward>(4, 1, [=](Fields& f, auto& a) {
          a.map = map, a.scale = 2, a.write_x = mode;
          f.in(a.y, {n, 3}, 0, 2);
          f.in(a.d_y, {n, 3});
          f.out(a.d_x, {n, 3});
        });
      });
    }
  }
}

TEST_F(CudaOps, EraseRatio) {
  for (int T : {1, 2, 45}) {
    SCOPED_TRACE(T);
    check<EraseRatioForward>(4, 1, [=](Fields& f, auto& a) {
      f.in(a.a, {9, T});
      f.in(a.b, {9, T}, 0.5, 3);
      f.out(a.y, {9, T});
    });
    for_writes([=](Write mode) {
      check<EraseRatioBackward>(4, 1, [=](Fields& f, auto& a) {
        f.in(a.b, {9, T}, 0.5, 3);
        f.in(a.y, {9, T});
        f.in(a.d_y, {9, T});
        f.out(a.d_a, {9, T});
        f.out(a.d_b, {9, T});
        a.write_a = mode, a.write_b = Write::add;
      });
    });
  }
}

TEST_F(CudaOps, RowDivide) {
  for (int D : {1, 31, 200}) {
    SCOPED_TRACE(D);
    check<RowDivideForward>(4, 1, [=](Fields& f, auto& a) {
      a.eps = 1e-5;
      f.in(a.a, {21, D});
      f.in(a.b, {21}, 0.5, 3);
      f.out(a.y, {21, D});
    });
    for_writes([=](Write mode) {
      check<RowDivideBackward>(D, 2, [=](Fields& f, auto& a) {
        a.eps = 1e-5, a.write_a = mode, a.write_b = mode;
        f.in(a.b, {21}, 0.5, 3);
        f.in(a.y, {21, D});
        f.in(a.d_y, {21, D});
        f.out(a.d_a, {21, D});
        f.out(a.d_b, {21});
      });
    });
  }
}

TEST_F(CudaOps, Normalize) {
  for (RowNorm norm : {RowNorm::sum, RowNorm::l2, RowNorm::layer}) {
    for (int D : {1, 5, 64, 130, 300, 600}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(norm) << " " << D);
      check<NormalizeForward>(D, 2, [=](Fields& f, auto& a) {
        a.norm = norm, a.eps = 1e-2;
        f.in(a.x, {19, D}, norm == RowNorm::layer ? -1 : 0.1, 1);
        f.out(a.y, {19, D});
        f.out(a.inverse, {19});
      });
      for_writes([=](Write mode) {
        check<NormalizeBackward>(D, 4, [=](Fields& f, auto& a) {
          a.norm = norm, a.write_x = mode;
          f.in(a.y, {19, D});
          f.in(a.inverse, {19});
          f.in(a.d_y, {19, D});
          f.out(a.d_x, {19, D});
        });
      });
    }
  }
}

TEST_F(CudaOps, FeatureMap) {
  struct Shape {
    FeatureMap map;
    int d, nu, m, p;
  };
  const Shape shapes[] = {{FeatureMap::identity, 5, 1, 0, 5},
                          {FeatureMap::elu1, 64, 1, 0, 64},
                          {FeatureMap::relu, 33, 1, 0, 33},
                          {FeatureMap::tanh, 40, 1, 0, 40},
                          {FeatureMap::dpfp, 1, 1, 0, 2},
                          {FeatureMap::dpfp, 3, 7, 0, 42},
                          {FeatureMap::dpfp, 64, 3, 0, 384},
                          {FeatureMap::favor_hyperbolic, 5, 1, 3, 6},
                          {FeatureMap::favor_positive, 17, 1, 9, 9},
                          {FeatureMap::favor_hyperbolic, 64, 1, 128, 256},
                          {FeatureMap::favor_hyperbolic, 64, 1, 512, 1024},
                          {FeatureMap::favor_positive, 64, 1, 70, 70}};
  for (const Shape& s : shapes) {
    for (int N : {1, 32, 77, 200}) {
      if (few_replicas() && N > 77) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(s.map) << " " << s.d << " " << s.p << " " << N);
      check<FeatureMapForward>(s.d, 2, [=](Fields& f, auto& a) {
        a.map = s.map, a.nu = s.nu;
        f.in(a.x, {N, s.d});
        if (s.m > 0) f.in(a.omega, {s.m, s.d});
        f.out(a.y, {N, s.p});
      });
      for_writes([=](Write mode) {
        check<FeatureMapBackward>(2 * s.nu + 2 * s.m, 2, [=](Fields& f, auto& a) {
          a.map = s.map, a.nu = s.nu, a.write_x = mode;
          f.in(a.x, {N, s.d});
          if (s.m > 0) f.in(a.omega, {s.m, s.d});
          f.in(a.y, {N, s.p}, 0, 1);
          f.in(a.d_y, {N, s.p});
          f.out(a.d_x, {N, s.d});
        });
      });
    }
  }
}

TEST_F(CudaOps, FavorFeatures) {
  for (auto [m, d] : {std::pair{1, 1}, {7, 3}, {64, 64}, {130, 64}, {20, 37}, {128, 128}, {40, 200}}) {
    SCOPED_TRACE(testing::Message() << m << " " << d);
    if (few_replicas() && d > 64) continue;
    // Rounding grows by the condition of the drawn matrices, typically a few d.
    check<FavorFeatures>(d, 20 * d, [m = m, d = d](Fields& f, auto& a) {
      f.in(a.seed, {2}, -1e9, 1e9);
      f.in(a.draw, {1}, 0, 1000);
      a.purpose = 3;
      f.work(a.workspace, {d, d});
      f.out(a.omega, {m, d});
    });
  }
}

struct ReadShape {
  int B, T, P, Q;
};
const ReadShape kReadShapes[] = {{1, 1, 1, 1},    {3, 1, 5, 4},    {2, 9, 33, 1},   {3, 40, 64, 1},
                                 {2, 23, 128, 1}, {2, 23, 100, 3}, {2, 67, 64, 70}, {1, 12, 300, 2},
                                 {2, 10, 700, 1}, {1, 6, 1500, 2}, {2, 70, 256, 1}, {2, 5, 512, 2}};

TEST_F(CudaOps, Scores) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q);
    check<ScoresForward>(P, 1, [=](Fields& f, auto& a) {
      a.scale = 0.7;
      f.in(a.k, {B, T, P});
      f.in(a.q, {B, Q, P});
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.a, {B, Q, T});
    });
    for_writes([=](Write mode) {
      check<ScoresBackward>(std::max(T, Q), 1, [=](Fields& f, auto& a) {
        a.scale = 0.7, a.write_k = a.write_q = mode;
        f.in(a.k, {B, T, P});
        f.in(a.q, {B, Q, P});
        f.in(a.position, {B, Q}, 0, T + 1);
        f.in(a.d_a, {B, Q, T});
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, Q, P});
      });
    });
  }
}

TEST_F(CudaOps, Softmax) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << Q);
    check<SoftmaxForward>(T, 1, [=](Fields& f, auto& a) {
      f.in(a.x, {B, Q, T}, -8, 8);
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.y, {B, Q, T});
    });
    for_writes([=](Write mode) {
      check<SoftmaxBackward>(T, 1, [=](Fields& f, auto& a) {
        a.write_x = mode;
        f.in(a.y, {B, Q, T}, 0, 1);
        f.in(a.d_y, {B, Q, T});
        f.out(a.d_x, {B, Q, T});
      });
    });
  }
}

TEST_F(CudaOps, PrefixDot) {
  for (auto [B, T, P, Q] : kReadShapes) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q);
    check<PrefixDotForward>(T + P, 2, [=](Fields& f, auto& a) {
      f.in(a.k, {B, T, P});
      f.in(a.q, {B, Q, P});
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.zk, {B, T});
      f.out(a.zq, {B, Q});
    });
    for_writes([=](Write mode) {
      check<PrefixDotBackward>(2 * T + Q, 2, [=](Fields& f, auto& a) {
        a.write_k = a.write_q = mode;
        f.in(a.k, {B, T, P});
        f.in(a.q, {B, Q, P});
        f.in(a.d_zk, {B, T});
        f.in(a.d_zq, {B, Q});
        f.in(a.position, {B, Q}, 0, T + 1);
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, Q, P});
      });
    });
  }
}

// Keys about as long as 1, so that erasing does not grow what is kept.
double unit(int P) { return std::sqrt(3.0 / P); }

// The same with a trail instead of the history.
TEST_F(CudaOps, RecurrentReadByTrail) {
  for (auto [B, T, P] : {std::array{1, 1, 1},
                         {3, 5, 4},
                         {4, 33, 20},
                         {2, 200, 128},
                         {3, 47, 64},
                         {2, 61, 132},
                         {2, 50, 256},
                         {2, 37, 400},
                         {2, 21, 700}}) {
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P);
    const int columns = P + (T + 3) / 4 * 4;
    const auto inputs = [=, B = B, T = T, P = P](Fields& f, auto& a) {
      f.in(a.k, {B, T, P}, -unit(P), unit(P));
      f.in(a.q, {B, 1, P});
      f.in(a.write, {B, T}, 0, 1);
      f.in(a.erase, {B, T}, 0, 1);
      f.in(a.position, {B, 1}, 0, T + 1);
    };
    check<RecurrentReadForward>(T + P, 4, [=, B = B, T = T](Fields& f, auto& a) {
      inputs(f, a);
      f.out(a.a, {B, 1, T});
      f.work(a.trail, {B, columns});
    });
    for_writes([=, B = B, T = T, P = P](Write mode) {
      check<RecurrentReadBackward>(T + P, 8, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.in(a.trail, {B, columns});
        f.in(a.d_a, {B, 1, T});
        f.out(a.d_k, {B, T, P});
        f.out(a.d_q, {B, 1, P});
        f.out(a.d_write, {B, T});
        f.out(a.d_erase, {B, T});
        a.write_k = a.write_q = a.write_write = a.write_erase = mode;
      });
    });
  }
}

// The same with keys made from tables. Forward and backward pass in one call, since the trail belongs to
// both.
template <class Real>
struct TableRecurrence {
  TableRecurrenceForward<Real> forward;
  TableRecurrenceBackward<Real> backward;
};
template <class Real>
void complete(TableRecurrence<Real>& a) {
  a.backward.from = a.forward.from;
  auto &from = a.forward.read, &to = a.backward.read;
  to.q = from.q, to.write = from.write, to.erase = from.erase;
  to.position = from.position, to.trail = from.trail;
}
template <class Real>
void run_cpu(const Exec& exec, const TableRecurrence<Real>& a) {
  run_cpu(exec, a.forward);
  run_cpu(exec, a.backward);
}
template <class Real>
void run_cuda(const Exec& exec, const TableRecurrence<Real>& a) {
  run_cuda(exec, a.forward);
  run_cuda(exec, a.backward);
}

TEST_F(CudaOps, TableRecurrence) {
  struct Shape {
    FeatureMap map;
    int nu, norm, B, T, tables;
  };
  for (auto [map, nu, norm, B, T, tables] :
       {Shape{FeatureMap::dpfp, 1, 0, 3, 200, 2}, Shape{FeatureMap::dpfp, 2, 0, 2, 83, 2},
        Shape{FeatureMap::dpfp, 2, 1, 2, 33, 3}, Shape{FeatureMap::dpfp, 1, 1, 4, 16, 1},
        Shape{FeatureMap::dpfp, 1, -1, 2, 50, 2}, Shape{FeatureMap::elu1, 1, 0, 3, 100, 2},
        Shape{FeatureMap::relu, 1, 1, 2, 47, 3}, Shape{FeatureMap::identity, 1, 1, 2, 65, 2},
        Shape{FeatureMap::tanh, 1, 1, 5, 1, 2}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(map) << " " << nu << " " << norm << " " << B << " "
                                    << T << " " << tables);
    const int d = 64, p = map == FeatureMap::dpfp ? 2 * d * nu : d, columns = p + (T + 3) / 4 * 4;
    const double size = norm < 0 ? 0.3 : 1;  // keys about as long as 1 even if not normalised
    for_writes([=, map = map, nu = nu, norm = norm, B = B, T = T, tables = tables](Write mode) {
      check<TableRecurrence>(T + p, 8, [=](Fields& f, auto& a) {
        auto& keys = a.forward.from.keys;
        keys.map = map, keys.nu = nu, a.forward.from.normalised = norm >= 0,
        a.forward.from.norm = norm == 1 ? RowNorm::l2 : RowNorm::sum;
        a.forward.from.eps = 1e-6;
        f.in(keys.ids, {B, T, 3}, norm == 0 ? 0 : -1, 40);
        keys.tables = tables;
        for (int i = 0; i < tables; ++i) {
          f.in(keys.table[i], {40 + i, d}, -size, size);
          keys.channel[i] = 2 - i;
        }
        auto &read = a.forward.read, &back = a.backward.read;
        f.in(read.q, {B, 1, p});
        f.in(read.write, {B, T}, 0, 1);
        f.in(read.erase, {B, T}, 0, 1);
        f.in(read.position, {B, 1}, 0, T + 1);
        f.out(read.a, {B, 1, T});
        f.work(read.trail, {B, columns});
        f.in(back.d_a, {B, 1, T});
        f.out(a.backward.d_x, {B, T, d});
        f.out(back.d_q, {B, 1, p});
        f.out(back.d_write, {B, T});
        f.out(back.d_erase, {B, T});
        back.write_q = back.write_write = back.write_erase = mode;
        f.after([&a] { complete(a); });
      });
    });
  }
}

TEST_F(CudaOps, RecurrentRead) {
  for (auto [B, T, P, Q] : kReadShapes) {
    for (int gates = 0; gates < 8; gates += gates == 0 ? 1 : 2) {  // none, write, write+erase, ..., all
      SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << ", gates " << gates);
      const auto inputs = [=](Fields& f, auto& a) {
        f.in(a.k, {B, T, P}, -unit(P), unit(P));
        f.in(a.q, {B, Q, P});
        if (gates & 1) f.in(a.write, {B, T}, 0, 1);
        if (gates & 2) f.in(a.erase, {B, T}, 0, 1);
        if (gates & 4) f.in(a.decay, {B, T}, 0.9, 1);
        f.in(a.position, {B, Q}, 0, T + 1);
      };
      check<RecurrentReadForward>(T + P, 4, [=](Fields& f, auto& a) {
        inputs(f, a);
        f.out(a.a, {B, Q, T});
        if (Q == 1) {
          f.out(a.history, {B, T, P});
        } else {
          f.work(a.history, {B, T, P});
        }
      });
      for_writes([=](Write mode) {
        check<RecurrentReadBackward>(T + P + Q, 8, [=](Fields& f, auto& a) {
          inputs(f, a);
          if (Q == 1) {
            f.in(a.history, {B, T, P});
          } else {
            f.work(a.history, {B, T, P});
          }
          f.in(a.d_a, {B, Q, T});
          f.out(a.d_k, {B, T, P});
          f.out(a.d_q, {B, Q, P});
          a.write_k = a.write_q = mode;
          if (gates & 1) f.out(a.d_write, {B, T}), a.write_write = mode;
          if (gates & 2) f.out(a.d_erase, {B, T}), a.write_erase = mode;
          if (gates & 4) f.out(a.d_decay, {B, T}), a.write_decay = mode;
        });
      });
    }
  }
}

struct FwmShape {
  int B, T, P, Q, V;
  double size = 1;  // of the keys
};
// One query with whole fours of up to 128 columns goes chunk by chunk in single precision. Of the first eight
// shapes the last three do not fit in shared memory (in double precision: the last four).
const FwmShape kFwmShapes[] = {
    {1, 1, 1, 1, 1},        {2, 7, 5, 3, 3},         {1, 9, 130, 2, 50},       {1, 5, 300, 1, 9},
    {1, 10, 100, 2, 301},   {1, 1, 128, 1, 600},     {1, 2, 128, 1, 600},      {1, 7, 128, 3, 601},
    {2, 20, 64, 1, 21},     {2, 1, 4, 1, 1},         {3, 16, 8, 1, 2, 1.5},    {5, 40, 12, 1, 17, 0.1},
    {3, 49, 64, 1, 100, 2}, {2, 33, 60, 1, 113, 4},  {2, 50, 128, 1, 112, 2},  {1, 37, 100, 1, 201, 0.2},
    {1, 48, 68, 1, 256, 2}, {2, 49, 64, 1, 100, 12}, {2, 50, 128, 1, 112, 60}, {2, 33, 64, 1, 30, 300}};

TEST_F(CudaOps, FwmForward) {
  for (auto [B, T, P, Q, V, size] : kFwmShapes) {
    const double key = size * unit(P);
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << " " << V << " " << size);
    check<FwmReadForward>(T + P, 8, [=](Fields& f, auto& a) {
      f.in(a.k, {B, T, P}, -key, key);
      f.in(a.q, {B, Q, P});
      f.in(a.beta, {B, T}, 0, 1);
      f.in(a.tokens, {B, T, 2}, -1, V);
      f.in(a.position, {B, Q}, 0, T + 1);
      f.out(a.y, {B, Q, V});
      f.work(a.checkpoints, {B, fwm_states<float>(T, Q, P, V), V * P});
      f.work(a.kept, {B, T, fwm_kept<float>(Q, P, V)});
    });
  }
}

// The checkpoints come from a forward pass on the CPU of the same sequences.
template <class Real>
struct FwmBoth {
  FwmReadForward<Real> forward;
  FwmReadBackward<Real> backward;
};

template <class Real>
void run_cpu(const Exec& exec, const FwmBoth<Real>& a) {
  run_cpu(exec, a.forward);
  FwmReadBackward<Real> backward = a.backward;
  backward.k = a.forward.k, backward.q = a.forward.q, backward.beta = a.forward.beta;
  backward.tokens = a.forward.tokens, backward.position = a.forward.position;
  backward.checkpoints = a.forward.checkpoints, backward.kept = a.forward.kept;
  run_cpu(exec, backward);
}

template <class Real>
void run_cuda(const Exec& exec, const FwmBoth<Real>& a) {
  run_cuda(exec, a.forward);
  FwmReadBackward<Real> backward = a.backward;
  backward.k = a.forward.k, backward.q = a.forward.q, backward.beta = a.forward.beta;
  backward.tokens = a.forward.tokens, backward.position = a.forward.position;
  backward.checkpoints = a.forward.checkpoints, backward.kept = a.forward.kept;
  run_cuda(exec, backward);
}

TEST_F(CudaOps, FwmBackward) {
  for (auto [B, T, P, Q, V, size] : kFwmShapes) {
    const double key = size * unit(P);
    SCOPED_TRACE(testing::Message() << B << " " << T << " " << P << " " << Q << " " << V << " " << size);
    for_writes([=](Write mode) {
      check<FwmBoth>(T + P + V, 16, [=](Fields& f, auto& both) {
        auto& a = both.forward;
        f.in(a.k, {B, T, P}, -key, key);
        f.in(a.q, {B, Q, P});
        f.in(a.beta, {B, T}, 0, 1);
        f.in(a.tokens, {B, T, 2}, -1, V);
        f.in(a.position, {B, Q}, 0, T + 1);
        f.work(a.y, {B, Q, V});
        f.work(a.checkpoints, {B, fwm_states<float>(T, Q, P, V), V * P});
        f.work(a.kept, {B, T, fwm_kept<float>(Q, P, V)});
        auto& b = both.backward;
        f.work(b.workspace, {B, kFwmSegment + 2, V * P});
        f.in(b.d_y, {B, Q, V});
        f.out(b.d_k, {B, T, P});
        f.out(b.d_q, {B, Q, P});
        f.out(b.d_beta, {B, T});
        b.write_k = b.write_q = b.write_beta = mode;
      });
    });
  }
}

TEST_F(CudaOps, GatherValues) {
  struct Shape {
    int B, Q, T, V;
  };
  for (auto [B, Q, T, V] : {Shape{1, 1, 1, 1},
                            {3, 2, 40, 7},
                            {2, 5, 100, 90},
                            {2, 1, 65, 1},
                            {1, 3, 50, 1500},
                            {2, 1, 700, 5},
                            {1, 2, 600, 5000}}) {
    SCOPED_TRACE(testing::Message() << B << " " << Q << " " << T << " " << V);
    check<GatherValuesForward>(T, 1, [=](Fields& f, auto& a) {
      f.in(a.a, {B, Q, T});
      f.in(a.tokens, {B, T, 3}, -1, V);
      f.out(a.y, {B, Q, V});
    });
    check<GatherValuesForward>(T, 1, [=](Fields& f, auto& a) {  // weights divided by their sum
      a.eps = 1e-6;
      f.in(a.a, {B, Q, T}, 0.1, 1);
      f.in(a.tokens, {B, T, 3}, -1, V);
      f.out(a.y, {B, Q, V});
      f.out(a.w, {B, Q, T});
      f.out(a.inverse, {B, Q});
    });
    for_writes([=](Write mode) {
      check<GatherValuesBackward>(T, 1, [=](Fields& f, auto& a) {
        a.write_a = mode;
        f.in(a.d_y, {B, Q, V});
        f.in(a.w, {B, Q, T});
        f.in(a.inverse, {B, Q});
        f.in(a.tokens, {B, T, 3}, -1, V);
        f.out(a.d_a, {B, Q, T});
      });
    });
    for_writes([=](Write mode) {
      check<GatherValuesBackward>(1, 1, [=](Fields& f, auto& a) {
        a.write_a = mode;
        f.in(a.d_y, {B, Q, V});
        f.in(a.tokens, {B, T, 3}, -1, V);
        f.out(a.d_a, {B, Q, T});
      });
    });
  }
}

TEST_F(CudaOps, SquaredLoss) {
  for (auto [B, Q, V] : {std::tuple{1, 1, 1}, {1, 2, 600}, {5, 3, 33}, {32, 1, 100}, {20, 30, 17}}) {
    SCOPED_TRACE(testing::Message() << B << " " << Q << " " << V);
    check<SquaredLossForward>(V + B * Q, 1, [B = B, Q = Q, V = V](Fields& f, auto& a) {
      f.in(a.y, {B, Q, V});
      f.in(a.target, {B, Q}, -1, V);
      f.out(a.query_loss, {B, Q});
      f.out(a.correct, {B, Q});
      f.out(a.loss, {});
    });
    check<SquaredLossForward>(V + B * Q, 1, [B = B, Q = Q, V = V](Fields& f, auto& a) {
      f.in(a.y, {B, Q, V});
      f.in(a.target, {B, Q}, -1, V);
      f.out(a.query_loss, {B, Q});
      f.out(a.correct, {B, Q});
      f.out(a.loss, {});
      f.out(a.d_y, {B, Q, V});
    });
    for_writes([B = B, Q = Q, V = V](Write mode) {
      check<SquaredLossBackward>(1, 1, [=](Fields& f, auto& a) {
        a.write_y = mode;
        f.in(a.y, {B, Q, V});
        f.in(a.target, {B, Q}, -1, V);
        f.out(a.d_y, {B, Q, V});
      });
    });
  }
}

TEST_F(CudaOps, ErrorsNameTheOp) {
  Fields fields(Device::cuda, 1);
  RecurrentReadForward<float> a;
  fields.in(a.k, {1, 2, 5000});
  fields.in(a.q, {1, 1, 5000});
  fields.in(a.position, {1, 1}, 0, 3);
  fields.out(a.a, {1, 1, 2});
  fields.allocate();
  Exec exec;
  exec.device = Device::cuda;
  try {
    run(exec, a);
    FAIL() << "5000 dimensions were taken";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("recurrent read"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("5000"), std::string::npos) << error.what();
  }
}

// A captured step gives what the same ops give one by one, as often as it is launched.
TEST_F(CudaOps, GraphsRepeatOps) {
  const Build<AdamStep<float>> build = [](Fields& f, AdamStep<float>& a) {
    f.out(a.parameter, {100});
    f.in(a.gradient, {100});
    f.out(a.m, {100});
    f.out(a.v, {100}, 1e-3, 1);
    f.in(a.learning_rate, {}, 1e-3, 1e-2);
    f.in(a.step, {}, 5, 6);
  };
  const CudaStream stream;
  Exec exec;
  exec.device = Device::cuda;
  exec.stream = stream.get();
  Fields one(Device::cuda, 2), two(Device::cuda, 2);
  AdamStep<float> a, b;
  build(one, a);
  build(two, b);
  one.allocate();
  two.allocate();
  for (int i = 0; i < 6; ++i) run(exec, a);
  CudaGraph graph;
  EXPECT_FALSE(graph);
  graph.begin(stream);
  run(exec, b);
  run(exec, b);
  graph.end();
  EXPECT_TRUE(graph);
  EXPECT_EQ(graph.nodes(), 2u);
  CudaEvent before, after;
  before.record(stream);
  for (int i = 0; i < 3; ++i) graph.launch(stream);
  after.record(stream);
  stream.synchronise();
  EXPECT_TRUE(stream.idle());
  EXPECT_GT(after.seconds_since(before), 0);
  EXPECT_EQ(one.results(1), two.results(1));  // no NaN: v starts positive
}

TEST_F(CudaOps, RuntimeCopies) {
  EXPECT_FALSE(cuda_device_name(0).empty());
  const CudaMemory memory = cuda_memory();
  EXPECT_GT(memory.free, 0u);
  EXPECT_GE(memory.total, memory.free);
  const CudaStream stream;
  Buffer device(Device::cuda, 4000), other(Device::cuda, 4000);
  auto* pinned = static_cast<int*>(cuda_allocate_pinned(4000));
  ASSERT_NE(pinned, nullptr);
  for (int i = 0; i < 1000; ++i) pinned[i] = i;
  stream.copy_to_device(device.data(), pinned, 4000);
  stream.copy_on_device(other.data(), device.data(), 4000);
  stream.fill_zero(other.data(), 400);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) pinned[i] = -1;
  stream.copy_to_host(pinned, other.data(), 4000);
  stream.synchronise();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(pinned[i], i < 100 ? 0 : i);
  cuda_free_pinned(pinned);
}

}  // namespace
}  // namespace crosstalk
