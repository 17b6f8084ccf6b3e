// Things that a feature map's test brings: its oracle and the shapes to try; and rows of features for its laws. The
// checks that all maps pass are in feature_map/feature_map_test.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "kernels/feature_map/feature_map.h"
#include "kernels/testing/op_check.h"

namespace crosstalk::checks {

/// d: width of the rows that the map gets; number: what it counts; m: rows of omega (FAVOR+).
struct MapShape {
  int d = 4, number = 1, m = 0;
};

struct MapOracle {
  /// phi of one row; omega [m,d].
  std::function<Numbers(const Numbers& x, int number, const Numbers& omega)> row;
  std::vector<MapShape> shapes;
};

/// All oracles, by the map's name.
inline std::map<std::string, MapOracle>& map_oracles() {
  static std::map<std::string, MapOracle> all;
  return all;
}

/// The oracle of a map whose entries are f of a row's.
template <double (*f)(double)>
Numbers entries(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) y.push_back(f(e));
  return y;
}

/// Numbers d, number, m of shapes in braces: CROSSTALK_MAP_ORACLE(dpfp, dpfp, {5, 1}, {5, 3});
#define CROSSTALK_MAP_ORACLE(name, function, ...)    \
  [[maybe_unused]] const bool name##_has_an_oracle = \
      map_oracles().emplace(#name, MapOracle{function, {__VA_ARGS__}}).second

inline const char* name_of(FeatureMap map) {
#define CROSSTALK_NAME(name) \
  case FeatureMap::name:     \
    return #name;
  switch (map) { CROSSTALK_FEATURE_MAPS(CROSSTALK_NAME) }
#undef CROSSTALK_NAME
  return "";
}

inline std::vector<FeatureMap> every_map() {
#define CROSSTALK_LIST(name) FeatureMap::name,
  return {CROSSTALK_FEATURE_MAPS(CROSSTALK_LIST)};
#undef CROSSTALK_LIST
}

/// Features of rows of width d, one after the other.
inline Numbers features_of(FeatureMap map, int number, const Numbers& x, int d, const Numbers& omega = {}) {
  const int N = static_cast<int>(x.size()) / d, m = static_cast<int>(omega.size()) / d,
            p = map_width(map, d, number, m);
  TensorSet<double> set;
  set.reals.add("x", 1, {N, d});
  if (m > 0) set.reals.add("omega", 1, {m, d});
  set.reals.add("y", 1, {N, p});
  set.allocate();
  upload(Device::cpu, set.real("x"), 0, x);
  if (m > 0) upload(Device::cpu, set.real("omega"), 0, omega);
  forward(Exec{},
          MapFeatures<double>{
              map, number, {set.real("x")}, {m > 0 ? set.real("omega") : Tensor<double>{}}, {set.real("y")}});
  return download(Device::cpu, set.real("y"), 0);
}

/// Normal numbers, for laws.
inline Numbers normal_numbers(std::size_t n, std::uint32_t stream, double scale = 1) {
  RandomStream random(31, RandomDomain::initialisation, stream);
  Numbers x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(scale * normal_from_uniform(random.uniform()));
  return x;
}

inline double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Features whose product is a polynomial of degree n of q.k: one a monomial x_0^a_0 x_1^a_1 .. of degree n,
/// x_0 = 1, times sqrt(weight(a)); the exponent of the last variable slowest.
inline Numbers monomials(const Numbers& x, int n,
                         const std::function<double(const std::vector<int>& a)>& weight) {
  Numbers y;
  std::vector<int> a(x.size() + 1, 0);
  const std::function<void(std::size_t, int)> each = [&](std::size_t last, int degree) {
    if (last == 0) {
      a[0] = degree;
      y.push_back(std::sqrt(weight(a)));
      for (std::size_t v = 1; v < a.size(); ++v) y.back() *= std::pow(x[v - 1], a[v]);
      return;
    }
    for (a[last] = 0; a[last] <= degree; ++a[last]) each(last - 1, degree - a[last]);
  };
  each(x.size(), n);
  return y;
}

/// phi(q).phi(k) is polynomial(q.k, n); there are C(d + n, n) features: none is written twice, as in the full
/// tensor power.
inline void expect_monomials(FeatureMap map, double (*polynomial)(double s, int n)) {
  for (const int n : {1, 2, 3, 4, 6}) {
    for (const int d : {1, 3, 6}) {
      const auto size = static_cast<std::size_t>(d);
      const Numbers q = normal_numbers(size, 5), k = normal_numbers(size, 6);
      const Numbers a = features_of(map, n, q, d), b = features_of(map, n, k, d);
      const double scale = std::sqrt(dot(a, a) * dot(b, b));
      EXPECT_NEAR(dot(a, b), polynomial(dot(q, k), n), 1e-14 * scale) << "n = " << n << ", d = " << d;
    }
  }
  for (const auto& [d, n, p] :
       {std::tuple{64, 1, 65}, {64, 2, 2145}, {16, 4, 4845}, {8, 8, 12870}, {3, 2, 10}})
    EXPECT_EQ(map_width(map, d, n, 0), p);
}

/// Rows of `matrix` times x.
inline Numbers times_rows(const Numbers& matrix, const Numbers& x) {
  Numbers y;
  for (std::size_t row = 0; row < matrix.size() / x.size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += matrix[row * x.size() + i] * x[i];
    y.push_back(sum);
  }
  return y;
}

/// Mean of `draws` numbers and the standard error of it.
struct Mean {
  double mean = 0, error = 0;
};
inline Mean mean_of(int draws, const std::function<double(int draw)>& f) {
  double sum = 0, squares = 0;
  for (int i = 0; i < draws; ++i) {
    const double x = f(i);
    sum += x, squares += x * x;
  }
  const double mean = sum / draws;
  return {mean, std::sqrt((squares / draws - mean * mean) / (draws - 1))};
}

}  // namespace crosstalk::checks
