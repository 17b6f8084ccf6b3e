// The largest logit against a plain search; a GPU with the CPU: the same integers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/loss/answers.h"

#include "kernels/testing/cuda_test.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

/// Whole numbers, whose products are exact in every order, and often equal.
double entry(int r, int i) {
  RandomStream random(11, RandomDomain::initialisation, static_cast<std::uint32_t>(r),
                      static_cast<std::uint32_t>(i));
  return static_cast<double>(random.below(7)) - 3;
}

struct Sizes {
  int rows, D, V;
  bool product;
};

template <class Real>
std::vector<Integers> answers_of(const Sizes& s, Device device, int threads = 1) {
  constexpr int kReplicas = 3;
  TensorSet<Real> set(device);
  set.reals.add("x", kReplicas, {s.rows, s.D});
  set.reals.add("w", kReplicas, {s.V, s.D});
  set.integers.add("answer", kReplicas, {s.rows});
  set.allocate();
  for (int r = 0; r < kReplicas; ++r) {
    Numbers x, w;
    for (int i = 0; i < s.rows * s.D; ++i) x.push_back(entry(r, i));
    for (int i = 0; i < s.V * s.D; ++i) w.push_back(entry(r, 1000000 + i));
    if (s.rows > 2) std::fill_n(x.begin(), s.D, std::nan(""));  // a row of nothing
    upload(device, set.real("x"), r, x);
    upload(device, set.real("w"), r, w);
  }
  Exec exec;
  exec.device = device;
  exec.threads = threads;
  Answers<Real> step;
  step.x = set.real("x"), step.answer = set.integer("answer");
  if (s.product) step.w = set.real("w");
  run(exec, step);
  std::vector<Integers> answers;
  for (int r = 0; r < kReplicas; ++r) answers.push_back(download(device, set.integer("answer"), r));
  set.check_overruns();
  return answers;
}

const std::vector<Sizes>& sizes() {
  static const std::vector<Sizes> all = {{1, 1, 1, true},    {9, 5, 3, true},    {17, 4, 300, true},
                                         {4, 200, 1, false}, {8, 33, 129, true}, {70, 20, 1100, true}};
  return all;
}

TEST(Answers, AreTheLargestAndOfEqualOnesTheFirst) {
  for (const Sizes& s : sizes()) {
    const auto got = answers_of<double>(s, Device::cpu);
    for (int r = 0; r < 3; ++r)
      for (int n = 0; n < s.rows; ++n) {
        std::vector<double> logits;
        for (int v = 0; v < (s.product ? s.V : s.D); ++v) {
          double sum = s.product ? 0 : entry(r, n * s.D + v);
          for (int d = 0; d < s.D && s.product; ++d)
            sum += entry(r, n * s.D + d) * entry(r, 1000000 + v * s.D + d);
          logits.push_back(sum);
        }
        const auto want = std::max_element(logits.begin(), logits.end()) - logits.begin();
        EXPECT_EQ(got[r][n], s.rows > 2 && n == 0 ? -1 : want);
      }
    EXPECT_EQ(answers_of<float>(s, Device::cpu, 3), got);
  }
}

class AnswersOnCuda : public CudaTest {};

TEST_F(AnswersOnCuda, AreThoseOfTheCpu) {
  for (const Sizes& s : sizes()) {
    EXPECT_EQ(answers_of<float>(s, Device::cuda), answers_of<float>(s, Device::cpu));
    EXPECT_EQ(answers_of<double>(s, Device::cuda), answers_of<double>(s, Device::cpu));
  }
}

}  // namespace
}  // namespace crosstalk::checks
