// A gated MLP on a GPU against sums in double precision of operands that are rounded as products round them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear/swiglu.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/base/normal.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"
#include "kernels/testing/shared_limit.h"

namespace crosstalk::checks::swiglu_test {
namespace {

struct Sizes {
  int N, W, H;
  bool in_bf16 = true;  ///< x, its gradient and that of y
};
const std::vector<std::pair<std::string, std::vector<int>>> inputs(const Sizes& s) {
  return {{"x", {s.N, s.W}}, {"gate", {s.H, s.W}}, {"up", {s.H, s.W}}, {"down", {s.W, s.H}}};
}

double bf16(double x) { return rounded(Precision::bf16, x); }

/// c (+)= a b of matrices n x k and k x m, each maybe turned.
Numbers product(const Numbers& a, const Numbers& b, int n, int k, int m, bool turned_a, bool turned_b) {
  Numbers c(static_cast<std::size_t>(n * m));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < m; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l)
        sum += bf16(a[turned_a ? l * n + i : i * k + l]) * bf16(b[turned_b ? j * k + l : l * m + j]);
      c[i * m + j] = sum;
    }
  }
  return c;
}

/// y and all gradients of one replica.
std::map<std::string, Numbers> oracle(const Sizes& s, const std::map<std::string, Numbers>& in) {
  std::map<std::string, Numbers> out;
  const Numbers &x = in.at("x"), &d_y = in.at("d_y");
  Numbers g = product(x, in.at("gate"), s.N, s.W, s.H, false, true),
          u = product(x, in.at("up"), s.N, s.W, s.H, false, true),
          d_h = product(d_y, in.at("down"), s.N, s.W, s.H, false, false), h = g;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double silu = mapped(MapKind::silu, g[i]), v = u[i];
    h[i] = silu * v, u[i] = d_h[i] * silu, g[i] = d_h[i] * v * map_slope(MapKind::silu, g[i]);
  }
  out["y"] = product(h, in.at("down"), s.N, s.H, s.W, false, true);
  out["d_gate"] = product(g, x, s.H, s.N, s.W, true, false);
  out["d_up"] = product(u, x, s.H, s.N, s.W, true, false);
  out["d_down"] = product(d_y, h, s.W, s.N, s.H, true, false);
  out["d_x"] = product(g, in.at("gate"), s.N, s.H, s.W, false, false);
  const Numbers by_up = product(u, in.at("up"), s.N, s.H, s.W, false, false);
  for (std::size_t i = 0; i < by_up.size(); ++i) out["d_x"][i] += by_up[i];
  return out;
}

std::map<std::string, Numbers> drawn(const Sizes& s, int r) {
  std::map<std::string, Numbers> in;
  RandomStream random(5, RandomDomain::initialisation, static_cast<std::uint32_t>(r));
  const auto draw = [&](const std::string& name, int n, double size) {
    for (int i = 0; i < n; ++i) {
      const double x = size * normal_from_uniform(random.uniform());
      in[name].push_back(s.in_bf16 && (name == "x" || name == "d_y") ? bf16(x) : x);
    }
  };
  for (const auto& [name, dims] : inputs(s))
    draw(name, dims[0] * dims[1], name == "x" ? 1.0 : 2 / std::sqrt(dims[1]));
  draw("d_y", s.N * s.W, 1);
  return in;
}

/// Results of replicas [first, first + R) on the GPU, one map each. `times`: how often gradients are made, added from the
/// second time on.
std::vector<std::map<std::string, Numbers>> run(const Sizes& s, int first, int R, int times = 1) {
  TensorSet<float> set(Device::cuda);
  const auto format = [&](const std::string& name) {
    return s.in_bf16 && (name == "x" || name == "d_x" || name == "d_y") ? Format::bf16 : Format::native;
  };
  for (const auto& [name, dims] : inputs(s)) {
    set.reals.add(name, R, dims, format(name)), set.reals.add("d_" + name, R, dims, format("d_" + name));
    set.writes[name] = Write::overwrite;
  }
  set.reals.add("y", R, {s.N, s.W}), set.reals.add("d_y", R, {s.N, s.W}, format("d_y"));
  set.allocate();
  for (int r = 0; r < R; ++r)
    for (const auto& [name, x] : drawn(s, first + r)) upload(Device::cuda, set.real(name), r, x);
  // By hand: "d_gate" and "d_up" name the gradients of inputs here, and workspace of the op.
  Swiglu<float> op;
  op.device = Device::cuda;
  const auto field = [&](const std::string& name) {
    In<float> f;
    f.value = set.real(name), f.gradient = set.real("d_" + name), f.write = set.write(name);
    return f;
  };
  op.x = field("x"), op.gate = field("gate"), op.up = field("up"), op.down = field("down");
  op.y.value.format = Format::native, op.y.gradient = set.real("d_y");
  op.plan();
  op.y.value = set.real("y");
  for (const auto& [name, work] : {std::pair{"blocks", &op.blocks},
                                   {"h", &op.h},
                                   {"of_gate", &op.d_gate},
                                   {"of_up", &op.d_up},
                                   {"pieces", &op.pieces}})
    work->value = set.extra(name, work->value);
  Exec exec;
  exec.device = Device::cuda;
  forward(exec, op);
  for (int i = 0; i < times; ++i) {
    backward(exec, op);
    for (In<float>* f : {&op.x, &op.gate, &op.up, &op.down}) f->write = Write::add;
  }
  set.check_overruns();
  std::vector<std::map<std::string, Numbers>> all(static_cast<std::size_t>(R));
  for (int r = 0; r < R; ++r) {
    for (const char* name : {"y", "d_x", "d_gate", "d_up", "d_down"}) {
      const auto x = download(Device::cuda, set.real(name), r);
      all[r][name] = Numbers(x.begin(), x.end());
    }
  }
  return all;
}

