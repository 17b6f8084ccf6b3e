// Attention without its weights in memory, on a GPU: against Attend and Mix on the CPU, at the sizes of its
// tiles and between them, in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/attend_mix.h"

#include <fmt/format.h>

#include <array>

#include "kernels/attention/attend.h"
#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::attend_mix_test {
namespace {

struct Shape {
  int B = 2, T = 6, Q = 3, H = 2, K = 3, V = 4;
  bool normalised = true, strict = false, before = false, decays = false, slopes = false, sinks = false,
       positions = true, linear = false;
  double eps = 0, scale = 0.7;
  int window = 0;
  Precision products = Precision::full;
  bool in_bf16 = false;  ///< x, k, v, o and their gradients

  void configure(auto& op) const {
    op.normalised = normalised, op.strict = strict, op.before = before, op.eps = eps, op.scale = scale;
    op.window = window;
    if constexpr (requires { op.linear; }) op.products = products, op.linear = linear;
    if constexpr (requires { op.kernel; }) op.kernel = linear ? Kernel::identity : Kernel::exp;
  }
};

/// The inputs that a shape has, in the order of fields().
std::vector<std::pair<std::string, std::vector<int>>> inputs(const Shape& s) {
  std::vector<std::pair<std::string, std::vector<int>>> all = {
      {"x", {s.B, s.Q, s.H, s.K}}, {"k", {s.B, s.T, s.H, s.K}}, {"v", {s.B, s.T, s.H, s.V}}};
  if (s.decays) all.push_back({"log_decay", {s.B, s.T, s.H}});
  if (s.slopes) all.push_back({"slope", {s.H}});
  if (s.sinks) all.push_back({"sink", {s.H}});
  return all;
}

/// The chain: Attend's row is the tensor `row`.
template <class Real>
std::pair<Attend<Real>, Mix<Real>> chain_of(TensorSet<Real>& set, const Shape& s, const char* row) {
  const auto configure = [&](auto& op) {
    if constexpr (requires { op.window; }) s.configure(op);
  };
  auto attend = bound<Attend, Real>(set, configure);
  attend.row.value = set.real(row);
  auto mix = bound<Mix, Real>(set, configure);
  mix.a.value = set.real("a"), mix.a.gradient = set.real("d_a"), mix.a.write = Write::overwrite;
  return {attend, mix};
}

/// On a GPU the op where it has a form, else the chain.
OpCase make(const std::string& name, const Shape& s, const Fill& gate = uniform(-1.5, 0)) {
  OpCase op(name);
  for (const auto& [field, dims] : inputs(s))
    op.input(field, dims, field == "log_decay" ? gate : field == "slope" ? uniform(0.1, 1) : normal());
  for (const auto& [field, there] :
       {std::pair{"log_decay", s.decays}, {"slope", s.slopes}, {"sink", s.sinks}})
    if (!there) op.absent(field);
  if (s.positions) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.Q, s.H, s.V}).workspace("row", {s.B, s.H, s.Q});
  op.workspace("phase", {s.B, s.H, s.T, 2}).workspace("d_rows", {s.B, s.H, s.Q, 2});
  op.workspace("d_columns", {s.B, s.H, s.T});
  op.workspace("a", {s.B, s.H, s.Q, s.T}).workspace("d_a", {s.B, s.H, s.Q, s.T});
  op.workspace("d_s", {s.B, s.H, s.Q, s.T}).workspace("row_of_chain", {s.B, s.H, s.Q, 2});
  const auto run_op = [s]<class Real>(const Exec& exec, TensorSet<Real>& set, bool back) {
    const auto fused = bound<AttendMix, Real>(set, [s](auto& o) { s.configure(o); });
    if (exec.device == Device::cuda && fused.fits_tiles()) {
      back ? backward(exec, fused) : forward(exec, fused);
      return;
    }
    const auto& [attend, mix] = chain_of(set, s, "row_of_chain");
    if (back)
      backward(exec, mix), backward(exec, attend);
    else
      forward(exec, attend), forward(exec, mix);
  };
  op.forward([run_op](const Exec& exec, auto& set) { run_op(exec, set, false); });
  op.backward([run_op](const Exec& exec, auto& set) { run_op(exec, set, true); });
  return op.roundings(2 * s.K + 2 * s.T + 8).condition(2).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const auto add = [&](const std::string& name, const Shape& s,
                       const Fill& gate = uniform(-1.5, 0)) -> OpCase& {
    return all.emplace_back(make(name, s, gate));
  };
  add("Positions", {});
  add("NotNormalised", {.normalised = false});
  Shape s = {.decays = true, .slopes = true, .sinks = true, .eps = 0.5};
  add("BiasedSinkEps", s);
  s.strict = true, s.window = 3;
  add("BiasedSinkStrictWindow", s);
  s.sinks = s.normalised = false;
  add("BiasedNotNormalised", s);
  add("EveryToken", {.Q = 6, .positions = false});
  add("EveryTokenStrict", {.Q = 6, .strict = true, .positions = false});
  add("EveryTokenBefore", {.Q = 6, .before = true, .decays = true, .positions = false});
  add("EveryTokenWindow", {.Q = 6, .decays = true, .positions = false, .window = 2});
  add("StrictWindowOfOne",  // nobody sees anything
      {.Q = 6, .strict = true, .decays = true, .positions = false, .window = 1});
  add("SinkStrict", {.strict = true, .sinks = true});  // rows that see nothing but the sink
  add("SinkHuge", {.strict = true, .sinks = true}).edit("sink", [](int, Numbers& x) { x = {900, -900}; });
  s = {.decays = true, .slopes = true, .positions = false}, s.B = s.T = s.Q = s.H = s.K = s.V = 1;
  add("Ones", s).condition(100);  // D is all of its row: what is left of it is rounding
  add("OneQuery", {.B = 4, .Q = 1, .slopes = true});
  s = {.B = 1, .T = 67, .Q = 67, .H = 3, .K = 37, .V = 20, .decays = true, .slopes = true};
  s.positions = false, s.scale = 0.15;
  add("Large", s, uniform(-0.3, 0)).gradient_elements(25);
  s.positions = true, s.Q = 35, s.sinks = true;
  add("LargePositions", s, uniform(-0.3, 0)).gradient_elements(25);
  add("WideHeads", {.B = 1, .T = 9, .K = 150, .V = 140, .scale = 0.05}).gradient_elements(25);
  add("Resets", {.T = 9, .decays = true}, resets()).roundings(100);
  add("FarBelow", {.strict = true, .decays = true}, constant(-150)).roundings(400);  // e^-150 is no float
  make_huge(add("HugeScores", {.K = 2, .scale = 1})).roundings(6000).condition(20);  // 300 times differences
  return all;
}

