// Structure and distribution of FAVOR+'s random features, and the kernel that they estimate.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/favor_features.h"

#include <Eigen/QR>
#include <functional>
#include <set>

#include "kernels/base/random.h"
#include "kernels/feature_map/feature_map.h"
#include "kernels/testing/step_check.h"

namespace crosstalk::checks::favor_features_test {
namespace {

template <class Real>
struct Drawn {
  TensorSet<Real> set;
  int R, m, d;

  /// Replica r draws number draws[r] of seeds[r].
  Drawn(const std::vector<std::uint64_t>& seeds, const std::vector<int>& draws, int m_, int d_,
        std::uint32_t purpose, const Exec& exec = {})
      : set(exec.device), R(static_cast<int>(seeds.size())), m(m_), d(d_) {
    set.integers.add("seed", R, {2});
    set.integers.add("draw", R, {1});
    set.doubles.add("workspace", R, {d, d});
    set.reals.add("omega", R, {m, d});
    set.allocate();
    for (int r = 0; r < R; ++r) {
      const std::uint64_t seed = seeds[r];
      upload(exec.device, set.integer("seed"), r,
             std::vector<std::int32_t>{static_cast<std::int32_t>(static_cast<std::uint32_t>(seed)),
                                       static_cast<std::int32_t>(static_cast<std::uint32_t>(seed >> 32))});
      upload(exec.device, set.integer("draw"), r, std::vector<std::int32_t>{draws[r]});
    }
    run(exec, FavorFeatures<Real>{set.integer("seed"), set.integer("draw"), purpose, set.precise("workspace"),
                                  set.real("omega")});
    set.check_overruns();
  }
  std::vector<Real> omega(int r = 0) const { return download(set.device(), set.real("omega"), r); }
};

std::vector<double> draw(std::uint64_t seed, int number, int m, int d, std::uint32_t purpose = 0) {
  return Drawn<double>({seed}, {number}, m, d, purpose).omega();
}

TEST(FavorFeatures, RowsOfABlockAreOrthogonal) {
  for (const auto& [m, d] : {std::pair{8, 8}, {16, 16}, {5, 7}, {23, 7}, {64, 64}, {3, 1}}) {
    for (int number : {0, 1, 2}) {
      const auto omega = draw(11, number, m, d);
      for (int i = 0; i < m; ++i) {
        for (int j = 0; j < i; ++j) {
          if (i / d != j / d) continue;
          double dot = 0, ii = 0, jj = 0;
          for (int c = 0; c < d; ++c) {
            const double x = omega[i * d + c], y = omega[j * d + c];
            dot += x * y, ii += x * x, jj += y * y;
          }
          EXPECT_TRUE(std::abs(dot) <= 1e-12 * std::sqrt(ii * jj))
              << m << "x" << d << " rows " << i << ", " << j;
        }
      }
    }
  }
}

// |omega_j|^2 is chi-squared with d degrees of freedom: mean d, variance 2 d, fourth central moment
// 12 d (d + 4).
TEST(FavorFeatures, NormsAreChiDistributed) {
  const int m = 12, d = 6, draws = 3000, n = m * draws;
  double mean = 0, variance = 0;
  for (int number = 0; number < draws; ++number) {
    const auto omega = draw(3, number, m, d);
    for (int i = 0; i < m; ++i) {
      double square = 0;
      for (int c = 0; c < d; ++c) square += omega[i * d + c] * omega[i * d + c];
      mean += square / n;
      variance += (square - d) * (square - d) / n;
    }
  }
  EXPECT_TRUE(std::abs(mean - d) <= 4 * std::sqrt(2.0 * d / n)) << mean;
  EXPECT_TRUE(std::abs(variance - 2 * d) <= 4 * std::sqrt((12.0 * d * (d + 4) - 4.0 * d * d) / n))
      << variance;
}

// Haar: the direction of every row is uniform on the sphere, so each of its components has mean 0 and mean
// square 1/d, in particular the diagonal, which a QR without a sign convention makes one-sided.
TEST(FavorFeatures, DirectionsAreUniform) {
  const int d = 4, draws = 6000;
  std::vector<double> mean(d * d, 0), square(d * d, 0);
  for (int number = 0; number < draws; ++number) {
    const auto omega = draw(8, number, d, d);
    for (int i = 0; i < d; ++i) {
      double norm = 0;
      for (int c = 0; c < d; ++c) norm += omega[i * d + c] * omega[i * d + c];
      for (int c = 0; c < d; ++c) {
        const auto e = static_cast<std::size_t>(i * d + c);
        mean[e] += omega[e] / std::sqrt(norm) / draws;
        square[e] += omega[e] * omega[e] / norm / draws;
      }
    }
  }
  for (std::size_t e = 0; e < mean.size(); ++e) {
    EXPECT_TRUE(std::abs(mean[e]) <= 4 * std::sqrt(1.0 / d / draws)) << e << ": " << mean[e];
    // Var u^2 = 3/(d(d+2)) - 1/d^2
    const double sigma = std::sqrt((3.0 / (d * (d + 2.0)) - 1.0 / (d * d)) / draws);
    EXPECT_TRUE(std::abs(square[e] - 1.0 / d) <= 4 * sigma) << e << ": " << square[e];
  }
}

TEST(FavorFeatures, FunctionOfSeedDrawAndPurposeOnly) {
  const std::uint64_t high = (1ull << 40) + 7;
  const std::vector<std::uint64_t> seeds = {7, high, 7, 7, 8};
  const std::vector<int> draws = {4, 4, 5, 4, 4};
  std::set<std::vector<double>> different;
  for (std::uint32_t purpose : {0u, 1u}) {
    Drawn<double> together(seeds, draws, 9, 4, purpose);
    for (int threads : {1, 2, 3}) {
      Exec exec;
      exec.threads = threads;
      Drawn<double> again(seeds, draws, 9, 4, purpose, exec);
      for (int r = 0; r < 5; ++r) EXPECT_EQ(again.omega(r), together.omega(r)) << threads << " threads";
    }
    for (int r = 0; r < 5; ++r) {
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(together.omega(r), draw(seeds[i], draws[i], 9, 4, purpose)) << "replica " << r;
      different.insert(together.omega(r));
    }
    EXPECT_EQ(together.omega(0), together.omega(3));
  }
  EXPECT_EQ(different.size(), 8u) << "seed (both halves), draw and purpose must all matter";
}

TEST(FavorFeatures, SubsetLeavesTheOthers) {
  const int id = 1;
  Exec exec;
  exec.replicas = &id;
  exec.replica_count = 1;
  Drawn<double> some({1, 2, 3}, {0, 0, 0}, 5, 3, 0, exec);
  EXPECT_EQ(some.omega(1), draw(2, 0, 5, 3));
  for (double x : some.omega(0)) EXPECT_TRUE(std::isnan(x));
  for (double x : some.omega(2)) EXPECT_TRUE(std::isnan(x));
}

// Both precisions round the same numbers.
TEST(FavorFeatures, FloatIsRoundedDouble) {
  const auto wide = draw(21, 3, 10, 6);
  const auto narrow = Drawn<float>({21}, {3}, 10, 6, 0).omega();
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i])) << i;
}