void expect_near(const std::map<std::string, Numbers>& got, const std::map<std::string, Numbers>& want,
                 double times = 1) {
  constexpr double kLimit =
      4e-3;  // hidden units and results in bf16, half a unit each, or one where rounding differs
  for (const auto& [name, x] : want) {
    double error = 0, size = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double is = got.at(name)[i] / (name == "y" ? 1 : times);
      error = std::isfinite(is) ? std::max(error, std::abs(is - x[i])) : INFINITY;
      size = std::max(size, std::abs(x[i]));
    }
    EXPECT_LE(error, kLimit * size) << name;
  }
}

class SwigluOnCuda : public CudaTest {};

// Rows of no, one and several tiles, units of one block and of several.
TEST_F(SwigluOnCuda, RowsAndUnitsOfAllSizes) {
  for (Sizes s :
       {Sizes{1, 64, 64}, {64, 128, 64}, {65, 128, 192}, {129, 64, 512}, {700, 128, 512}, {150, 64, 128}}) {
    if (s.W == 128 && shared_memory_limit() < 163 * 1024) continue;  // not covered
    if (few_replicas() && s.N > 500) continue;
    for (const bool in_bf16 : {true, false}) {
      SCOPED_TRACE(fmt::format("N {} W {} H {} {}", s.N, s.W, s.H, in_bf16 ? "bf16" : "fp32"));
      s.in_bf16 = in_bf16;
      const auto got = run(s, 0, 3);
      for (int r = 0; r < 3; ++r) expect_near(got[r], oracle(s, drawn(s, r)));
      EXPECT_EQ(run(s, 1, 1)[0], got[1]) << "a replica alone has other bits";
      EXPECT_EQ(run(s, 0, 3), got) << "another launch, other bits";
    }
  }
}

TEST_F(SwigluOnCuda, AddsToGradients) {
  for (const int W : {64, 128}) {
    const Sizes s{100, W, 128, false};
    if (W == 128 && shared_memory_limit() < 163 * 1024) {
      EXPECT_THROW(run(s, 0, 1, 2), std::logic_error) << "not covered";
    } else
      expect_near(run(s, 0, 1, 2)[0], oracle(s, drawn(s, 0)), 2);
  }
}

// Where two slabs of weights do not fit, one comes after the other.
TEST_F(SwigluOnCuda, LessSharedMemory) {
  if (shared_memory_limit() < 163 * 1024) {
    GTEST_SKIP() << "one fits at most";
  }
  const Sizes s{300, 128, 256};
  const auto want = run(s, 0, 2);
  const SharedLimit limit(130);
  EXPECT_EQ(run(s, 0, 2), want);
}

TEST(SwigluTest, HasNoCpuForm) {
  EXPECT_THROW(forward(Exec{}, Swiglu<float>{}), std::logic_error);
  EXPECT_THROW(backward(Exec{}, Swiglu<double>{}), std::logic_error);
}

template <class Real>
Swiglu<Real> shaped_op(int W, int H) {
  Swiglu<Real> op;
  op.x.value = shaped<Real>(1, {70, W});
  op.gate.value = op.up.value = shaped<Real>(1, {H, W});
  op.down.value = shaped<Real>(1, {W, H});
  return op;
}

TEST(SwigluTest, Covers) {
  constexpr std::size_t kKiB = 1024, kLarge = 227 * kKiB;
  EXPECT_TRUE(shaped_op<float>(128, 512).covers(Precision::bf16, kLarge));
  EXPECT_TRUE(shaped_op<float>(128, 512).covers(Precision::bf16, 163 * kKiB));
  EXPECT_FALSE(shaped_op<float>(128, 512).covers(Precision::bf16, 99 * kKiB));
  EXPECT_TRUE(shaped_op<float>(64, 256).covers(Precision::bf16, 99 * kKiB));
  EXPECT_FALSE(shaped_op<float>(128, 576).covers(Precision::bf16, kLarge));
  EXPECT_FALSE(shaped_op<float>(128, 100).covers(Precision::bf16, kLarge));
  EXPECT_FALSE(shaped_op<float>(96, 128).covers(Precision::bf16, kLarge));
  EXPECT_FALSE(shaped_op<float>(128, 128).covers(Precision::tf32, kLarge));
  EXPECT_FALSE(shaped_op<double>(128, 128).covers(Precision::bf16, kLarge));
  EXPECT_EQ(shaped_op<float>(128, 128).bytes(2, 1), 2u * (2 * 3 * 16 * 520 + 2 * 64 * 136));
}

TEST(SwigluTest, Plans) {
  auto op = shaped_op<float>(64, 512);  // that any GPU takes
  EXPECT_NO_THROW(op.plan());
  EXPECT_EQ(op.y.value.columns(), 64);
  EXPECT_EQ(op.h.value.bytes(), 70 * 512 * 2);
  op.x.value.format = op.x.gradient.format = Format::bf16;
  EXPECT_NO_THROW(op.plan());
  op.x.write = Write::add;
  EXPECT_THROW(op.plan(), std::logic_error);
  op = shaped_op<float>(64, 512), op.down.value = op.gate.value;
  EXPECT_THROW(op.plan(), std::logic_error);
  const SharedLimit limit(99);
  op = shaped_op<float>(128, 512);
  EXPECT_THAT([&] { op.plan(); },
              ::testing::ThrowsMessage<std::logic_error>(::testing::HasSubstr("shared memory")));
}

}  // namespace
}  // namespace crosstalk::checks::swiglu_test