class AttendMixCases : public CudaTest, public ::testing::WithParamInterface<OpCase> {};
TEST_P(AttendMixCases, OnCudaAreTheChain) { GetParam().check_cuda(); }
INSTANTIATE_TEST_SUITE_P(Cuda, AttendMixCases, ::testing::ValuesIn(cases()), case_name);

/// Reads and gradients of one replica, on given numbers; `chain`: by Attend and Mix.
template <class Real>
std::map<std::string, Numbers> run(const Shape& s, const Values& in, Device device, bool chain = false) {
  TensorSet<Real> set(device);
  const Format format = s.in_bf16 ? Format::bf16 : Format::native;
  for (const auto& [name, dims] : inputs(s)) {
    const Format of = dims.size() == 4 ? format : Format::native;
    set.reals.add(name, 1, dims, of);
    set.reals.add("d_" + name, 1, dims, of);
    set.writes[name] = Write::overwrite;
  }
  if (s.positions) set.integers.add("position", 1, {s.B, s.Q});
  for (const char* name : {"o", "d_o"}) set.reals.add(name, 1, {s.B, s.Q, s.H, s.V}, format);
  if (chain) {
    for (const char* name : {"a", "d_a", "d_s"}) set.reals.add(name, 1, {s.B, s.H, s.Q, s.T});
    set.reals.add("row", 1, {s.B, s.H, s.Q, 2});
  } else {
    set.reals.add("row", 1, {s.B, s.H, s.Q}), set.reals.add("d_rows", 1, {s.B, s.H, s.Q, 2});
    set.reals.add("phase", 1, {s.B, s.H, s.T, 2}), set.reals.add("d_columns", 1, {s.B, s.H, s.T});
  }
  set.allocate();
  for (const auto& [name, x] : in.real) upload(device, set.real(name), 0, x);
  if (s.positions) upload(device, set.integer("position"), 0, in.integer.at("position"));
  Exec exec;
  exec.device = device;
  if (chain) {
    const auto& [attend, mix] = chain_of(set, s, "row");
    forward(exec, attend), forward(exec, mix), backward(exec, mix), backward(exec, attend);
  } else {
    const auto op = bound<AttendMix, Real>(set, [&](auto& o) { s.configure(o); });
    forward(exec, op), backward(exec, op);
  }
  set.check_overruns();
  std::map<std::string, Numbers> out;
  const auto keep = [&](const std::string& name) {
    const auto x = download(device, set.real(name), 0);
    out[name] = Numbers(x.begin(), x.end());
  };
  keep("o");
  for (const auto& input : inputs(s)) keep("d_" + input.first);
  return out;
}

