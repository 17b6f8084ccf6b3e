// Adam against PyTorch's update, element by element as its documentation states it; a GPU against the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/optimizer/adam.h"

#include "kernels/testing/step_check.h"

namespace crosstalk::checks::adam_test {
namespace {

constexpr int kSteps = 50, kRates = 5;
constexpr double kRate[kRates] = {1e-3, 3e-2, 0, 1e-4, 0.5};

struct Betas {
  double beta1, beta2, eps;
};

double gradient_of(int r, int i, int step) {
  RandomStream random(9, RandomDomain::initialisation, static_cast<std::uint32_t>(r),
                      static_cast<std::uint32_t>(i * 1000 + step));
  return i % 7 == 3 ? 0 : std::pow(10.0, i % 5 - 2) * normal_from_uniform(random.uniform());
}

/// Parameters of one replica after `steps`, in long double.
std::vector<long double> torch_adam(std::vector<long double> parameter, int r, int steps, Betas betas) {
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    long double exp_avg = 0, exp_avg_sq = 0;
    for (int step = 1; step <= steps; ++step) {
      const long double grad = gradient_of(r, static_cast<int>(i), step);
      exp_avg = exp_avg + (1.0L - betas.beta1) * (grad - exp_avg);
      exp_avg_sq = betas.beta2 * exp_avg_sq + (1.0L - betas.beta2) * grad * grad;
      const long double bias1 = 1 - std::pow(static_cast<long double>(betas.beta1), step);
      const long double bias2 = 1 - std::pow(static_cast<long double>(betas.beta2), step);
      const long double denominator = std::sqrt(exp_avg_sq) / std::sqrt(bias2) + betas.eps;
      parameter[i] -= kRate[r] / bias1 * (exp_avg / denominator);
    }
  }
  return parameter;
}

template <class Real>
struct Adam {
  TensorSet<Real> set;
  int R, P;
  Betas betas;
  std::vector<int> ids;
  Tensor<double> decay = {}, scale = {}, squares = {};