/// Mean and variance of phi(q).phi(k) over draws.
struct Estimate {
  double mean = 0, variance = 0, error = 0;
};

using Draw = std::function<std::vector<double>(int number, int m, int d)>;

Estimate estimate(int halves, int m, int d, int draws, const std::vector<double>& qk, const Draw& omega) {
  std::vector<double> values;
  const int p = halves * m;
  TensorSet<double> s;
  s.reals.add("x", 1, {2, d});
  s.reals.add("omega", 1, {m, d});
  s.reals.add("y", 1, {2, p});
  s.allocate();
  upload(Device::cpu, s.real("x"), 0, qk);
  for (int number = 0; number < draws; ++number) {
    upload(Device::cpu, s.real("omega"), 0, omega(number, m, d));
    forward(Exec{},
            MapFeatures<double>{FeatureMap::favor, halves, {s.real("x")}, {s.real("omega")}, {s.real("y")}});
    const double* y = s.real("y").data;
    double dot = 0;
    for (int i = 0; i < p; ++i) dot += y[i] * y[p + i];
    values.push_back(dot);
  }
  Estimate e;
  for (double v : values) e.mean += v / draws;
  for (double v : values) e.variance += (v - e.mean) * (v - e.mean) / (draws - 1);
  e.error = std::sqrt(e.variance / draws);
  return e;
}

const int kDimension = 6;
const std::vector<std::vector<double>> kPairs = {  // q, then k
    {0.5, -0.3, 0.2, 0.4, -0.1, 0.3, 0.4, -0.2, 0.3, 0.5, 0.1, 0.1},
    {0.5, -0.3, 0.2, 0.4, -0.1, 0.3, -0.4, 0.2, 0.3, -0.5, 0.6, 0.1}};

double exp_dot(const std::vector<double>& qk) {
  double dot = 0;
  for (std::size_t i = 0; i < kDimension; ++i) dot += qk[i] * qk[kDimension + i];
  return std::exp(dot);
}

/// Independent standard normal rows: what both estimators are derived for.
std::vector<double> gaussian(int number, int m, int d) {
  RandomStream random(77, RandomDomain::initialisation, static_cast<std::uint32_t>(number));
  std::vector<double> omega;
  for (int i = 0; i < m * d; ++i) omega.push_back(normal_from_uniform(random.uniform()));
  return omega;
}

