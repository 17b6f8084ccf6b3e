// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/feature_map.h"

#include <Eigen/QR>

#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

/// torch.roll(x, j): element i moves to i + j.
Numbers roll(const Numbers& x, int j) {
  const int n = static_cast<int>(x.size());
  Numbers y(x.size());
  for (int i = 0; i < n; ++i) y[static_cast<std::size_t>((i + j) % n)] = x[static_cast<std::size_t>(i)];
  return y;
}

Numbers concatenate(Numbers x, const Numbers& y) {
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

/// Listing 1 of Schlag, Irie, Schmidhuber (2021), line by line.
Numbers dpfp(const Numbers& in, int nu) {
  Numbers positive, negative;
  for (double e : in) positive.push_back(std::max(e, 0.0)), negative.push_back(std::max(-e, 0.0));
  const Numbers x = concatenate(positive, negative);
  Numbers x_rolled, x_repeat;
  for (int j = 1; j <= nu; ++j) x_rolled = concatenate(x_rolled, roll(x, j));
  for (int j = 1; j <= nu; ++j) x_repeat = concatenate(x_repeat, x);
  for (std::size_t i = 0; i < x_repeat.size(); ++i) x_repeat[i] *= x_rolled[i];
  return x_repeat;
}

/// One row; omega [m,d]. Powers of FAVOR+ are put into one exponent.
Numbers features(FeatureMap map, int nu, const Numbers& x, const Numbers& omega) {
  Numbers y;
  switch (map) {
    case FeatureMap::identity:
      return x;
    case FeatureMap::elu1:
      for (double e : x) y.push_back(e > 0 ? e + 1 : std::exp(e));
      return y;
    case FeatureMap::relu:
      for (double e : x) y.push_back(e > 0 ? e : 0);
      return y;
    case FeatureMap::tanh:
      for (double e : x) y.push_back(1 - 2 / (std::exp(2 * e) + 1));
      return y;
    case FeatureMap::dpfp:
      return dpfp(x, nu);
    default:
      break;
  }
  const bool both = map == FeatureMap::favor_hyperbolic;
  const std::size_t m = omega.size() / x.size();
  long double square = 0;
  for (double e : x) square += static_cast<long double>(e) * e;
  for (int sign : both ? std::vector<int>{1, -1} : std::vector<int>{1}) {
    for (std::size_t i = 0; i < m; ++i) {
      long double along = 0;
      for (std::size_t j = 0; j < x.size(); ++j)
        along += static_cast<long double>(omega[i * x.size() + j]) * x[j];
      y.push_back(static_cast<double>(std::exp(sign * along - square / 2) /
                                      std::sqrt(static_cast<long double>(both ? 2 * m : m))));
    }
  }
  return y;
}

int dimension(FeatureMap map, int nu, int d, int m) {
  switch (map) {
    case FeatureMap::dpfp:
      return 2 * d * nu;
    case FeatureMap::favor_hyperbolic:
      return 2 * m;
    case FeatureMap::favor_positive:
      return m;
    default:
      return d;
  }
}

OpCase make(const std::string& name, FeatureMap map, int N, int d, int nu = 1, int m = 0) {
  OpCase op(name);
  const int p = dimension(map, nu, d, m);
  op.input("x", {N, d}, off_zero(m ? 0.4 : 1));
  if (m) {
    op.parameter("omega", {m, d}, normal());
  } else {
    op.absent("omega");
  }
  op.output("y", {N, p});
  op.forward([=](const Exec& exec, auto& s) {
    run(exec, FeatureMapForward{map, nu, s.real("x"), s.real("omega"), s.real("y")});
  });
  op.backward([=](const Exec& exec, auto& s) {
    run(exec, FeatureMapBackward{map, nu, s.real("x"), s.real("omega"), s.real("y"), s.real("d_y"),
                                 s.real("d_x"), s.write("x")});
  });
  op.oracle([=](const Values& in) {
    Values out;
    for (int n = 0; n < N; ++n) {
      const Numbers row(in["x"].begin() + n * d, in["x"].begin() + (n + 1) * d);
      const Numbers y = features(map, nu, row, in["omega"]);
      auto& all = out.real["y"];
      all.insert(all.end(), y.begin(), y.end());
    }
    return out;
  });
  return op.roundings(d + p + 8).condition(m ? 4 : 1).gradient_elements(200);
}

std::vector<OpCase> cases() {
  using M = FeatureMap;
  std::vector<OpCase> all = {make("Identity", M::identity, 5, 7),
                             make("Elu1", M::elu1, 5, 7),
                             make("Relu", M::relu, 5, 7),
                             make("Tanh", M::tanh, 5, 7),
                             make("TanhWide", M::tanh, 67, 33),
                             make("Elu1FarOut", M::elu1, 4, 6)
                                 .edit("x",
                                       [](int, Numbers& x) {
                                         for (std::size_t i = 0; i < x.size(); ++i)
                                           x[i] += i % 3 == 0 ? -200 : i % 3 == 1 ? 200 : 0;
                                       }),
                             make("TanhFarOut", M::tanh, 4, 6)
                                 .edit("x",
                                       [](int, Numbers& x) {
                                         for (std::size_t i = 0; i < x.size(); ++i)
                                           x[i] += i % 3 == 0 ? -150 : i % 3 == 1 ? 150 : 0;
                                       }),
                             make("FavorHyperbolic", M::favor_hyperbolic, 5, 4, 1, 6),
                             make("FavorHyperbolicOneRow", M::favor_hyperbolic, 1, 3, 1, 1),
                             make("FavorHyperbolicWide", M::favor_hyperbolic, 9, 17, 1, 35),
                             make("FavorPositive", M::favor_positive, 5, 4, 1, 6),
                             make("FavorPositiveWide", M::favor_positive, 9, 17, 1, 35)};
  for (int nu : {1, 2, 3}) {
    for (int d : {1, 4, 5, 16}) all.push_back(make(fmt::format("DpfpNu{}D{}", nu, d), M::dpfp, 6, d, nu));
  }
  for (int nu : {5, 6, 7, 13})  // 2 d = 6: rolls come round
    all.push_back(make(fmt::format("DpfpNu{}D3", nu), M::dpfp, 6, 3, nu));
  all.push_back(make("DpfpManyRows", M::dpfp, 150, 9, 2));
  return all;
}

INSTANTIATE_TEST_SUITE_P(FeatureMaps, OpCheck, ::testing::ValuesIn(cases()), case_name);

// Non-negative, and linearly independent as long as rolls do not pair the same two elements twice.
TEST(Dpfp, NonNegativeWithFullRank) {
  for (const auto& [d, nu] : {std::pair{8, 1}, {8, 2}, {8, 3}, {7, 2}, {5, 4}}) {
    const int p = 2 * d * nu, N = 12 * p;
    OpCase op = make("Rank", FeatureMap::dpfp, N, d, nu);
    TensorSet<double> s;
    op.fill(s, {0});
    op.run_forward(Exec{}, s);
    const Eigen::Map<Eigen::Matrix<double, -1, -1, Eigen::RowMajor>> y(s.real("y").data, N, p);
    EXPECT_GE(y.minCoeff(), 0);
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(y);
    qr.setThreshold(1e-9);
    EXPECT_EQ(qr.rank(), p) << "d = " << d << ", nu = " << nu;
  }
}

// At 0 the derivative of relu is 0, as in PyTorch, and every map is finite with its gradient.
TEST(FeatureMaps, ZeroRow) {
  using M = FeatureMap;
  for (M map : {M::identity, M::elu1, M::relu, M::tanh, M::dpfp, M::favor_hyperbolic, M::favor_positive}) {
    const bool favor = map == M::favor_hyperbolic || map == M::favor_positive;
    OpCase op = make("Zero", map, 2, 4, 2, favor ? 3 : 0);
    op.edit("x", [](int, Numbers& x) { std::fill(x.begin(), x.end(), 0); });
    TensorSet<double> s;
    op.fill(s, {0});
    op.run_forward(Exec{}, s);
    op.run_backward(Exec{}, s);
    for (int i = 0; i < 8; ++i) {
      const double d_x = s.real("d_x").data[i], d_y = s.real("d_y").data[i];
      EXPECT_TRUE(std::isfinite(d_x));
      if (map == M::relu || map == M::dpfp) {
        EXPECT_EQ(d_x, 0);
      }
      if (map == M::elu1 || map == M::tanh) {
        EXPECT_EQ(d_x, d_y);
      }
    }
  }
}

// A diverged model must look diverged: no map may turn a NaN into a number.
TEST(FeatureMaps, NanIsNotHidden) {
  using M = FeatureMap;
  for (M map : {M::identity, M::elu1, M::relu, M::tanh, M::dpfp, M::favor_hyperbolic, M::favor_positive}) {
    const bool favor = map == M::favor_hyperbolic || map == M::favor_positive;
    OpCase op = make("Nan", map, 7, 9, 1, favor ? 3 : 0);
    op.edit("x", [](int, Numbers& x) { std::fill(x.begin(), x.end(), std::nan("")); });
    TensorSet<double> s;
    op.fill(s, {0});
    op.run_forward(Exec{}, s);
    for (std::int64_t i = 0; i < s.real("y").size(); ++i)
      ASSERT_TRUE(std::isnan(s.real("y").data[i])) << "map " << static_cast<int>(map) << ", element " << i;
  }
}

}  // namespace
}  // namespace crosstalk::checks