/// Scores of a few units, decays from none to e^-10, positions everywhere.
Values drawn(const Shape& s) {
  Values in;
  RandomStream random(11, RandomDomain::initialisation, 0);
  const auto draw = [&](const std::string& name, const std::vector<int>& dims, const Fill& fill) {
    std::size_t size = 1;
    for (int n : dims) size *= static_cast<std::size_t>(n);
    for (std::size_t i = 0; i < size; ++i)
      in.real[name].push_back(fill(random, 0, static_cast<std::int64_t>(i)));
  };
  for (const auto& [name, dims] : inputs(s))
    draw(name, dims, name == "log_decay" ? uniform(-3, 1) : name == "slope" ? uniform(0, 0.2) : normal());
  for (double& g : in.real["log_decay"]) g = g < -2.5 ? 0 : -std::pow(10, g);
  if (!s.decays) in.real.erase("log_decay");
  draw("d_o", {s.B, s.Q, s.H, s.V}, normal());
  for (int i = 0; i < s.B * s.Q && s.positions; ++i)
    in.integer["position"].push_back(static_cast<std::int32_t>(positions(s.T)(random, 0, i)));
  return in;
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  const std::pair<int, int> heads[] = {{32, 32}, {64, 64}, {128, 128}, {33, 100},  {100, 7},
                                       {7, 40},  {1, 1},   {256, 256}, {136, 200}, {60, 250}};
  for (const auto& [K, V] : heads) {
    for (int kind = 0; kind < (std::max(K, V) > 128 ? 7 : 5); ++kind) {
      Shape s;
      s.B = 1, s.T = s.Q = 150, s.positions = false, s.K = K, s.V = V, s.scale = 1 / std::sqrt(K + 3);
      s.decays = kind == 1 || kind == 2, s.slopes = kind == 2 || kind == 3, s.sinks = kind == 3;
      if (kind == 2) s.window = 70, s.strict = true;
      if (kind == 3) s.positions = true, s.Q = 70, s.eps = 0.1;
      if (kind == 4) s.before = true, s.normalised = false;
      if (kind > 4) s.linear = true, s.normalised = false, s.decays = kind == 6, s.slopes = kind == 6;
      all.push_back(s);
    }
  }
  return all;
}

TEST(AttendMixTest, RefusesToAddToGradientsInBf16) {
  AttendMix<float> op;
  op.products = Precision::bf16;
  for (In<float>* field : {&op.x, &op.k, &op.v}) {
    field->value = field->gradient = shaped<float>(1, {64, 32, 1, 64}, Format::bf16);
    field->write = Write::overwrite;
  }
  op.o.value.format = op.o.gradient.format = Format::bf16;
  if (!op.takes_bf16()) {
    GTEST_SKIP() << "whole heads do not fit this GPU";
  }
  EXPECT_NO_THROW(op.plan());
  op.k.write = Write::add;
  EXPECT_THROW(op.plan(), std::logic_error);
}