  Adam(std::vector<int> ids_, int P_, Betas betas_, Device device = Device::cpu)
      : set(device), R(static_cast<int>(ids_.size())), P(P_), betas(betas_), ids(std::move(ids_)) {
    for (const char* name : {"parameter", "gradient", "m", "v"}) set.reals.add(name, R, {P});
    for (const char* name : {"learning_rate", "decay", "scale"}) set.doubles.add(name, R, {});
    set.doubles.add("squares", R, {adam_blocks(P)});
    set.integers.add("step", R, {});
    set.allocate();
    for (int r = 0; r < R; ++r) {
      const int id = ids[r];
      upload(device, set.real("m"), r, Numbers(static_cast<std::size_t>(P), 0));
      upload(device, set.real("v"), r, Numbers(static_cast<std::size_t>(P), 0));
      upload(device, set.real("parameter"), r, start(id));
      upload(device, set.precise("learning_rate"), r, Numbers{kRate[id]});
      upload(device, set.precise("decay"), r, Numbers{0.1 * id});
      upload(device, set.precise("scale"), r, Numbers{1 / (1.0 + id)});
    }
  }
  /// Weights decay and gradients are scaled, by replica.
  void decays_and_scales() { decay = set.precise("decay"), scale = set.precise("scale"); }
  void sums_squares() { squares = set.precise("squares"); }
  Numbers start(int id) const {
    Numbers x;
    for (int i = 0; i < P; ++i) x.push_back(static_cast<double>(static_cast<float>(std::sin(i + 10 * id))));
    return x;
  }
  void give_step(int step) {
    for (int r = 0; r < R; ++r) {
      Numbers g;
      for (int i = 0; i < P; ++i) g.push_back(gradient_of(ids[r], i, step));
      upload(set.device(), set.real("gradient"), r, g);
      upload(set.device(), set.integer("step"), r, Integers{step});
    }
  }
  AdamStep<Real> op() const {
    return {betas.beta1,          betas.beta2,   betas.eps,     set.real("parameter"),
            set.real("gradient"), set.real("m"), set.real("v"), set.precise("learning_rate"),
            set.integer("step"),  decay,         scale,         squares};
  }
  void steps(const Exec& exec, int first, int last) {
    for (int step = first; step <= last; ++step) {
      give_step(step);
      run(exec, op());
    }
    set.check_overruns();
  }
  std::vector<Real> get(const std::string& name, int r) const {
    return download(set.device(), set.real(name), r);
  }
};

template <class Real>
void check_against_torch(Betas betas) {
  Adam<Real> adam({0, 1, 2, 3, 4}, 37, betas);
  adam.steps(Exec{}, 1, kSteps);
  for (int r = 0; r < kRates; ++r) {
    const Numbers first = adam.start(r);
    const auto want = torch_adam({first.begin(), first.end()}, r, kSteps, betas);
    double most = 1;
    for (long double x : want) most = std::max(most, static_cast<double>(std::abs(x)));
    // a step moves by at most about its rate, whose rounding every step adds to
    const Tolerance limit = tolerance<Real>(8, kSteps * kRate[r] * 4 + most * std::sqrt(kSteps));
    EXPECT_TRUE(close(fmt::format("parameter, replica {}", r), adam.get("parameter", r).data(), want.data(),
                      adam.P, limit.limit()));
  }
}

TEST(Adam, IsPyTorchsInDouble) {
  check_against_torch<double>({0.9, 0.999, 1e-8});
  check_against_torch<double>({0.8, 0.95, 1e-3});
}
TEST(Adam, IsPyTorchsInFloat) { check_against_torch<float>({0.9, 0.999, 1e-8}); }

// AdamW with a falling rate and gradients clipped to norm 1: five steps from (1, -2), computed apart from
// this code with the formulas of torch.optim.AdamW, CosineAnnealingLR (T_max 5) and clip_grad_norm_.
TEST(Adam, DecoupledDecayAndScaledGradientsArePyTorchs) {
  struct Step {
    double rate, scale, gradient[2], want[2];
  };
  const Step steps[] = {
      {0.1, 1.0, {0.3, -0.2}, {0.8750000033333332, -1.8500000049999996}},
      {0.09045084971874738, 0.6651896627601577, {1.5, 0.1}, {0.7734650728203651, -1.771845279217006}},
      {0.06545084971874738, 0.49029009746096247, {-0.4, 2.0}, {0.7235180863956473, -1.7793232573747848}},
      {0.03454915028125263, 1.0, {0.0, 0.5}, {0.7011076863026802, -1.7870206503227237}},
      {0.009549150281252633, 0.32461363120655395, {0.7, -3.0}, {0.6946385961691287, -1.7834106382806652}}};
  TensorSet<double> set;
  for (const char* name : {"parameter", "gradient", "m", "v"}) set.reals.add(name, 1, {2});
  for (const char* name : {"rate", "decay", "scale"}) set.doubles.add(name, 1, {});
  set.integers.add("step", 1, {});
  set.allocate();
  upload(Device::cpu, set.real("parameter"), 0, Numbers{1, -2});
  for (const char* name : {"m", "v"}) upload(Device::cpu, set.real(name), 0, Numbers{0, 0});
  upload(Device::cpu, set.precise("decay"), 0, Numbers{0.25});
  int t = 0;
  for (const Step& step : steps) {
    upload(Device::cpu, set.real("gradient"), 0, Numbers{step.gradient[0], step.gradient[1]});
    upload(Device::cpu, set.precise("rate"), 0, Numbers{step.rate});
    upload(Device::cpu, set.precise("scale"), 0, Numbers{step.scale});
    upload(Device::cpu, set.integer("step"), 0, Integers{++t});
    run(Exec{}, AdamStep<double>{0.9, 0.99, 1e-8, set.real("parameter"), set.real("gradient"), set.real("m"),
                                 set.real("v"), set.precise("rate"), set.integer("step"),
                                 set.precise("decay"), set.precise("scale")});
    const auto got = download(Device::cpu, set.real("parameter"), 0);
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(got[i], step.want[i], 1e-14) << "step " << t << ", number " << i;
  }
}

// No decay and a scale of 1 are no decay and no scale, bit for bit.
template <class Real>
void check_neutral() {
  const Betas betas{0.9, 0.999, 1e-8};
  Adam<Real> plain({0, 1}, 300, betas), neutral({0, 1}, 300, betas);
  for (int r = 0; r < 2; ++r) {
    upload(Device::cpu, neutral.set.precise("decay"), r, Numbers{0});
    upload(Device::cpu, neutral.set.precise("scale"), r, Numbers{1});
  }
  plain.steps(Exec{}, 1, 7);
  neutral.decays_and_scales();
  neutral.steps(Exec{}, 1, 7);
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(identical("parameter", plain.get("parameter", r).data(), neutral.get("parameter", r).data(),
                          plain.P));
  }
}
TEST(Adam, NeutralValuesAreNone) {
  check_neutral<double>();
  check_neutral<float>();
}

