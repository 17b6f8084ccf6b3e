// The checks must be able to fail: each is shown something wrong.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/compare.h"

#include "kernels/testing/gradcheck.h"
#include "kernels/testing/tensors.h"

namespace crosstalk::checks::compare_test {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

TEST(Compare, FailsOnWhatIsNotFinite) {
  const double one = 1;
  for (double bad : {kNan, kInfinity, -kInfinity}) {
    EXPECT_FALSE(close("x", &bad, &one, 1, 1e9));
    EXPECT_FALSE(close("x", &one, &bad, 1, 1e9));
    EXPECT_FALSE(close("x", &bad, &bad, 1, 1e9));
    EXPECT_FALSE(close("x", &one, &one, 1, bad)) << "a tolerance that is not finite";
  }
  EXPECT_TRUE(close("x", &one, &one, 1, 0));
  EXPECT_TRUE(std::isnan(magnitude(std::vector<double>{1, kNan, 2}.data(), 3)));
}

TEST(Compare, NamesTheWorstElement) {
  const double got[] = {1, 2, 3, 4, 5.5, 6.25}, want[] = {1, 2, 3, 4, 5, 6};
  const auto result = close("y", got, want, 6, 0.25, {2, 3});
  EXPECT_FALSE(result);
  const std::string text = result.message();
  for (const char* part : {"y: 1 of 6", "[1, 1]", "got 5.5", "want 5", "2 of the tolerance 0.25"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST(Compare, IdenticalMeansBits) {
  const double zero = 0, minus_zero = -0.0;
  EXPECT_TRUE(identical("x", &kNan, &kNan, 1));
  EXPECT_FALSE(identical("x", &zero, &minus_zero, 1));
}

TEST(Compare, SameNumbersAreFinite) {
  const double some[] = {1, -2}, other[] = {1, -3},
               infinite[] = {1, -std::numeric_limits<double>::infinity()};
  EXPECT_TRUE(same_numbers("x", some, some, 2));
  EXPECT_FALSE(same_numbers("x", some, other, 2));
  EXPECT_FALSE(same_numbers("x", infinite, infinite, 2));
  EXPECT_FALSE(same_numbers("x", &kNan, &kNan, 1));
}

/// y = x^2 with a backward pass that `wrong` bends.
struct Square {
  enum class Wrong { nothing, value, one_element, ignores_none, ignores_add, reads_target, nan };
  TensorSet<double> set;
  Write write = Write::none;
  Wrong wrong;
  GradientProblem problem;

  explicit Square(Wrong w) : wrong(w) {
    for (const char* name : {"x", "d_x", "y", "d_y"}) set.reals.add(name, 2, {6});
    set.allocate();
    for (int r = 0; r < 2; ++r) {
      upload(Device::cpu, set.real("x"), r, std::vector<double>{0.5, -1, 2, 0.25, 3, -0.75});
      upload(Device::cpu, set.real("d_y"), r, std::vector<double>{1, 0.5, -2, 1, 1.5, 1});
    }
    problem.inputs = {{"x", set.real("x"), set.real("d_x"), &write}};
    problem.outputs = {{"y", set.real("y"), set.real("d_y")}};
    problem.forward = [this] {
      for (int r = 0; r < 2; ++r)
        for (int i = 0; i < 6; ++i) set.real("y").at(r)[i] = std::pow(set.real("x").at(r)[i], 2);
    };
    problem.backward = [this] { backward(); };
  }
  void backward() {
    if (write == Write::none && wrong != Wrong::ignores_none) return;
    for (int r = 0; r < 2; ++r) {
      for (int i = 0; i < 6; ++i) {
        double g = 2 * set.real("x").at(r)[i] * set.real("d_y").at(r)[i];
        if (wrong == Wrong::value) g *= 1 + 1e-7;
        if (wrong == Wrong::one_element && r == 1 && i == 4) g += 1e-6;
        if (wrong == Wrong::nan && r == 1 && i == 5) g = kNan;
        double* d_x = set.real("d_x").at(r) + i;
        const bool add = (write == Write::add && wrong != Wrong::ignores_add) || wrong == Wrong::reads_target;
        *d_x = add ? *d_x + g : g;
      }
    }
  }
};

TEST(GradientCheck, AcceptsTheRightGradient) {
  Square square(Square::Wrong::nothing);
  EXPECT_TRUE(check_gradients(square.problem));
}

TEST(GradientCheck, RejectsWrongOnes) {
  using Wrong = Square::Wrong;
  for (Wrong wrong : {Wrong::value, Wrong::one_element, Wrong::ignores_none, Wrong::ignores_add,
                      Wrong::reads_target, Wrong::nan}) {
    Square square(wrong);
    EXPECT_FALSE(check_gradients(square.problem)) << static_cast<int>(wrong);
  }
}

TEST(TensorSets, OverrunOfOneReplicaIsCaught) {
  TensorSet<float> set;
  set.reals.add("x", 3, {5});
  set.allocate();
  EXPECT_NO_THROW(set.check_overruns());
  set.real("x").at(1)[5] = 0;
  EXPECT_THROW(set.check_overruns(), std::logic_error);
}

TEST(TensorSets, MisspeltNameThrows) {
  TensorSet<float> set;
  set.reals.add_absent("bias");
  EXPECT_FALSE(set.real("bias"));
  EXPECT_THROW(set.real("bais"), std::out_of_range);
}

}  // namespace
}  // namespace crosstalk::checks::compare_test