TEST(AttendMixTest, HasNoCpuForm) {
  EXPECT_THROW(forward(Exec{}, AttendMix<float>{}), std::logic_error);
  EXPECT_THROW(backward(Exec{}, AttendMix<double>{}), std::logic_error);
}

class AttendMixOnCuda : public CudaTest {};

// x, k and v the same variable: the first overwrites the gradient, the others add.
TEST_F(AttendMixOnCuda, OneVariableInThreeFields) {
  Shape s;
  s.positions = false, s.Q = s.T, s.V = s.K, s.decays = true;
  const OpCase op = make("Thrice", s);
  Exec exec;
  exec.device = Device::cuda;
  TensorSet<float> three, one(Device::cuda);
  op.fill(three, {0, 1}), op.fill(one, {0, 1});
  for (const char* name : {"x", "v"})
    for (int r = 0; r < 2; ++r)
      std::copy_n(three.real("k").at(r), three.real("k").size(), three.real(name).at(r));
  op.run_forward({}, three), op.run_backward({}, three);
  auto tied = bound<AttendMix, float>(one, [&](auto& o) { s.configure(o); });
  tied.x = tied.v = tied.k;
  tied.k.write = tied.v.write = Write::add;
  forward(exec, tied), backward(exec, tied);
  for (int r = 0; r < 2; ++r) {
    Numbers want;
    for (std::int64_t i = 0; i < three.real("d_k").size(); ++i)
      want.push_back(static_cast<double>(three.real("d_k").at(r)[i]) + three.real("d_x").at(r)[i] +
                     three.real("d_v").at(r)[i]);
    const auto got = download(Device::cuda, one.real("d_k"), r);
    EXPECT_LE(relative_error(Numbers(got.begin(), got.end()), want), 1e-5);
  }
}

void expect_tiles(bool wide) {
  for (Shape s : shapes()) {
    if (wide != (std::max(s.K, s.V) > 128)) continue;
    const Values in = drawn(s);
    const auto want = run<double>(s, in, Device::cpu, true);
    for (const auto& [products, limit] :
         {std::pair{Precision::full, 1e-5}, {Precision::tf32, 4e-3}, {Precision::bf16, 4e-2}}) {
      if (products != Precision::bf16 && std::max(s.K, s.V) > 128) continue;  // Attend, then Mix
      s.products = products;
      for (const bool in_bf16 : {false, true}) {
        if (in_bf16 && (products != Precision::bf16 || std::max(s.K, s.V) <= 64 || s.K % 8 || s.V % 8))
          continue;
        s.in_bf16 = in_bf16;
        const auto got = run<float>(s, in, Device::cuda);
        for (const auto& [name, x] :
             want)  // d_slope is a difference of sums that are longer by the distances
          EXPECT_LE(relative_error(got.at(name), x), name == "d_slope" ? 4 * limit : limit) << fmt::format(
              "{}: K {} V {} Q {} format {} decays {} slopes {} linear {} in_bf16 {}", name, s.K, s.V, s.Q,
              static_cast<int>(products), s.decays, s.slopes, s.linear, in_bf16);
        if (few_replicas()) continue;
        EXPECT_EQ(got, run<float>(s, in, Device::cuda)) << "another launch, other bits";
      }
      s.in_bf16 = false;
    }
  }
}
TEST_F(AttendMixOnCuda, TilesOfAllSizesAndFormats) { expect_tiles(false); }
TEST_F(AttendMixOnCuda, WideHeads) { expect_tiles(true); }