// Of what is given, not of what the scale makes of it; and nothing else changes by a bit.
template <class Real>
void check_squares(int P) {
  Adam<Real> plain({0, 1}, P, {0.9, 0.999, 1e-8}), summing({0, 1}, P, {0.9, 0.999, 1e-8});
  plain.decays_and_scales(), summing.decays_and_scales(), summing.sums_squares();
  plain.steps(Exec{}, 1, 2), summing.steps(Exec{}, 1, 2);
  for (int r = 0; r < 2; ++r) {
    for (const char* name : {"parameter", "m", "v"})
      EXPECT_TRUE(identical(name, plain.get(name, r).data(), summing.get(name, r).data(), P));
    const auto got = download(Device::cpu, summing.squares, r);
    for (int block = 0; block < adam_blocks(P); ++block) {
      long double want = 0;
      for (int i = block * kAdamBlock; i < std::min(P, (block + 1) * kAdamBlock); ++i) {
        const auto g = static_cast<long double>(static_cast<Real>(gradient_of(r, i, 2)));
        want += g * g;
      }
      const auto sum = static_cast<double>(want);
      EXPECT_NEAR(got[block], sum, 1e-13 * sum) << P << ", block " << block;
    }
  }
}

TEST(Adam, SumsSquaresBlockByBlock) {
  for (const int P : {1, 15, 16, kAdamBlock, kAdamBlock + 1, 16384 + kAdamBlock + 3}) {
    check_squares<double>(P);
    check_squares<float>(P);
  }
}

/// `all`: weights decay, gradients are scaled, and their squares summed.
template <class Real>
RunStep stepped(int P, int steps, bool all = false) {
  return [=](const std::vector<int>& ids, const Exec& exec) {
    Adam<Real> adam(ids, P, {0.9, 0.999, 1e-8}, exec.device);
    if (all) adam.decays_and_scales(), adam.sums_squares();
    adam.steps(exec, 1, steps);
    Left left;
    for (const char* name : {"parameter", "m", "v"}) keep(left, name, exec.device, adam.set.real(name));
    if (all) keep(left, "squares", exec.device, adam.squares);
    return left;
  };
}

TEST(Adam, ReplicasDoNotKnowEachOther) {
  check_replicas(stepped<double>(1037, 5));
  check_replicas(stepped<float>(1037, 5));
}

class AdamOnCuda : public CudaTest {};

Exec on(const CudaStream& stream) {
  Exec exec;
  exec.device = Device::cuda;
  exec.stream = stream.get();
  return exec;
}

template <class Real>
void check_on_cuda(int P, bool all) {
  check_cuda(stepped<Real>(P, 3, all), [](const std::string& name, int, const Numbers& want) {
    if (name == "squares") return 1e-13 * *std::min_element(want.begin(), want.end());
    return 40 * cuda_eps<Real>() * (4 + std::sqrt(10.)) *
           std::max(1., magnitude(want.data(), static_cast<std::int64_t>(want.size())));
  });
}

TEST_F(AdamOnCuda, IsThatOfTheCpu) {
  for (const int P : {1, 3, 64, 2047, 5001}) {
    for (const bool all : {false, true}) {
      SCOPED_TRACE(fmt::format("{} numbers{}", P, all ? ", decay and scale" : ""));
      check_on_cuda<double>(P, all);
      check_on_cuda<float>(P, all);
    }
  }
}

// A captured step gives what the same ops give one by one, as often as it is launched.
TEST_F(AdamOnCuda, CapturedStepsAreSteps) {
  const CudaStream stream;
  Adam<float> one({0, 1}, 100, {0.9, 0.999, 1e-8}, Device::cuda),
      two({0, 1}, 100, {0.9, 0.999, 1e-8}, Device::cuda);
  one.give_step(5), two.give_step(5);
  for (int i = 0; i < 6; ++i) run(on(stream), one.op());
  CudaGraph graph;
  EXPECT_FALSE(graph);
  graph.begin(stream);
  run(on(stream), two.op());
  run(on(stream), two.op());
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
  for (const char* name : {"parameter", "m", "v"}) EXPECT_EQ(one.get(name, 1), two.get(name, 1));
}

}  // namespace
}  // namespace crosstalk::checks::adam_test