/// The law that the header states, by another way: Householder's QR with the diagonal of R made positive.
/// `own_norms`: the norms come from a second matrix instead of from G itself.
std::vector<double> householder(int number, int m, int d, bool own_norms) {
  RandomStream random(78, RandomDomain::initialisation, static_cast<std::uint32_t>(number));
  const auto normals = [&] {
    Eigen::MatrixXd G(d, d);
    for (double& g : G.reshaped()) g = normal_from_uniform(random.uniform());
    return G;
  };
  std::vector<double> omega;
  while (static_cast<int>(omega.size()) < m * d) {
    const Eigen::MatrixXd G = normals(), N = own_norms ? normals() : G;
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(G);
    const Eigen::MatrixXd Q = qr.householderQ();
    for (int j = 0; j < d && static_cast<int>(omega.size()) < m * d; ++j) {
      const double scale = std::copysign(N.row(j).norm(), qr.matrixQR()(j, j));
      for (int i = 0; i < d; ++i) omega.push_back(scale * Q(i, j));
    }
  }
  return omega;
}

constexpr int kPositive = 1, kHyperbolic = 2;

void expect_unbiased(const Draw& omega) {
  for (int m : {4, 6, 15}) {
    for (const auto& qk : kPairs) {
      for (const int halves : {kPositive, kHyperbolic}) {
        const Estimate e = estimate(halves, m, kDimension, 8000, qk, omega);
        EXPECT_TRUE(std::abs(e.mean - exp_dot(qk)) <= 4 * e.error) << e.mean << " for " << exp_dot(qk);
      }
    }
  }
}

TEST(FavorFeatures, MapsAreUnbiasedForTheExponentialKernel) {
  expect_unbiased(gaussian);
  expect_unbiased([](int number, int m, int d) { return householder(number, m, d, true); });
}

// Norms of the rows of the very matrix that was orthogonalised, as the 2021 code takes them, lean towards
// their rows' directions: E omega_1 omega_1^T is not I. At d = m = 6 that shifts the
// kernel by up to 2 %, and more where m < d; hence this compares with the law, not with exp(q.k).
TEST(FavorFeatures, DrawsFollowTheStatedLaw) {
  for (int m : {4, 6, 15}) {
    for (const auto& qk : kPairs) {
      for (const int halves : {kPositive, kHyperbolic}) {
        const Estimate got = estimate(halves, m, kDimension, 8000, qk,
                                      [](int number, int rows, int d) { return draw(1, number, rows, d); });
        const Estimate want = estimate(halves, m, kDimension, 8000, qk, [](int number, int rows, int d) {
          return householder(number, rows, d, false);
        });
        EXPECT_TRUE(std::abs(got.mean - want.mean) <= 4 * std::hypot(got.error, want.error))
            << got.mean << " for " << want.mean;
      }
    }
  }
}

TEST(FavorFeatures, HyperbolicVariesLess) {
  for (int m : {4, 6, 15}) {
    for (const auto& qk : kPairs) {
      const auto variance = [&](int halves) {
        return estimate(halves, m, kDimension, 4000, qk,
                        [](int number, int rows, int d) { return draw(1, number, rows, d); })
            .variance;
      };
      EXPECT_LE(variance(kHyperbolic), variance(kPositive));
    }
  }
}

class FavorFeaturesOnCuda : public CudaTest {};

template <class Real>
void check_on_cuda(int m, int d) {
  const RunStep drawn = [=](const std::vector<int>& ids, const Exec& exec) {
    std::vector<std::uint64_t> seeds;
    std::vector<int> draws;
    for (const int id : ids) {
      const auto i = static_cast<std::uint64_t>(id);
      seeds.push_back((i << 40) + 12345 * i), draws.push_back(100 * id);
    }
    const Drawn<Real> made(seeds, draws, m, d, 3, exec);
    Left left;
    keep(left, "omega", exec.device, made.set.real("omega"));
    return left;
  };
  check_cuda(drawn, [=](const std::string&, int, const Numbers& want) {
    // Rounding grows by the condition of the drawn matrices, typically a few d.
    return 4 * cuda_eps<Real>() * (4 + std::sqrt(d)) * 20 * d * std::max(1., magnitude(want.data(), m * d));
  });
}

TEST_F(FavorFeaturesOnCuda, AreThoseOfTheCpu) {
  for (const auto& [m, d] : {std::pair{1, 1}, {7, 3}, {64, 64}, {130, 64}, {20, 37}, {128, 128}, {40, 200}}) {
    if (few_replicas() && d > 64) continue;
    SCOPED_TRACE(testing::Message() << m << "x" << d);
    check_on_cuda<double>(m, d);
    check_on_cuda<float>(m, d);
  }
}

}  // namespace
}  // namespace crosstalk::checks::favor_features_test