// Many heads, each held by a block: queries that are shared by few warps and by many, and such as do not fit
// beside tokens.
TEST_F(AttendMixOnCuda, GradientsOfWholeHeads) {
  const std::array<int, 4> sizes[] = {
      {40, 40, 64, 64},   {90, 90, 128, 128}, {70, 70, 100, 36},   {130, 9, 36, 8},      {100, 33, 64, 128},
      {140, 200, 40, 64}, {33, 256, 36, 4},   {256, 16, 128, 128}, {250, 250, 128, 128}, {256, 60, 128, 100}};
  for (const auto& [T, Q, K, V] : sizes) {
    for (int kind = T / 10 % 2; kind < 4; kind += 2) {
      Shape s;
      s.B = 32, s.H = 2, s.T = T, s.Q = Q, s.K = K, s.V = V, s.scale = 1 / std::sqrt(K),
      s.products = Precision::bf16;
      s.positions = Q != T || kind == 2, s.decays = s.slopes = false, s.sinks = kind == 1;
      if (kind == 2) s.eps = 0.1, s.window = 20;
      if (kind == 3) s.normalised = false, s.strict = true;
      const Values in = drawn(s);
      const auto want = run<double>(s, in, Device::cpu, true);
      for (const bool in_bf16 : {false, true}) {
        const std::size_t there = shared_memory_limit();
        if (in_bf16 && (K % 8 != 0 || V % 8 != 0 || !WholeHead(Q, T, std::max(K, V), there).fits(there)))
          continue;  // plan() refuses them
        s.in_bf16 = in_bf16;
        const auto got = run<float>(s, in, Device::cuda);
        for (const auto& [name, x] : want)
          EXPECT_LE(relative_error(got.at(name), x), 4e-2)
              << fmt::format("{}: T {} Q {} K {} V {} kind {} in_bf16 {}", name, T, Q, K, V, kind, in_bf16);
        if (few_replicas()) continue;
        EXPECT_EQ(got, run<float>(s, in, Device::cuda)) << "another launch, other bits";
      }
    }
  }
}

TEST_F(AttendMixOnCuda, ManyTiles) {
  for (const bool decays : {false, true}) {
    Shape s;
    s.B = 1, s.H = 1, s.T = s.Q = few_replicas() ? 200 : 1000, s.K = s.V = 64, s.scale = 0.125,
    s.positions = false, s.decays = decays;
    const Values in = drawn(s);
    const auto want = run<double>(s, in, Device::cpu, true);
    for (const auto& [products, limit] :
         {std::pair{Precision::full, 1e-5}, {Precision::tf32, 4e-3}, {Precision::bf16, 3e-2}}) {
      s.products = products;
      const auto got = run<float>(s, in, Device::cuda);
      for (const auto& [name, x] : want)
        EXPECT_LE(relative_error(got.at(name), x), limit) << name << " format " << static_cast<int>(products);
    }
  }
}

// Shared memory of whole heads, in bytes as their kernels ask for it; tiles fit every GPU.
TEST(AttendMixTest, WholeHeadsFitTheSharedMemoryThatThereIs) {
  constexpr std::size_t kKiB = 1024, kLarge = 227 * kKiB, kMiddle = 163 * kKiB, kSmall = 99 * kKiB;
  const auto fits = [](int width, int tokens, std::size_t limit) {
    return WholeHead(tokens, tokens, width, limit).fits(limit);
  };
  const WholeHead small(64, 64, 64, kLarge), large(256, 256, 64, kLarge), halves(256, 256, 64, kSmall);
  EXPECT_EQ(small.gradient_bytes(), 64u * 16 + 256 * 72 * 2);
  EXPECT_TRUE(large.both);
  EXPECT_EQ(large.gradient_bytes(), 148u * kKiB);
  EXPECT_FALSE(halves.both);
  EXPECT_EQ(halves.gradient_bytes(), 256u * 16 + (512 + 256) * 72 * 2);
  for (const std::size_t limit : {kLarge, kMiddle}) EXPECT_TRUE(fits(64, 256, limit));
  EXPECT_FALSE(fits(64, 256, kSmall));
  EXPECT_TRUE(fits(64, 128, kSmall));
  EXPECT_TRUE(fits(128, 256, kLarge));
  EXPECT_FALSE(fits(128, 256, kMiddle));
  EXPECT_TRUE(fits(128, 128, kMiddle));
  EXPECT_FALSE(fits(128, 128, kSmall));
  for (int T = 1; T <= 256; ++T) {  // what does not fit with less does not come back
    for (const int width : {64, 128}) {
      EXPECT_LE(fits(width, T, kSmall), fits(width, T, kMiddle)) << width << " " << T;
      EXPECT_LE(fits(width, T, kMiddle), fits(width, T, kLarge)) << width << " " << T;
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks::attend_mix_test
